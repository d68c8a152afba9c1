#!/usr/bin/env bash
# Installs the Debian packages that a goal needs, where this is Debian and we are root.
# Usage: scripts/system-packages.sh demo|test
set -euo pipefail

declare -A package=(
    [bwrap]=bubblewrap
    [git]=git
)
if [ "${1:-demo}" = test ]; then
    package+=(
        [cargo]=cargo
        [chromium]=chromium
        [cmake]=cmake
        [debootstrap]=debootstrap
        [dockerd]=docker.io
        [g++]=g++
        [go]=golang
        [javac]=default-jdk-headless
        [make]=make
        [mvn]=maven
        [npm]=npm
        [patch]=patch
        [pgrep]=procps
        [sshd]=openssh-server
        [tmux]=tmux
    )
fi

# A program that is on the PATH and does not run (a version manager's proxy without a toolchain) is missing.
runs() {
    "$1" --version >/dev/null 2>&1 || "$1" version >/dev/null 2>&1 || "$1" -V >/dev/null 2>&1
}

missing=()
for program in "${!package[@]}"; do
    runs "$program" || missing+=("${package[$program]}")
done
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
# Exercises in C++ want a header, which no program stands for.
if [ "${1:-demo}" = test ] && [ ! -e /usr/include/boost/date_time.hpp ]; then
    missing+=(libboost-date-time-dev)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Not installed, and this is not root on Debian: ${missing[*]}" >&2
    echo "What needs them is skipped or runs with less confinement; \`chimera doctor\` says more." >&2
    exit 0
fi
echo "Installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install --yes --no-install-recommends "${missing[@]}" >/dev/null
