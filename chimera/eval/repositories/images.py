"""Images for instances that no registry has: an interpreter, its packages, one repository.

Three layers, each built once: instances that share packages share all but the last.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

from chimera.environments.base import EnvironmentSpec
from chimera.environments.engine import Engine
from chimera.errors import EnvironmentFault
from chimera.eval.repositories.cache import digest
from chimera.eval.repositories.checkout import PythonSetup
from chimera.eval.repositories.virtualenvs import TESTBED, VirtualEnvironment

BASE_IMAGE = "debian:bookworm-slim"
LABEL = "chimera.instance"
#: Instance images that stay for trials of the same instance; the rest is removed.
KEPT = 4
#: What an interpreter built elsewhere and a checkout need of the system.
PACKAGES = (
    "bash", "ca-certificates", "git", "patch", "procps", "libbz2-1.0", "libexpat1", "libffi8",
    "liblzma5", "libreadline8", "libsqlite3-0", "libssl3", "libmemcached11", "zlib1g",
)  # fmt: skip
RECIPE = 1

_building = threading.Lock()


def local_image(setup: PythonSetup, *, base_image: str, keep: bool) -> str:
    """The image of a setup, built from `base_image` where it is not there yet."""
    engine = Engine.find()
    packages = setup.environment()
    tree = setup.tree()
    with _building:
        base = engine.image_for(EnvironmentSpec(image=base_image))
        python = _build(engine, "python", packages.base_prefix, _python_layer(base, packages))
        environment = _build(engine, "packages", packages.path, _packages_layer(python, packages))
        if not keep:
            _remove_old(engine)
        recipe = (
            f"FROM {environment}\nLABEL {LABEL}=1\nCOPY . {TESTBED}\nWORKDIR {TESTBED}\n"
            f"RUN git config --system --add safe.directory '*'\n"
        )
        return _build(engine, "instance", tree.path, recipe, identity=str(tree.path))


@cache
def can_be_had(image: str) -> bool:
    """Whether an image is here or can be pulled; asked once for each image."""
    engine = Engine.find()
    here = engine.call("image", "inspect", image).returncode == 0
    return here or engine.call("pull", image, timeout=3600).returncode == 0


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
    return f"FROM {python}\nCOPY . {packages.path}\nRUN chmod a+rx {opened}\nENV {variables}\n"


def _build(engine: Engine, kind: str, context: Path, recipe: str, identity: str = "") -> str:
    tag = f"chimera-{kind}:{digest(RECIPE, recipe, identity)}"
    if engine.call("image", "inspect", tag).returncode == 0:
        return tag
    engine.must(
        "build", "--network=host", "--force-rm", "-t", tag, "-f", "-", str(context),
        data=recipe.encode(), timeout=3600,
    )  # fmt: skip
    return tag


def _remove_old(engine: Engine) -> None:
    """Remove instance images but the youngest few; one that a container uses stays."""
    listed = engine.call("images", "--filter", f"label={LABEL}", "--format", "{{.ID}}")
    if listed.returncode != 0:
        raise EnvironmentFault("the container engine does not list its images", retryable=True)
    for image in listed.stdout.decode().split()[KEPT - 1 :]:
        engine.call("image", "rm", image)
