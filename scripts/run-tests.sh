#!/usr/bin/env bash
# Runs the tests with a Docker engine where one can be had, and ends what it started.
# Usage: scripts/run-tests.sh PYTHON [pytest options]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
shift
image='' engine='' images='' temporary=''

end() {
    [ -z "$image" ] || kill -- "-$image" 2>/dev/null || true
    [ -z "$engine" ] || kill "$engine" 2>/dev/null || true
    wait 2>/dev/null || true
    [ -z "$images" ] || rm -rf "$images"
    [ -z "$temporary" ] || rm -rf "$temporary"
}
trap end EXIT

# What is made here is gone afterwards: in memory, where there is plenty, since a disk's pace decides else.
free=$(df --output=avail --block-size=1M /dev/shm 2>/dev/null | tail -n 1)
memory=$([ "${free:-0}" -gt 8000 ] && echo /dev/shm || true)
if [ -n "$memory" ] && [ -z "${TMPDIR:-}" ]; then
    temporary=$(mktemp -d -p "$memory" tests.XXXXXX)
    chmod 1777 "$temporary"  # as /tmp is: some tests run as other users
    export TMPDIR=$temporary
fi

if ! docker info >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v dockerd >/dev/null; then
    log=$(mktemp)
    # An engine that was killed leaves its number behind, which another process may have by now.
    pgrep -x dockerd >/dev/null || rm -f /var/run/docker.pid
    pgrep -x containerd >/dev/null || rm -f /var/run/docker/containerd/containerd.pid
    images=$(mktemp -d -p "${memory:-/var/tmp}" docker.XXXXXX)
    dockerd --data-root "$images" >"$log" 2>&1 &
    engine=$!
    for _ in $(seq 60); do
        docker info >/dev/null 2>&1 && break
        kill -0 "$engine" 2>/dev/null || { echo "dockerd did not start:" >&2; tail -n 5 "$log" >&2; break; }
        sleep 0.5
    done
fi

# A browser's first start reads hundreds of megabytes: not beside an image that is being made.
command -v chromium >/dev/null && { chromium --version >/dev/null 2>&1 || true; }

# Made while tests that do not need it run; the packages are unpacked once a month.
export KEPT=${CHIMERA_CACHE_DIR:-$HOME/.cache/chimera}/test-environments/systems
if [ "$(id -u)" = 0 ] && docker info >/dev/null 2>&1; then
    setsid scripts/docker-base.sh >/dev/null 2>&1 &
    image=$!
fi

# Hundreds of tests start `chimera`, some where nothing can be written: compile it once.
"$python" -m compileall -q chimera
PATH="$(cd "$(dirname "$python")" && pwd):$PATH" "$python" -m pytest --numprocesses 3 --dist loadgroup "$@"
