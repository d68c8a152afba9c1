"""Classes by name and texts by type: one way for benchmarks, agents, tools and environments."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from json import JSONDecoder
from pathlib import Path
from typing import Any, Literal

import pytest

from chimera.errors import UsageError
from chimera.plugins import constructor_values, convert, is_own_code, load_class, pairs


class Kind:
    """What the classes of these tests are to be."""


class Made(Kind):
    def __init__(self, count: int = 1, names: Sequence[str] = (), secret: object = None) -> None:
        self.count, self.names, self.secret = count, names, secret


SHIPPED = {"made": f"{__name__}:Made", "other": "json:JSONDecoder"}


def load(name: str, **settings: Any) -> type[Kind]:
    return load_class(name, Kind, what="thing", shipped=SHIPPED, group="chimera.things", **settings)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "things_of_mine.py"
    path.write_text(f"from {__name__} import Kind\nclass Mine(Kind):\n    pass\n")
    yield path
    sys.modules.pop(path.stem, None)


def test_a_shipped_class_and_one_by_its_module():
    assert load("made") is Made
    assert load(f"{__name__}:Made") is Made


def test_a_class_in_a_file_is_loaded_once_and_can_be_sent_to_another_process(file: Path):
    found = load(f"{file}:Mine")

    assert load(f"{file}:Mine") is found
    assert isinstance(pickle.loads(pickle.dumps(found())), found)


def test_threads_that_ask_at_once_get_the_same_whole_class(file: Path):
    file.write_text("import time\ntime.sleep(0.2)\n" + file.read_text())

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(lambda _: load(f"{file}:Mine"), range(4)))

    assert len(found) == 1


def test_a_class_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    info = tmp_path / "things-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: things\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[chimera.things]\nplugged = {__name__}:Made\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert load("plugged") is Made
    with pytest.raises(UsageError, match="Known: made, more, other, plugged"):
        load("unknown", others=("more",))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("unknown", "unknown thing 'unknown'"),
        ("no.such.module:Made", "no module 'no.such.module'"),
        ("json:Made", "json has no 'Made'"),
        ("json:loads", "loads is no Kind class"),
        ("other", "JSONDecoder is no Kind class"),
        ("absent.py:Made", "no file absent.py"),
    ],
)
def test_what_cannot_be_loaded_is_said(name: str, says: str):
    with pytest.raises(UsageError, match=says):
        load(name)


def test_a_file_alone_is_enough_where_it_holds_one(file: Path):
    assert load(str(file)).__name__ == "Mine"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("class Other(Kind): pass", "several; name one of: .*:Mine, .*:Other"),
        ("Mine = None", "the file defines no Kind"),
    ],
)
def test_a_file_alone_that_holds_none_or_several_is_refused(file: Path, more: str, says: str):
    other = file.with_name(f"with_{len(more)}.py")
    other.write_text(f"{file.read_text()}{more}\n")

    with pytest.raises(UsageError, match=says):
        load(str(other))


def test_a_module_in_the_current_directory_and_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "lies_beside.py").write_text(f"from {__name__} import Kind\n")
    (tmp_path / "lies_here.py").write_text("import lies_beside\nclass It(lies_beside.Kind): pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])

    assert load("lies_here:It").__name__ == "It"


def test_where_any_class_will_do_the_file_holds_one_with_the_members(tmp_path: Path):
    file = tmp_path / "one_that_runs.py"
    file.write_text("class Helper: pass\nclass Runs:\n    def run(self): ...\n")
    found: type[Any] = load_class(
        str(file), object, what="agent", shipped={}, group="x", members=("run",)
    )

    assert found.__name__ == "Runs"


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("mine.py", True),
        ("a/b/mine.py:Mine", True),
        ("package.module:Mine", True),
        ("human-eval", False),
        ("qwen3:8b", False),
        ("openai/gpt-4o", False),
        ("command:claude -p {prompt}", False),
    ],
)
def test_names_of_code(name: str, own: bool):
    assert is_own_code(name) is own


@pytest.mark.parametrize(("name", "near"), [("mad", "'made'"), ("othr", "'other'")])
def test_a_mistyped_name_is_answered_with_the_near_one(name: str, near: str):
    with pytest.raises(UsageError, match=f"did you mean {near}"):
        load(name)


def test_a_mistyped_class_is_answered_with_the_near_one(file: Path):
    with pytest.raises(UsageError, match=r"no 'Mien'; did you mean 'Mine'\?"):
        load(f"{file}:Mien")


def test_a_file_cannot_take_the_name_of_a_module_that_is_loaded(tmp_path: Path):
    file = tmp_path / "json.py"
    file.write_text("class JSONDecoder: pass\n")

    with pytest.raises(UsageError, match="cannot be loaded as the module 'json'"):
        load(f"{file}:JSONDecoder")
    assert JSONDecoder().decode("1") == 1


def test_an_error_inside_a_plug_in_is_not_hidden(tmp_path: Path):
    (tmp_path / "breaks_on_import.py").write_text("import no_such_module_at_all\n")

    with pytest.raises(UsageError, match=r"no_such_module_at_all.* \(breaks_on_import.py:1\)"):
        load(f"{tmp_path / 'breaks_on_import.py'}:Mine")


def test_options_become_what_the_constructor_takes():
    given = {"count": "3", "names": "a, b"}

    assert constructor_values(Made, given, owner="it") == {"count": 3, "names": ["a", "b"]}
    with pytest.raises(UsageError, match="it has no option 'secret'\n  It has: count, names"):
        constructor_values(Made, {"secret": "x"}, owner="it", reserved=("secret",))


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("3", int, 3),
        ("3", float, 3.0),
        ("yes", bool, True),
        ("False", bool, False),
        ("/a", Path, Path("/a")),
        ("a", str, "a"),
        ("none", int | None, None),
        ("none", str, "none"),
        ("4", int | None, 4),
        ("x", int | str, "x"),
        ("2", Literal[1, 2], 2),
        ("b", Literal["a", "b"] | None, "b"),
        ("1,2", list[int], [1, 2]),
        ("a, b,", Sequence[str], ["a", "b"]),
        ("", Sequence[str] | None, None),
        ("x", Any, "x"),
    ],
)
def test_texts_become_what_parameters_are_annotated_with(text, annotation, value):
    assert convert(text, annotation, "key") == value


@pytest.mark.parametrize(("text", "annotation"), [("x", int), ("maybe", bool), ("1,x", list[int])])
def test_texts_that_fit_no_type_are_refused(text, annotation):
    with pytest.raises(UsageError, match="not a valid value"):
        convert(text, annotation, "key")


def test_pairs():
    assert pairs(["a=1", " b =x=y"], "--option") == {"a": "1", "b": "x=y"}
    with pytest.raises(UsageError, match="--option c: expected KEY=VALUE"):
        pairs(["c"], "--option")
