"""Settings of classic rows, read off a package that is laid out as swebench 4 is."""

from __future__ import annotations

import pytest

from chimera.errors import GraderError, UsageError
from chimera.eval.kits.patches.diffs import new_file
from chimera.eval.kits.repositories import swebench_specs
from chimera.eval.kits.repositories.swe_instance import Annexes, SWEBenchInstance

CONSTANTS = """\
MAP_REPO_VERSION_TO_SPECS_PY = {
    "a/a": {"1.0": {"python": "3.9", "packages": "'numpy==1.2' scipy", "test_cmd": "pytest -rA",
                    "pip_packages": ["attrs==1"]},
            "2.0": {"python": "3.6", "packages": "requirements.txt", "test_cmd": ["x", "pytest"]}},
}
MAP_REPO_TO_REQS_PATHS = {"a/a": ["absent.txt", "dev/listed.txt"]}
MAP_REPO_TO_ENV_YML_PATHS = {}
"""
PARSERS = "from nowhere import *\nMAP_REPO_TO_PARSER_PY = {'a/a': parse_log_pytest}\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    for name, content in (("constants", CONSTANTS), ("log_parsers", PARSERS)):
        folder = tmp_path / "swebench" / "harness" / name
        folder.mkdir(parents=True)
        (folder / "python.py").write_text(content)
    (tmp_path / "swebench" / "__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    swebench_specs._tables.cache_clear()
    swebench_specs._parsers.cache_clear()


@pytest.fixture(autouse=True)
def fresh():
    swebench_specs._tables.cache_clear()
    swebench_specs._parsers.cache_clear()


def instance(version: str) -> SWEBenchInstance:
    return SWEBenchInstance(
        "a__a-1", "a/a", "0", "", version=version, test_patch=new_file("t/test_a.py", "x\n")
    )


def test_a_classic_row_is_completed(package):
    made = Annexes().complete(instance("1.0"))

    assert (made.python, made.test_command, made.log_parser) == (
        "3.9",
        "pytest -rA t/test_a.py",
        "parse_log_pytest",
    )
    assert made.requirements == ("numpy==1.2", "scipy", "attrs==1")


def test_files_of_the_repository_list_the_rest(package, tmp_path):
    made = Annexes().complete(instance("2.0"))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "listed.txt").write_text("-r more.txt\n# no\n-e .\nflake8  # yes\n")
    (tmp_path / "dev" / "more.txt").write_text("pytest>=6\n")

    found = swebench_specs.listed_requirements(tmp_path, made.requirement_files)

    assert made.test_command == "pytest t/test_a.py"
    assert found == ("pytest>=6", "flake8")


def test_a_conda_environment_lists_names(tmp_path):
    text = "name: x\nchannels:\n  - conda-forge\ndependencies:\n  - python=3.8\n  - numpy=1.2\n"
    (tmp_path / "e.yml").write_text(f"{text}  - scipy>=1  # why\n  - pip:\n    - cmocean\n")

    found = swebench_specs.listed_requirements(tmp_path, ("e.yml",))

    assert found == ("numpy==1.2", "scipy>=1", "cmocean")


def test_without_the_package_it_is_said_what_is_missing():
    made = Annexes().complete(instance("1.0"))

    with pytest.raises(GraderError, match="swebench 4"):
        made.plan(timeout=1, in_official_image=False)
    with pytest.raises(UsageError, match="swebench 4"):
        made.setup("git", None, {})
