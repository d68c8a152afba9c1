"""Where a domain's files are, and the worlds made from them.

Two layouts are read: one directory a domain (`airline/tasks.json`, `airline/db.json`, … packed or
not), and a clone of the official repository (`data/tau2/domains/airline/…`).
"""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera.errors import DatasetError
from chimera.eval.benchmarks._tau_bench.kernel import Table, World, fresh
from chimera.eval.data.datasets import datasets_dir

if TYPE_CHECKING:
    from chimera.eval.benchmarks._tau_bench.legacy import LegacyToolkit

#: Tables of the first tau-bench, in the order they are loaded.
LEGACY_TABLES = {
    "airline": ("flights", "reservations", "users"),
    "retail": ("orders", "products", "users"),
}
LEGACY_SPLITS = {"airline": ("test",), "retail": ("test", "train", "dev")}


def read(path: Path) -> Any:
    """A JSON, TOML or text file, packed (`.gz`) or not."""
    packed = path.with_name(path.name + ".gz")
    try:
        content = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
        if path.suffix == ".json":
            return json.loads(content)
        if path.suffix == ".toml":
            return tomllib.loads(content.decode())
        return content.decode()
    except (OSError, EOFError, ValueError) as error:
        raise DatasetError(f"{path}: {error}") from None


def _home(slug: str) -> Path:
    return datasets_dir() / slug


def _no_domain(place: Path, name: str) -> DatasetError:
    if place.is_file() or any(place.glob(f"{name}*.json*")):
        return DatasetError(
            f"{place}: these are tasks of '{name}' without its database: put the domain's other "
            f"files into the directory {(place.parent if place.is_file() else place) / name}"
        )
    return DatasetError(f"{place}: no directory '{name}' with the domain's data")


def _text(path: Path) -> str:
    """A text that some copies of the data keep as .txt instead of .md."""
    plain = path.with_suffix(".txt")
    return str(read(plain if plain.exists() and not exists(path) else path))


def exists(path: Path) -> bool:
    return path.exists() or path.with_name(path.name + ".gz").exists()


@dataclass(frozen=True, slots=True)
class Domain:
    """One domain of tau2-bench on disk."""

    name: str
    root: Path  # the directory with one directory a domain
    task_file: Path | None = None  # the tasks, where they do not lie with the rest

    @classmethod
    def at(cls, place: Path, name: str) -> Domain:
        """The domain in a directory or a clone; a file holds its tasks, the rest is beside it."""
        file = place if place.is_file() else None
        places = [place]
        if file is not None:
            places = [place.parent, place.parent.parent, _home("tau2-bench")]
        inner = ("", "data/tau2/domains", "data/domains", "domains")
        for root in (base / part for base in places for part in inner):
            if (root / name).is_dir():
                return cls(name, root, file)
        raise _no_domain(place, name)

    @property
    def folder(self) -> Path:
        return self.root / self.name

    def tasks(self, split: str | None) -> Sequence[Mapping[str, Any]]:
        """The tasks of a split; None is the split `base` where there is one."""
        splits = self._splits()
        wanted = split or "base"
        if split is not None and split != "base" and split not in splits:
            known = ", ".join(splits) or "base"
            raise DatasetError(f"{self.folder}: no split '{split}'; it has: {known}")
        tasks = self.all_tasks()
        if wanted not in splits:
            return tasks
        members = set(splits[wanted])
        return [task for task in tasks if str(task["id"]) in members]

    def _splits(self) -> Mapping[str, Sequence[str]]:
        path = self.folder / "split_tasks.json"
        return read(path) if exists(path) else {}

    @property
    def source(self) -> Path:
        return self.task_file or self.folder

    def all_tasks(self) -> Sequence[Mapping[str, Any]]:
        """The tasks of every split."""
        path = self.task_file or self.folder / "tasks.json"
        if exists(path):
            content = read(path)
            return content["tasks"] if isinstance(content, dict) else content  # type: ignore[no-any-return]
        files = sorted((self.folder / "tasks").glob("task_*.json"))
        if not files:
            raise DatasetError(f"{self.folder}: no tasks.json")
        return [read(file) for file in files]

    def policy(self, task: Mapping[str, Any], variant: str = "") -> str:
        """What the agent is told of its duties."""
        if self.name == "telecom":
            main = _text(self.folder / "main_policy.md")
            manual = _text(self.folder / "tech_support_manual.md")
            return (
                f"<main_policy>\n{main}\n</main_policy>\n"
                f"<tech_support_policy>\n{manual}\n</tech_support_policy>"
            )
        if self.name == "banking_knowledge":
            from chimera.eval.benchmarks._tau_bench.knowledge import policy

            return policy(self.folder, task, variant)
        return _text(self.folder / "policy.md")

    def guidelines(self, *, with_tools: bool) -> str | None:
        """The data set's own rules for simulated users, where it has them."""
        name = f"simulation_guidelines{'_tools' if with_tools else ''}.md"
        joined = self.root / "user_simulator_guidelines.json"
        if exists(joined):
            return str(read(joined)[name])
        single = self.root.parent / "user_simulator" / name
        found = [path for path in (single, single.with_suffix(".txt")) if path.exists()]
        return found[0].read_text("utf-8") if found else None

    def world(self, task: Mapping[str, Any] | None = None, variant: str = "") -> World:
        """A fresh world; the task decides what banking logs and which documents it shows."""
        return _MAKERS[self.name](self.folder, task or {}, variant)


