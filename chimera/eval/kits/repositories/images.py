"""Images of instances: pulled, or built where no registry has them; removed as they are used up.

Built ones have three layers (an interpreter, its packages, one repository), each built once:
instances that share packages share all but the last.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

from chimera.cache import digest
from chimera.environments.base import EnvironmentSpec
from chimera.environments.engine import Engine
from chimera.errors import EnvironmentFault
from chimera.eval.kits.repositories.checkout import PythonSetup
from chimera.eval.kits.repositories.virtualenvs import TESTBED, VirtualEnvironment

LABEL = "chimera.instance"
PACKAGES_LABEL = "chimera.packages"
#: Images of each kind that stay for trials of the same instance; older ones are removed. One that
#: a container uses is never removed.
KEPT = 8
#: What an interpreter built elsewhere and a checkout need of the system.
PACKAGES = (
    "bash", "ca-certificates", "git", "patch", "procps", "libbz2-1.0", "libexpat1", "libffi8",
    "liblzma5", "libreadline8", "libsqlite3-0", "libssl3", "libmemcached11", "zlib1g",
)  # fmt: skip
RECIPE = 1

_building = threading.Lock()
_pulled: list[str] = []  # by this process, the latest last


def local_image(setup: PythonSetup, *, base_image: str, keep: bool) -> str:
    """The image of a setup, built from `base_image` where it is not there yet."""
    engine = Engine.find()
    packages = setup.environment()
    tree = setup.tree()
    with _building:
        base = engine.image_for(EnvironmentSpec(image=base_image))
        python = _build(engine, "python", packages.base_prefix, _python_layer(base, packages))
        environment = _build(engine, "packages", packages.path, _packages_layer(python, packages))
        recipe = (
            f"FROM {environment}\nLABEL {LABEL}=1\nCOPY . {TESTBED}\nWORKDIR {TESTBED}\n"
            f"RUN git config --system --add safe.directory '*'\n"
        )
        image = _build(engine, "instance", tree.path, recipe, identity=str(tree.path))
        if not keep:
            _remove_old(engine, LABEL, spare=image)
            _remove_old(engine, PACKAGES_LABEL, spare=environment)
        return image


def official_image(image: str, *, keep: bool, engine: Engine | None = None) -> bool:
    """Whether an image is here now: it was, or it could be pulled.

    Of those that were pulled all but the latest few are removed; what was here before stays.
    """
    engine = engine or Engine.find()
    with _building:
        if engine.call("image", "inspect", image).returncode != 0:
            if engine.call("pull", image, timeout=3600).returncode != 0:
                return False
            _pulled.append(image)
        elif image in _pulled:
            _pulled.append(_pulled.pop(_pulled.index(image)))
        for old in [] if keep else _pulled[:-KEPT]:
            if engine.call("image", "rm", old).returncode == 0:
                _pulled.remove(old)
    return True


@cache
def pullable(image: str, *, keep: bool) -> bool:
    """Whether an image can be had; asked once, since a registry that is not reached is slow."""
    return official_image(image, keep=keep)


def _python_layer(base: str, packages: VirtualEnvironment) -> str:
    prefix = packages.base_prefix
    install = f"apt-get update -qq && apt-get install -y -qq {' '.join(PACKAGES)}"
    opened = " ".join(str(parent) for parent in prefix.parents if str(parent) != "/")
    return (
        f"FROM {base}\nRUN {install} && rm -rf /var/lib/apt/lists/*\n"
        f"COPY . {prefix}\nRUN chmod a+rx {opened}\n"
    )


def _packages_layer(python: str, packages: VirtualEnvironment) -> str:
    opened = " ".join(str(parent) for parent in packages.path.parents if str(parent) != "/")
    variables = " ".join(f"{name}={value}" for name, value in packages.variables().items())
    return (
        f"FROM {python}\nLABEL {PACKAGES_LABEL}=1\nCOPY . {packages.path}\n"
        f"RUN chmod a+rx {opened}\nENV {variables}\n"
    )


def _build(engine: Engine, kind: str, context: Path, recipe: str, identity: str = "") -> str:
    tag = f"chimera-{kind}:{digest(RECIPE, recipe, identity)}"
    if engine.call("image", "inspect", tag).returncode == 0:
        return tag
    engine.must(
        "build", "--network=host", "--force-rm", "-t", tag, "-f", "-", str(context),
        data=recipe.encode(), timeout=3600,
    )  # fmt: skip
    return tag


def _remove_old(engine: Engine, label: str, *, spare: str) -> None:
    """Remove images with a label but the youngest few; one that is in use stays."""
    listed = engine.call(
        "images", "--filter", f"label={label}", "--format", "{{.Repository}}:{{.Tag}}"
    )
    if listed.returncode != 0:
        raise EnvironmentFault("the container engine does not list its images", retryable=True)
    kind = f"chimera-{label.rpartition('.')[2]}:"
    found = listed.stdout.decode().split()
    mine = [name for name in found if name.startswith(kind) and name != spare]
    for image in mine[KEPT - 1 :]:
        engine.call("image", "rm", image)
