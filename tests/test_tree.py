"""The tree shows the architecture, and stays so; import-linter keeps the layers (`make check`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from chimera.eval.registry import adapters

#: One process: each reads and parses all modules.
pytestmark = pytest.mark.xdist_group("the tree")
ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "chimera"
ADAPTERS = PACKAGE / "eval" / "benchmarks"
KITS = PACKAGE / "eval" / "kits"
#: The adapters that are another one with other tasks or another rule.
FLAVOURS = {("swe_bench_verified", "swe_bench"), ("webarena_verified", "webarena")}


def dotted(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {dotted(file): file for file in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of Chimera that a module names, in an import or in a text that is a path."""
    found: set[str] = set()
    package = module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.partition(":")[0])
    return frozenset(found & modules().keys())


@cache
def constants(module: str) -> frozenset[str]:
    """All texts of a module's code."""
    nodes = (node.value for node in ast.walk(tree(module)) if isinstance(node, ast.Constant))
    return frozenset(value for value in nodes if isinstance(value, str))


def mentions(module: str) -> set[str]:
    """Modules beside or below that a text names by their word, or by that of their folder."""
    package = module.rpartition(".")[0]
    texts = [
        node.value
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200
    ]
    words = set(re.findall(r"\w+", " ".join(texts)))
    below = (name for name in modules() if name.startswith(f"{package}.") and name != module)
    return {name for name in below if words & set(name.removeprefix(package).split("."))}


def adapter_names() -> list[str]:
    return sorted(f.stem for f in ADAPTERS.glob("*.py") if not f.name.startswith("_"))


def homes() -> Iterator[tuple[str, str]]:
    """(module, the adapter whose home it lies in) for everything below the adapters."""
    for module in modules():
        parts = module.split(".")
        if parts[:3] == ["chimera", "eval", "benchmarks"] and len(parts) > 3:
            yield module, parts[3].removeprefix("_")


def test_a_private_folder_belongs_to_the_adapter_of_its_name():
    folders = {folder.name for folder in ADAPTERS.glob("_*/") if folder.name != "__pycache__"}

    assert {name.removeprefix("_") for name in folders} <= set(adapter_names())


def test_adapters_know_no_other_adapter_and_nobody_knows_their_private_parts():
    owner = dict(homes())
    wrong = [
        (module, used)
        for module in modules()
        for used in imports(module)
        if used in owner
        and module != "chimera.eval.benchmarks"
        and owner[used] != owner.get(module)
        and ((owner.get(module), owner[used]) not in FLAVOURS or "._" in used)
        and (module in owner or "._" in used)
    ]

    assert not wrong


def test_a_kit_has_at_least_two_users():
    owner = dict(homes())

    def users(kit: str, seen: frozenset[str] = frozenset()) -> set[str]:
        found = set()
        for module in modules():
            if not any(used == kit or used.startswith(f"{kit}.") for used in imports(module)):
                continue
            if module in owner:
                found.add(owner[module])
            elif module.startswith("chimera.eval.kits."):
                other = ".".join(module.split(".")[:4])
                if other != kit and other not in seen:
                    found |= users(other, seen | {kit})
        return found

    kits = sorted(
        {
            ".".join(m.split(".")[:4])
            for m in modules()
            if m.count(".") >= 3 and m.startswith("chimera.eval.kits.")
        }
    )

    assert kits
    assert {kit: names for kit in kits if len(names := users(kit)) < 2} == {}


def test_no_module_lives_for_tests_alone():
    used = {name for module in modules() for name in imports(module) | mentions(module)}
    loaded_by_name = {f"chimera.eval.benchmarks.{name}" for name in adapter_names()}
    doors = {"chimera.benchmarks.terminal_bench_agent", "chimera.shrew.benchmarks.aider_polyglot"}
    unused = {
        module
        for module, file in modules().items()
        if file.name not in ("__init__.py", "__main__.py")
        and module not in used | loaded_by_name | doors
    }

    assert unused == set()


@pytest.mark.parametrize("slug", sorted(adapters()))
def test_a_slug_stands_only_with_its_adapter(slug: str):
    places = [
        module
        for module in modules()
        if not module.startswith(("chimera.eval.benchmarks.", "chimera.shrew."))
        and slug in constants(module)
    ]

    assert places == []


@pytest.mark.parametrize("slug", sorted(adapters()))
def test_an_adapter_has_a_page_and_a_record_or_says_unproven(slug: str):
    page = (ROOT / "docs" / "benchmarks" / f"{slug}.md").read_text(encoding="utf-8")
    record = PACKAGE / "eval" / "proof" / "records" / f"{slug}.json"

    assert record.is_file() or "unproven" in page.lower()


def test_records_name_no_place_on_a_machine():
    """They are for everybody; a log's paths are of whoever made them."""
    places = re.compile(r"(?<![\w.~/-])/(?:home|root|tmp|work)/")
    named = [
        file.name
        for file in (ROOT / "chimera" / "eval" / "proof" / "records").iterdir()
        if file.is_file() and places.search(file.read_text(encoding="utf-8"))
    ]

    assert named == []


#: Where `git` stands in lists of words that are no command of this machine.
NO_COMMANDS = {"chimera.eval.kits.repositories.images"}  # packages of an image


def starts_git(node: ast.AST) -> bool:
    """Whether a node makes a command line of git, or looks for the program."""
    if isinstance(node, ast.List | ast.Tuple):
        first = node.elts[:1]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
        "which", "usable", "run", "Popen", "call", "check_call", "check_output", "system",
    ):  # fmt: skip
        first = node.args[:1]
    else:
        return False
    words = [each.value for each in first if isinstance(each, ast.Constant)]
    return any(isinstance(word, str) and word.split()[:1] == ["git"] for word in words)


def test_git_is_started_on_this_machine_in_one_way_only():
    """Modules that start no program write such words for machines where strangers' code runs."""
    assert starts_git(ast.parse("run(['git', 'x'])", mode="eval").body.args[0])
    starting = [
        name
        for name, file in modules().items()
        if "import subprocess" in file.read_text("utf-8") and name not in NO_COMMANDS
    ]
    found = {name for name in starting if any(map(starts_git, ast.walk(tree(name))))}
    assert found == {"chimera.git"}


def modules_by_name(module: str) -> Iterator[str]:
    """The command lines of a module that start Python with `-m` and a name."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.List | ast.Tuple):
            words = [e.value if isinstance(e, ast.Constant) else "…" for e in node.elts]
            for index in (i for i, word in enumerate(words) if word == "-m" and i):
                python = ast.unparse(node.elts[0])
                starts = "python" in python or "sys.executable" in python
                if starts and not {"-I", "-P"} & {*words[:index]}:
                    yield ast.unparse(node)


def test_python_starts_no_module_of_the_working_directory():
    found = {name: list(modules_by_name(name)) for name in modules()}
    assert {name for name, lines in found.items() if lines} == {
        "chimera.environments.testing",  # inside, where the working directory is what is tested
        "chimera.eval.kits.repositories.programs.build_project",  # inside too
    }