def _airline(folder: Path, task: Mapping[str, Any], variant: str) -> World:
    from chimera.eval.benchmarks._tau_bench.airline import AirlineTools

    return World(AirlineTools(fresh(_shared(folder / "db.json", AirlineTools.load))))


def _retail(folder: Path, task: Mapping[str, Any], variant: str) -> World:
    from chimera.eval.benchmarks._tau_bench.retail import RetailTools

    return World(RetailTools(fresh(_shared(folder / "db.json", RetailTools.load))))


def _mock(folder: Path, task: Mapping[str, Any], variant: str) -> World:
    from chimera.eval.benchmarks._tau_bench.mock import MockTools, MockUserTools

    agent = MockTools(_database(folder / "db.json", MockTools.load))
    user_file = folder / "user_db.json"
    if not exists(user_file):
        return World(agent)
    return World(agent, MockUserTools(_database(user_file, MockUserTools.load)))


def _telecom(folder: Path, task: Mapping[str, Any], variant: str) -> World:
    from chimera.eval.benchmarks._tau_bench.phone_scenes import TelecomUserTools
    from chimera.eval.benchmarks._tau_bench.telecom import TelecomTools, synchronise

    agent = TelecomTools(_database(folder / "db.toml", TelecomTools.load))
    user = TelecomUserTools(_database(folder / "user_db.toml", TelecomUserTools.load))
    return World(agent, user, synchronise)


def _banking(folder: Path, task: Mapping[str, Any], variant: str) -> World:
    from chimera.eval.benchmarks._tau_bench import knowledge

    db = _database(folder / "db.json", knowledge.SearchingTools.load)
    return knowledge.world(folder, db, task, variant)


_MAKERS: Mapping[str, Callable[[Path, Mapping[str, Any], str], World]] = {
    "airline": _airline,
    "retail": _retail,
    "telecom": _telecom,
    "banking_knowledge": _banking,
    "mock": _mock,
}


def _database(path: Path, load: Callable[[Any], Any]) -> Any:
    """A small database, copied whole."""
    return deepcopy(_shared(path, load))


def _shared(path: Path, load: Callable[[Any], Any]) -> Any:
    """A database as it was loaded once for all; it must not be changed."""
    found = path if path.exists() else path.with_name(path.name + ".gz")
    if not found.exists():
        raise DatasetError(f"no database at {path}")
    return _loaded(path, found.stat().st_mtime_ns, load)


@lru_cache(maxsize=16)
def _loaded(path: Path, modified: int, load: Callable[[Any], Any]) -> Any:
    try:
        return load(read(path))
    except ValueError as error:  # pydantic's reports are ValueErrors
        raise DatasetError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class LegacyDomain:
    """One domain of the first tau-bench on disk: `airline/tasks_test.json`, users, wiki, …

    Tasks may also lie apart, in a file of their own or as `airline.json`, `retail_train.json`.
    """

    name: str
    folder: Path
    tasks_at: Path

    @classmethod
    def at(cls, place: Path, name: str) -> LegacyDomain:
        """The domain in a directory or a clone; tasks that lie apart need the tables elsewhere."""
        for folder in (place / name, place / "tau_bench" / "envs" / name):
            if folder.is_dir():
                return cls(name, folder, place)
        apart = place.is_file() or any(place.glob(f"{name}*.json*"))
        for folder in (place.parent / name, place.parent, _home("tau-bench") / name):
            if apart and exists(folder / f"{LEGACY_TABLES[name][0]}.json"):
                return cls(name, folder, place)
        raise _no_domain(place, name)

    @property
    def source(self) -> Path:
        return self.tasks_at if self.tasks_at.is_file() else self.folder

    def tasks(self, split: str) -> Sequence[Mapping[str, Any]]:
        if split not in LEGACY_SPLITS[self.name]:
            known = ", ".join(LEGACY_SPLITS[self.name])
            raise DatasetError(f"tau-bench {self.name} has no split '{split}'; it has: {known}")
        path = self.folder / f"tasks_{split}.json"
        staged = [path, self.tasks_at / f"{self.name}_{split}.json"]
        if split == "test":
            staged.append(self.tasks_at / f"{self.name}.json")
        for file in [self.tasks_at] if self.tasks_at.is_file() else staged:
            if exists(file):
                content = read(file)
                return content["tasks"] if isinstance(content, dict) else content  # type: ignore[no-any-return]
        source = path.with_suffix(".py")
        if not source.exists():
            raise DatasetError(f"{self.folder}: neither tasks_{split}.json nor tasks_{split}.py")
        from chimera.eval.benchmarks._tau_bench.literals import tasks_from_source

        return tasks_from_source(source)

    def policy(self) -> str:
        return str(read(self.folder / "wiki.md"))

    def toolkit(self) -> LegacyToolkit:
        from chimera.eval.benchmarks._tau_bench import legacy

        kind = legacy.LegacyAirline if self.name == "airline" else legacy.LegacyRetail
        data: dict[str, Any] = {}
        for table in LEGACY_TABLES[self.name]:
            path = self.folder / f"{table}.json"
            if not exists(path):
                path = self.folder / "data" / f"{table}.json"
            data[table] = Table(_shared(path, dict))
        return kind(data)
