#!/usr/bin/env bash
# Builds wheel and sdist, and shows that the installed wheel works: not an editable checkout, in an
# empty home, with the weights of the embedded model fetched on first use.
# Usage: scripts/check-package.sh PYTHON [FOLDER]    PYTHON has hatchling; the archives go to FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archives=${2:-$work/dist}

"$python" -m hatchling build --directory "$archives" >/dev/null
ls -l "$archives"

# where packages come from is the machine's business, and stays the same in an empty home
mapfile -t index < <(env | grep -E '^(PIP_|SSL_CERT|REQUESTS_CA|https?_proxy|HTTPS?_PROXY|no_proxy)' || true)
config=$("$python" -m pip config list 2>/dev/null | sed -n "s/^[a-z]*\.index-url='\(.*\)'/\1/p" | head -n 1)
[ -z "$config" ] || index+=("PIP_INDEX_URL=$config")
mkdir "$work/home" "$work/here"

# installed PYTHON VENV: the wheel with its locked dependencies
installed() {
    "$1" -m venv "$2"
    "$2/bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements/demo.txt
    "$2/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps "$archives"/chimera_eval-*.whl
}

# chimera VENV ARGUMENTS: the command in an empty home and another directory
chimera() {
    (cd "$work/here" && env -i HOME="$work/home" PATH="$1/bin:/usr/bin:/bin" "${index[@]}" "$1/bin/chimera" "${@:2}")
}

tried=0
for version in 3.11 3.12 3.13 3.14; do
    program=$(command -v "python$version" || true)
    "${program:-false}" -c 'import ensurepip' 2>/dev/null || { echo "Python $version: not here, not tried"; continue; }
    venv=$work/$version
    installed "$program" "$venv"
    chimera "$venv" eval --benchmark human-eval --agent oracle --limit 5 --fail-under 1 >/dev/null
    echo "Python $version: the installed wheel grades"
    tried=$((tried + 1))
done
[ "$tried" -gt 0 ] || { installed "$python" "$work/3"; venv=$work/3; }

chimera "$venv" --version
chimera "$venv" models pull
chimera "$venv" eval --benchmark human-eval --model local/smollm2 --limit 2 --max-tokens 100
chimera "$venv" grade latest --check
chimera "$venv" doctor | grep -E '^  ok +local/smollm2'
"$venv/bin/python" -c 'import importlib.resources as r; assert (r.files("chimera") / "py.typed").is_file()'
echo "the installed wheel works"
