"""Which changes of an agent a verifier must not meet, and which of them a task asks for.

A verifier relies on interpreters, libraries, shells, tools and the settings of its runner. An agent
that is root can change them all, so that they say what it likes. Its changes to them are left out,
except where the task's own reference solution changes the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, Self

from chimera.environments.engine import Engine
from chimera.eval.kits.patches.steering import RUNNER_MODULES, STEERING_NAMES
from chimera.eval.kits.task_folders.changes import ancestors, fingerprints

#: never: of no use to a task. decisive: what runs before any test can notice; it must be the same
#: as the reference's. library: it may be what the reference changes too.
Kind = Literal["free", "library", "decisive", "never"]

NEVER = re.compile(
    r"/(?:tests|solution|oracle|dev|proc|sys|logs/verifier)(?:/|$)"
    # Knows which programs are installed, and would be wrong about those that were left out.
    r"|/var/(?:lib/(?:dpkg|apt|rpm|pacman)|cache/(?:apt|debconf))(?:/|$)|/lib/apk(?:/|$)"
    # Downloads, which are fetched anew.
    r"|/(?:root|home/[^/]+)/(?:\.cache/(?:uv|pip|pypoetry|yarn|go-build)|\.npm|\.cargo/registry"
    r"|go/pkg)(?:/|$)"
)
SYSTEM = re.compile(r"/(?:bin|boot|lib\w*|sbin|usr)(?:/|$)")
PROGRAMS = re.compile(r"(?:/usr(?:/local)?)?/s?bin")
SETTINGS = re.compile(
    r"/etc/(?:alternatives|apt|bash\.\w+|ca-certificates|environment|gitconfig|npmrc|pip\.conf"
    r"|profile|profile\.d|python[\d.]*|security|ssl|uv|xdg|zsh)(?:/|$)"
    # What programs keep in homes: settings, caches, programs and libraries of a user's own.
    r"|/(?:root|home/[^/]+)/(?:\.[^/]+|go|bin)(?:/|$)"
    r"|.*/\.git/(?:hooks/|config$)"
    r"|.*/(?:conftest\.pyc?|\.?pytest\.ini|tox\.ini|uv\.toml|\.python-version|\.npmrc)$"
)
#: Directories of libraries, wherever an interpreter or a runner of the image has them.
LIBRARIES = re.compile(
    r"(.*?/(?:site-packages|dist-packages|node_modules|lib/python[\d.]+))(?:/|$)"
)
DECISIVE = re.compile(
    r".*\.pth$|.*/(?:site|user)customize(?:\.[^/]+)?(?:/.*)?$"
    r"|.*/[^/]+\.(?:dist|egg)-info/entry_points\.txt$"
    r"|.*/(?:_?pytest|pluggy|iniconfig|exceptiongroup)(?:\.[^/]+)?(?:/.*)?$"
    r"|/etc/ld\.so\.[^/]+(?:/.*)?$|.*/lib\w*/(?:.*/)?(?:ld-|libc\.|libpython)[^/]*$"
)
TOOLS = re.compile(
    r"(?:ba|da|z|k|a)?sh|busybox|env|sudo|python[\d.]*|pypy[\d.]*|uvx?|pip[\d.]*|pytest|py\.test"
    r"|node(?:js)?|np[mx]|yarn|pnpm|bun|deno|tsx?|jest|mocha|vitest|java|javac|mvn|gradle|go|cargo"
    r"|rustc|ruby|perl|php|git|curl|wget|make|cmake|ctest|tmux|timeout|tail|cat|grep|sed|awk|tee"
)
#: Left behind by looking around; nobody needs to be told.
UNTOLD = re.compile(
    r".*(?:/__pycache__(?:/|$)|\.pyc$)|/(?:root|home/[^/]+)/\.(?:cache|\w+_history|wget-hsts)\b"
)
#: Raised when other paths count, so that what was learnt of a reference is learnt anew.
RULES = 2
NUMBERS = re.compile(r"\d[\d.]*")


@dataclass(frozen=True, slots=True)
class Image:
    """What of an image matters here."""

    id: str
    programs: frozenset[str]  # the directories of its PATH
    modules: frozenset[str]  # where Python looks for modules first
    volumes: bool  # whether parts of its files are kept where no change is seen

    @classmethod
    def of(cls, container: str, workdir: str) -> Self:
        engine = Engine.find()
        said = engine.must("inspect", "--format", "{{.Image}} {{json .Config}}", container)
        name, _, text = said.decode().partition(" ")
        config = json.loads(text)
        variables = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
        programs, modules = variables.get("PATH", ""), variables.get("PYTHONPATH", "")
        return cls(
            name,
            frozenset(programs.split(":")) - {""},
            frozenset({workdir.rstrip("/"), *modules.split(":")}),
            bool(config.get("Volumes")),
        )

    def kind(self, path: str, changed: Mapping[str, str]) -> Kind:
        """What a changed path is to a verifier."""
        if NEVER.match(path):
            return "never"
        parent, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
        in_path = parent in self.programs or PROGRAMS.fullmatch(parent) is not None
        beside = parent.endswith("/bin") and changed.get(parent) != "A"
        if DECISIVE.match(path) or ((in_path or beside) and TOOLS.fullmatch(name)):
            return "decisive"
        if in_path or SYSTEM.match(path) or SETTINGS.match(path):
            return "library"
        root = LIBRARIES.match(path)
        if root and changed.get(root[1]) != "A":  # one that was added is known to nobody else
            return "library"
        return "library" if self._shadows(path, changed) else "free"

    def _shadows(self, path: str, changed: Mapping[str, str]) -> bool:
        """Whether it stands before a module or settings of a runner that is started there."""
        for place in (path, *ancestors(path)):
            parent, _, name = place.rpartition("/")
            if parent in self.modules and changed.get(place) == "A":
                return name.partition(".")[0] in RUNNER_MODULES or name in STEERING_NAMES
        return False


@dataclass(frozen=True, slots=True)
class Excepted:
    """The changes of a reference solution to what verifiers rely on."""

    #: Decisive paths, with what the reference has there ("" where it deleted them).
    decisive: Mapping[str, str] = field(default_factory=dict)
    #: The others, without their numbers: another version of a package is the same package.
    libraries: Collection[str] = frozenset()
    #: Directories that the reference added, likewise; what is in them is excepted.
    folders: Collection[str] = frozenset()

    def holds(self, path: str) -> bool:
        """Whether the reference changes this library too."""
        return _form(path) in self.libraries or any(
            _form(folder) in self.folders for folder in ancestors(path)
        )

    def dump(self) -> str:
        parts = (dict(self.decisive), sorted(self.libraries), sorted(self.folders))
        return json.dumps(parts)

    @classmethod
    def load(cls, text: str) -> Self:
        decisive, libraries, folders = json.loads(text)
        return cls(decisive, frozenset(libraries), frozenset(folders))


def _form(path: str) -> str:
    return NUMBERS.sub("#", path)


def excepted(container: str, image: Image, changed: Mapping[str, str]) -> Excepted:
    """What a reference solution changed in its container."""
    kinds = {path: image.kind(path, changed) for path in changed}
    decisive = {path for path, kind in kinds.items() if kind == "decisive"}
    there = fingerprints(container, decisive) if decisive else {}
    libraries = [path for path, kind in kinds.items() if kind == "library"]
    folders = {parent for path in libraries for parent in ancestors(path)}
    # Where packages of all kinds are, one more does not except the others.
    roots = {root[1] for path in libraries if (root := LIBRARIES.match(path))} | image.programs
    roots |= {parent for root in roots for parent in ancestors(root)}
    return Excepted(
        {path: there.get(path, "") for path in decisive},
        frozenset(map(_form, libraries)),
        frozenset(_form(path) for path in folders - roots if changed.get(path) == "A"),
    )


def withheld(
    container: str, image: Image, changed: Mapping[str, str], known: Excepted
) -> frozenset[str]:
    """The changes in a container that a verifier must not meet."""
    kinds = {path: image.kind(path, changed) for path in changed}
    doubtful = {path for path, kind in kinds.items() if kind == "decisive"} & set(known.decisive)
    there = fingerprints(container, doubtful) if doubtful else {}

    def held(path: str, kind: Kind) -> bool:
        if kind == "decisive":
            return path not in doubtful or there.get(path, "") != known.decisive[path]
        return kind == "never" or (kind == "library" and not known.holds(path))

    return frozenset(path for path, kind in kinds.items() if held(path, kind))


def told(paths: Collection[str], changed: Mapping[str, str]) -> list[str]:
    """Those of the withheld paths that say something: the topmost of what was added or changed."""
    plain = {path for path in paths if not NEVER.match(path) and not UNTOLD.match(path)}
    parents = {parent for path in plain for parent in ancestors(path)}
    ends = [path for path in plain if path not in parents or changed[path] == "A"]
    chosen = set(ends)
    return sorted(path for path in ends if not chosen & set(ancestors(path)))
