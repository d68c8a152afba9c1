#!/bin/sh
# Makes the image chimera-base:bookworm from the Debian archive, for machines that cannot pull one.
#
#   scripts/docker-base.sh [TAG]
#
# Nothing is done when the tag is already there. Needs root, debootstrap and a running engine.
# DOCKER names another client (podman), DEBIAN_MIRROR an archive (default: the one apt uses).
set -eu

tag=${1:-chimera-base:bookworm}
engine=${DOCKER:-docker}
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)}

if "$engine" image inspect "$tag" >/dev/null 2>&1; then
    echo "$tag is there"
    exit 0
fi
for program in debootstrap "$engine"; do
    command -v "$program" >/dev/null || { echo "docker-base: '$program' is not installed" >&2; exit 1; }
done

root=$(mktemp -d "${TMPDIR:-/tmp}/chimera-base.XXXXXX")
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase \
    --include=ca-certificates,curl,git,patch,procps,python3,python3-pytest,python3-venv,tmux \
    bookworm "$root/system" "$mirror" >"$root/log" 2>&1 || { tail -n 20 "$root/log" >&2; exit 1; }
rm -rf "$root"/system/var/cache/apt/archives/*.deb "$root"/system/var/lib/apt/lists/*
tar -C "$root/system" -c . | "$engine" import \
    --change 'CMD ["/bin/bash"]' --change 'ENV LANG=C.UTF-8' - "$tag" >/dev/null
echo "$tag made"
