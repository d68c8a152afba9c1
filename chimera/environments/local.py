"""Commands straight on this machine: no confinement, for code that is trusted."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from chimera.environments.base import EnvironmentSpec
from chimera.environments.identity import mounted, programs, this_process
from chimera.environments.provision import provisioned
from chimera.environments.supervised import GUEST, SupervisedEnvironment
from chimera.errors import UsageError
from chimera.sandbox import remove_tree
from chimera.types import JSON

#: What commands inherit of the host's variables: where programs are, and how text is written.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "JAVA_HOME", "GOROOT", "RUSTUP_HOME", "PYENV_ROOT")


class LocalEnvironment(SupervisedEnvironment):
    """A directory of its own, a private home and a scrubbed environment, but nothing is confined:
    what runs here can read, change and reach all that this user can.

    `workdir` names a directory to work in, which is left in place; without it one is made and
    removed at the end. File operations do not leave it; commands can.
    """

    name = "local"
    capabilities = frozenset({"commands", "network"})

    def __init__(
        self, workdir: str | os.PathLike[str] | None = None, spec: EnvironmentSpec | None = None
    ) -> None:
        spec = spec or EnvironmentSpec()
        self._own = Path(tempfile.mkdtemp(prefix="chimera-local-")).resolve()
        for directory in ("home", "tmp", "work"):
            (self._own / directory).mkdir()
        work = self._own / "work" if workdir is None else Path(workdir).resolve()
        self.workdir = self.root = str(work)
        variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        variables["PATH"] = f"{Path(sys.executable).parent}:{variables.get('PATH', os.defpath)}"
        variables["HOME"] = str(self._own / "home")
        variables["TMPDIR"] = str(self._own / "tmp")
        super().__init__(spec, {"LANG": "C.UTF-8", **variables, **spec.variables})
        try:
            self._launch((), sys.executable, str(GUEST))
            self._show(spec.mounts)
        except BaseException:
            self.close()
            raise

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> Self:
        if spec.workdir is not None and not Path(spec.workdir).is_dir():
            raise UsageError(
                f"the task works in {spec.workdir}, which this machine does not have: "
                "choose --environment bubblewrap or docker"
            )
        return provisioned(cls(spec.workdir, spec), spec)

    @classmethod
    def availability(cls) -> str | None:
        linux = sys.platform.startswith("linux")
        return None if linux else "local environments need Linux; use docker here"

    @classmethod
    def identity(cls, spec: EnvironmentSpec) -> JSON:
        own = (str(Path(sys.executable).parent), *os.environ.get("PATH", os.defpath).split(":"))
        variables: JSON = {name: os.environ.get(name) for name in PASSED_ON}
        return [cls.name, this_process(), programs(*own), mounted(spec.mounts), variables]

    def _show(self, mounts: Mapping[str, str]) -> None:
        """What a confined environment would mount: there already, or a link in the workdir."""
        for source, target in mounts.items():
            place = Path(self.workdir, target)
            if place == Path(source):
                continue
            if not place.is_relative_to(self.workdir):
                raise UsageError(f"{source} cannot be shown at {target} without confinement")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(source)

    def close(self) -> None:
        super().close()
        remove_tree(self._own)
