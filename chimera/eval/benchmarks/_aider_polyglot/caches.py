"""What test suites need from package registries, fetched once and then only read.

`chimera prepare aider-polyglot` or the first run fills the caches; trials mount them read-only and
never touch the network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from chimera.cache import file_digest, made, made_once
from chimera.errors import EnvironmentFault
from chimera.eval.benchmarks._aider_polyglot.toolchains import missing_requirements
from chimera.text import log_end

#: Raised when what a cache holds changes, so that an older one is not taken for it.
VERSION = 2
PREPARE_TIMEOUT = 1200.0
#: Stands before the compiler: hands out the compiled test main when its source is the known one.
LAUNCHER = Path(__file__).parent / "launcher.sh"

PYTEST = "pytest==8.3.5"
NODE_PACKAGES = {
    "@babel/core": "^7.25.2",
    "@exercism/babel-preset-javascript": "0.2.1",
    "babel-jest": "^29.6.4",
    "core-js": "~3.37.1",
    "jest": "^29.7.0",
}
#: Crates that manifests of the exercises and of their reference solutions name.
CRATES = (
    ("anyhow", "1.0"),
    ("counter", "0.5.2"),
    ("itertools", "0.5"),
    ("num-bigint", "0.4.4"),
    ("num-traits", "0.2.16"),
    ("permutohedron", "0.2"),
    ("rand", "0.3.12"),
    ("rand", "0.8"),
    ("regex", "0.2"),
    ("thiserror", "1.0"),
    ("time", "0.3"),
)
JARS = (
    ("org.junit.platform", "junit-platform-console-standalone", "1.10.0"),
    ("org.assertj", "assertj-core", "3.25.1"),
    ("org.json", "json", "20190722"),
    ("io.reactivex.rxjava2", "rxjava", "2.2.12"),
)
#: Packages of the standard library whose compiled form is kept, so that no run compiles them.
GO_PACKAGES = """
bufio bytes cmp container/heap container/list context encoding/json errors flag fmt io
maps math math/big math/bits math/rand os reflect regexp runtime slices sort strconv
strings sync sync/atomic testing testing/quick text/tabwriter text/template time unicode
unicode/utf8
""".split()  # noqa: SIM905 - a list of 34 lines says no more


def ready_cache(language: str) -> Path:
    """The filled cache of a language, or an error that says how to fill it."""
    missing = missing_requirements(language)
    if missing:
        names = ", ".join(f"{need.what} ({need.install_command})" for need in missing)
        raise EnvironmentFault(f"{language} exercises need {names}")
    place = made("polyglot", f"{language}-{VERSION}")
    if place is None:
        raise EnvironmentFault(
            f"the packages of {language} exercises are not fetched yet: "
            f"chimera prepare aider-polyglot --option language={language}"
        )
    return place


def is_ready(language: str) -> bool:
    """Whether the cache of a language is filled."""
    return made("polyglot", f"{language}-{VERSION}") is not None


def prepare(language: str) -> Path:
    """Fill a language's cache; nothing happens when it is filled already."""
    return made_once("polyglot", f"{language}-{VERSION}", PREPARE[language])


def _python(place: Path) -> None:
    _run([sys.executable, "-I", "-m", "venv", "--clear", str(place / "venv")], place)
    pip = [str(place / "venv/bin/python"), "-I", "-m", "pip", "install", "--quiet"]
    _run([*pip, "--disable-pip-version-check", PYTEST], place)


def _javascript(place: Path) -> None:
    manifest = {"name": "exercises", "private": True, "dependencies": NODE_PACKAGES}
    (place / "package.json").write_text(json.dumps(manifest))
    _run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], place)


def _rust(place: Path) -> None:
    lines = ["[package]", 'name = "exercises"', 'version = "0.1.0"', 'edition = "2021"']
    lines += ["[dependencies]"]
    for name, version in CRATES:
        alias = f"{name}-{version}".replace(".", "-")
        lines.append(f'{alias} = {{ package = "{name}", version = "{version}" }}')
    (place / "src").mkdir()
    (place / "src/lib.rs").write_text("")
    (place / "Cargo.toml").write_text("\n".join(lines) + "\n")
    _run(["cargo", "vendor", "--quiet", "--versioned-dirs", "vendor"], place)


def _go(place: Path) -> None:
    module = place / "warm"
    module.mkdir()
    imports = "\n".join(f'_ "{name}"' for name in GO_PACKAGES if name != "testing")
    (module / "go.mod").write_text("module warm\n\ngo 1.18\n")
    (module / "warm.go").write_text("package warm\n")
    (module / "warm_test.go").write_text(
        f'package warm\n\nimport (\n"testing"\n{imports}\n)\n\nfunc TestWarm(t *testing.T) {{}}\n'
    )
    _run(
        ["go", "test", "./..."],
        module,
        {"GOCACHE": str(place / "build"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"},
    )


def _java(place: Path) -> None:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, name, version in JARS
    )
    (place / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>chimera</groupId><artifactId>exercises</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    _run(
        ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={place / 'jars'}"],
        place,
    )


def _cpp(place: Path) -> None:
    """Nothing to fetch: the test library is one header that comes with every exercise."""


PREPARE: Mapping[str, Callable[[Path], None]] = {
    "cpp": _cpp,
    "go": _go,
    "java": _java,
    "javascript": _javascript,
    "python": _python,
    "rust": _rust,
}


def precompiled_main(exercise: Path) -> Path | None:
    """A directory with the compiled test main of a C++ exercise, which takes longest to compile.

    All exercises ship the same source and header; it is compiled once, with the flags that their
    CMakeLists.txt sets, and kept under both files' digest. None when an exercise has no such file.
    """
    source, header = exercise / "test/tests-main.cpp", exercise / "test/catch.hpp"
    if not (source.is_file() and header.is_file()):
        return None
    ready_cache("cpp")

    def compiled(place: Path) -> None:
        for file in (source, header, LAUNCHER):
            shutil.copy(file, place / file.name)
        (place / LAUNCHER.name).chmod(0o755)
        flags = ["-g", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        _run(["g++", *flags, "-c", "tests-main.cpp", "-o", "tests-main.o"], place)

    return made_once("polyglot-main", file_digest(source.parent)[:16], compiled)


def _run(command: Sequence[str], cwd: Path, variables: Mapping[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PREPARE_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault(f"{' '.join(command[:3])}: {error}") from None
    if done.returncode != 0:
        said = log_end(done.stdout.decode("utf-8", "replace"))
        raise EnvironmentFault(f"{' '.join(command[:3])} ended with {done.returncode}: {said}")
