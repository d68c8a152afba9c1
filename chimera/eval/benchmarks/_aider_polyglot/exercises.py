"""An exercise of the upstream repository: which of its files are what."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from chimera.errors import DatasetError
from chimera.eval.benchmarks._aider_polyglot.languages import LANGUAGES, Language
from chimera.eval.data.archives import archives_in, unpacked
from chimera.eval.data.rows import Row

#: Files that are part of a solution upstream but that nobody may edit.
READ_ONLY = frozenset({"CMakeLists.txt", "Cargo.toml"})
HIDDEN = (".meta", ".docs", ".approaches", ".articles")


def exercises_source(place: Path) -> Path | None:
    """What to read at a place: a tasks.json, an archive, or a directory of exercises."""
    if place.is_file() or is_exercises_root(place):
        return place
    if (place / "tasks.json").is_file():
        return place / "tasks.json"
    clones = (each for each in sorted(place.iterdir()) if each.is_dir())
    return next(iter((*filter(is_exercises_root, clones), *archives_in(place))), None)


def exercises_in(source: Path) -> Path:
    """The directory above the languages', in a directory or an archive (unpacked once)."""
    place = unpacked(source) if source.is_file() else source
    for root in (place, *sorted(p for p in place.iterdir() if p.is_dir())):
        if is_exercises_root(root):
            return root
    raise DatasetError(
        f"{place}: neither a tasks.json nor LANGUAGE/exercises/practice/NAME directories"
    )


def is_exercises_root(place: Path) -> bool:
    return any((place / language / "exercises/practice").is_dir() for language in LANGUAGES)


def exercise_files(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.rglob("*")):
        top = path.relative_to(directory).parts[0]
        if path.is_file() and not path.is_symlink() and top not in HIDDEN:
            yield path


def tables_of_tests(directory: Path) -> list[str]:
    """Files that Go compiles for tests alone, which an exercise's record does not list as such."""
    found = [path.relative_to(directory).as_posix() for path in exercise_files(directory)]
    return [name for name in found if name.endswith("_test.go")]


def configured_files(directory: Path, row: Row) -> dict[str, list[str]]:
    """Which files are solution, test and example: by the exercise's own record, else by name."""
    config = directory / ".meta/config.json"
    if config.is_file():
        try:
            files = json.loads(config.read_text("utf-8"))["files"]
            return {kind: list(files.get(kind, ())) for kind in ("solution", "test", "example")}
        except (ValueError, KeyError, TypeError) as error:
            raise DatasetError(f"{config}: not an exercise's record: {error!r}") from None
    names = [p.relative_to(directory).as_posix() for p in exercise_files(directory)]
    tests = [name for name in names if re.search(r"test|spec", name, re.IGNORECASE)]
    expected = list(row.get("expected_files") or ())
    solution = expected or [name for name in names if name not in tests]
    return {"solution": solution, "test": [t for t in tests if t not in solution], "example": []}


def reference_files(directory: Path, files: Mapping[str, list[str]]) -> dict[str, str]:
    """Where each reference file belongs in the exercise.

    Reference files keep the place of their language's convention: same suffix as a solution file
    for one-file solutions, the path after `reference/` for Java, and an extra manifest for Rust.
    """
    places: dict[str, str] = {}
    solution = [name for name in files["solution"] if PurePosixPath(name).name not in READ_ONLY]
    for example in files["example"]:
        path = PurePosixPath(example)
        if "reference" in path.parts:
            for file in sorted((directory / example).parent.glob("*.java")):
                places[f"src/main/java/{file.name}"] = file.relative_to(directory).as_posix()
        else:
            same = [name for name in solution if PurePosixPath(name).suffix == path.suffix]
            if len(same) != 1:
                raise DatasetError(f"{directory}: no single place for the reference {example}")
            places[same[0]] = example
    if (directory / ".meta/Cargo-example.toml").is_file():
        places["Cargo.toml"] = ".meta/Cargo-example.toml"
    return places


def declared_tests(language: Language, directory: Path, tests: list[str]) -> list[str]:
    """Names of tests that must be in the report, read from the data set's own test files."""
    names: list[str] = []
    for test in tests:
        names += language.declared(language.unskip((directory / test).read_text("utf-8")))
    return names
