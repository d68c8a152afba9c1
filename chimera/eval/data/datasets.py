"""Where data sets lie, and the base class of adapters that read them."""

from __future__ import annotations

import inspect
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from chimera.cache import file_digest
from chimera.errors import DatasetError
from chimera.eval.benchmark import Benchmark, TaskT
from chimera.eval.data.rows import Row, row_place, rows
from chimera.eval.data.sources import Item
from chimera.eval.filed import Names, gathered
from chimera.eval.options import Options, field_types, ordered_fields
from chimera.text import bytes_text
from chimera.types import JSON


def datasets_dir() -> Path:
    configured = os.environ.get("CHIMERA_DATASETS_DIR")
    return Path(configured) if configured else Path.home() / ".chimera" / "datasets"


def path_variable(slug: str) -> str:
    """The environment variable that names this data set's place: CHIMERA_HUMAN_EVAL_PATH."""
    return f"CHIMERA_{slug.upper().replace('-', '_')}_PATH"


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where the data of a benchmark lie, as a value: nothing is read before it is asked."""

    slug: str
    #: One or two sentences that tell a person how to get the data.
    setup: str = ""
    #: Names or globs, tried in this order when the data set's place is a directory.
    files: Sequence[str] = ()
    #: (package, path inside it) of a copy that an installed Python package carries.
    packaged: tuple[str, str] | None = None
    #: Other data sets whose directory holds this one too.
    shares: Sequence[str] = ()
    #: The place that the user named.
    given: Path | None = None
    #: The file or directory to read in a place, where names do not tell; None when there is none.
    locate: Callable[[Path], Path | None] | None = None
    #: The command that fetches it, with what it costs in bytes and under which licence.
    fetch: str = ""

    def place(self) -> Path:
        """Where the data set is: option, variable, data set directory, installed package."""
        configured = self.given or os.environ.get(path_variable(self.slug))
        if configured:
            place = Path(configured).expanduser()
            if not place.exists():
                raise self.missing(place)
            return place
        for slug in (self.slug, *self.shares):
            if (place := datasets_dir() / slug).exists():
                return place
        if self.packaged is not None and (found := package_file(*self.packaged)):
            return found
        raise self.missing(datasets_dir() / self.slug)

    def source(self) -> Path:
        """The file or directory the rows are read from."""
        place = self.place()
        if self.locate is not None and (located := self.locate(place)) is not None:
            return located
        if place.is_dir() and self.files:
            for name in self.files:
                if found := sorted(place.glob(name)):
                    return found[0]
            raise self.missing(place)
        return place

    def missing(self, place: Path) -> DatasetError:
        fetch = f"  Fetch it: {self.fetch}\n" if self.fetch and self.given is None else ""
        hint = f"  {self.setup}\n" if self.setup else ""
        return DatasetError(
            f"no dataset for '{self.slug}' at {place}\n{fetch}{hint}"
            f"  Or point elsewhere with --dataset, or {path_variable(self.slug)}."
        )


class DatasetBenchmark(Benchmark[TaskT]):
    """A benchmark whose tasks are rows of a data set on disk.

    A subclass sets `slug` and `setup` and implements `task(row)` and `grade`. What a row lacks is
    reported with its place; an id that appears twice is refused. `option_type` is the dataclass
    of its options: the constructor takes their names, and `settings` holds their values.
    """

    #: One or two sentences that tell a person how to get the data.
    setup: ClassVar[str] = ""
    #: Names or globs looked for, in this order, when the data set's place is a directory; the
    #: values of options may stand in them: "{split}.jsonl".
    files: ClassVar[Sequence[str]] = ()
    #: (package, path inside it) of a copy that an installed Python package carries.
    packaged: ClassVar[tuple[str, str] | None] = None
    #: Other data sets whose directory holds this one too.
    shares: ClassVar[Sequence[str]] = ()
    #: What `chimera datasets pull` fetches, and the licence that its publisher states.
    sources: ClassVar[Sequence[Item]] = ()
    licence: ClassVar[str] = ""
    #: What the constructor calls the data set's place.
    path_parameter: ClassVar[str] = "dataset_path"

    #: The dataclass of its options.
    option_type: ClassVar[type[Options]] = Options
    settings: Options

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__init__" not in cls.__dict__ and cls.__init__ is DatasetBenchmark.__init__:
            cls.__signature__ = _signature(cls)  # type: ignore[attr-defined]

    def __init__(self, *positional: Any, **named: Any) -> None:
        bound = _signature(type(self)).bind(*positional, **named)
        given = dict(bound.arguments)
        place, limit = given.pop(self.path_parameter, None), given.pop("limit", None)
        if limit is not None and limit < 0:
            raise DatasetError(f"{self.slug}: limit must not be negative, got {limit}")
        self.dataset_path = Path(place) if place is not None else None
        self.limit: int | None = limit
        self.settings = self.option_type(**given)
        self._tasks: Sequence[TaskT] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Sent to another process without its data, which is read again there."""
        return {**self.__dict__, "_tasks": None}

    def name(self) -> str:
        return self.slug

    def options(self) -> dict[str, JSON]:
        return self.settings.outcome()

    @abstractmethod
    def task(self, row: Row) -> TaskT | None:
        """The task a row describes, or None when the options leave it out."""

    def tasks(self) -> Sequence[TaskT]:
        """All of them, in memory as long as they are few."""
        if self._tasks is None:
            self._tasks = gathered(self._load())
        return self._tasks

    def dataset(self) -> Dataset:
        """Where the data lie with these options."""
        chosen = {each.name: getattr(self.settings, each.name) for each in fields(self.option_type)}
        return Dataset(
            self.slug,
            setup=self.setup,
            files=[name.format(**chosen) for name in self.files],
            packaged=self.packaged,
            shares=self.shares,
            given=self.dataset_path,
            fetch=self.fetch_hint(),
        )

    @classmethod
    def download_size(cls) -> str:
        """How much fetching the data takes, as far as that is known."""
        size = sum(item.size for item in cls.sources)
        known = all(item.size for item in cls.sources)
        return (bytes_text(size) if known else f"more than {bytes_text(size)}") if size else ""

    @classmethod
    def fetch_hint(cls) -> str:
        """The command that fetches the data, with size and licence; empty where none does."""
        if not cls.sources:
            return ""
        facts = [each for each in (cls.download_size(), cls.licence) if each]
        return f"chimera datasets pull {cls.slug}" + (f"   ({', '.join(facts)})" if facts else "")

    def rows(self) -> Iterator[Row]:
        return rows(self.dataset().source())

    def dataset_digest(self) -> str:
        return file_digest(self.dataset().source())

    def _load(self) -> Iterator[TaskT]:
        seen = Names()
        count = 0
        if self.limit == 0:
            return
        for index, row in enumerate(self.rows()):
            try:
                task = self.task(row)
            except KeyError as error:
                raise DatasetError(f"{self.place_of(index)} has no field {error}") from None
            except (TypeError, ValueError) as error:
                raise DatasetError(f"{self.place_of(index)}: {error}") from None
            if task is None:
                continue
            if not seen.add(task["id"], index):
                raise DatasetError(f"{self.place_of(index)}: id {task['id']!r} appears twice")
            yield task
            count += 1
            if self.limit is not None and count >= self.limit:
                return
        if not count:
            source = self.dataset().source()
            raise DatasetError(f"{source}: no task fits the options {self.options()}")

    def place_of(self, index: int) -> str:
        """Where the row of that number stands, for a person."""
        source = self.dataset().source()
        if type(self).rows is DatasetBenchmark.rows:
            return row_place(source, index)
        return f"{source}: row {index}"


def _signature(cls: type[DatasetBenchmark[Any]]) -> inspect.Signature:
    """Place and limit, then the options in the order of their fields, keyword-only ones last."""
    either, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    hints: Mapping[str, Any] = field_types(cls.option_type)
    parameters = [
        inspect.Parameter(cls.path_parameter, either, default=None, annotation=str | Path | None),
        inspect.Parameter("limit", either, default=None, annotation=int | None),
    ]
    for each in ordered_fields(cls.option_type):
        default = inspect.Parameter.empty if each.default is MISSING else each.default
        kind = keyword if each.kw_only else either
        parameters.append(
            inspect.Parameter(each.name, kind, default=default, annotation=hints[each.name])
        )
    return inspect.Signature(parameters)


def package_file(package: str, path: str) -> Path | None:
    """A data file of an installed package, found without importing it."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (file := Path(folder) / path).exists():
            return file
        if (file := Path(folder).parent / path).exists():
            return file
    return None
