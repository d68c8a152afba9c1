"""Inside a container that was made for one environment: all of it is the environment's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from chimera.environments.base import EnvironmentSpec
from chimera.environments.provision import provisioned
from chimera.environments.supervised import GUEST, SupervisedEnvironment
from chimera.errors import EnvironmentFault
from chimera.types import JSON

DEFAULT_WORKDIR = "/workspace"


class ContainedEnvironment(SupervisedEnvironment):
    """The whole container, with the image's user, variables and working directory.

    Commands are the same user as the guest: they can end it, which is a fault and no verdict, and
    mounts are theirs to change. So "confined" is not among the capabilities.
    """

    name = "container"
    capabilities = frozenset({"commands", "image", "network", "root"})

    def __init__(self, spec: EnvironmentSpec) -> None:
        here = str(Path.cwd())
        self.workdir = spec.workdir or (DEFAULT_WORKDIR if here == "/" else here)
        super().__init__(spec, {"LANG": "C.UTF-8", **os.environ, **spec.variables})
        try:
            self._make(spec.mounts)
            self._launch((), sys.executable, str(GUEST))
        except BaseException:
            self.close()
            raise

    def _make(self, mounts: Mapping[str, str]) -> None:
        """The working directory, and links where mounts would be."""
        try:
            Path(self.workdir).mkdir(parents=True, exist_ok=True)
            for source, target in mounts.items():
                place = Path(self.workdir, target)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(source)
        except OSError as error:
            why = f"{error.filename} cannot be made by the container's user: {error.strerror}"
            raise EnvironmentFault(why) from error

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> Self:
        return provisioned(cls(spec), spec)

    @classmethod
    def identity(cls, spec: EnvironmentSpec) -> JSON:
        """The kind of place tells of the image."""
        return [cls.name, spec.network]
