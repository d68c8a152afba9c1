"""Whose run it is: what a file asks for is done only for its maker, or when it is asked for again.

A run says how it was made, so that it can be resumed and graded again: the code of benchmark and
agent, the environment, paths, addresses. In a stranger's file these are a stranger's orders. A run
made here is sealed with a key that never leaves the user's machine; the settings of a run whose
seal holds are the user's own. From any other run only what cannot do harm is taken, and the rest
must be given on the command line.

The seal is over the settings, not over the answers, which someone may have changed since: an
environment without confinement must be named again even for one's own run.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from chimera.errors import UsageError
from chimera.plugins import is_own_code
from chimera.text import one_line, storable_value
from chimera.types import JSON

KEY_BYTES = 32
UNCONFINED = "local"
#: Environments that any run may name.
CONFINED = ("none", "bubblewrap", "docker", "browser")
#: Settings that multiply the work, and up to what any run may ask for them.
MODEST = {"samples": 100, "concurrency": 256, "max_connections": 256, "retries": 10}
#: What of a manifest the seal is over.
_SEALED = ("settings", "environment", "predictions")


def seal(manifest: Mapping[str, JSON]) -> str | None:
    """The mark that only this user can make of a manifest; None where there is nothing to seal."""
    if "settings" not in manifest:
        return None
    key = _key(create=True)
    return None if key is None else _mark(manifest, key)


def is_own(manifest: Mapping[str, JSON]) -> bool:
    """Whether the manifest was sealed with this user's key and says what it said then."""
    mark, key = manifest.get("seal"), _key(create=False)
    try:
        return isinstance(mark, str) and key is not None and _same(mark, _mark(manifest, key))
    except (RecursionError, TypeError, ValueError):  # nothing that was ever sealed
        return False


def usable_settings(
    manifest: Mapping[str, JSON], told: Mapping[str, JSON], used: Collection[str] | None = None
) -> dict[str, JSON]:
    """The settings of a stored run, changed by what the command line says.

    Raises `UsageError` with every stored value that must be said again first. `used` names the
    settings that the command uses; None is all of them.
    """
    stored: dict[str, JSON] = dict(manifest.get("settings") or {})
    if not stored.get("environment"):
        stored["environment"] = manifest.get("environment")
    if manifest.get("predictions") is not None:
        stored["predictions"] = manifest["predictions"]
    own = is_own(manifest)
    again = [
        f"  --{name.replace('_', '-')} {one_line(shlex.quote(str(value)), 2000) if value else ''}"
        for name, value in _orders(stored)
        if name not in told
        and (used is None or name in used)
        and not (own and (name, value) != ("environment", UNCONFINED))
    ]
    if again:
        reason = (
            "answers in a file may have been changed, and this environment does not confine them"
            if own
            else "a run made elsewhere may ask for anything"
        )
        raise UsageError(
            "this run asks for what is done only when you say so "
            f"({reason}).\n  If you agree, add to the command:\n" + "\n".join(again)
        )
    return {**stored, **told}


def _orders(stored: Mapping[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """Every stored setting that runs code, lifts confinement, names an address or a path, or asks
    for very much."""
    for name in ("benchmark", "agent"):
        if not str(stored.get(name) or "x").replace("-", "").replace("_", "").isalnum():
            yield name, stored[name]
    environment = stored.get("environment")
    if environment is not None and environment not in CONFINED:
        yield "environment", environment
    if stored.get("network"):
        yield "network", ""
    model = str(stored.get("model") or "")
    if is_own_code(model) or (
        model.startswith(("scripted/", "litellm/")) and not model.startswith("scripted/text:")
    ):
        yield "model", model  # code; a file of replies; a service by any address
    for name, most in MODEST.items():
        number = stored.get(name)
        if isinstance(number, (int, float)) and number > most:
            yield name, number
    for name in ("dataset", "base_url", "predictions", "against"):
        if stored.get(name) is not None:
            yield name, stored[name]
    for name in ("option", "agent_option", "model_option", "role", "mcp"):
        values = stored.get(name) or []
        yield from ((name, value) for value in (values if isinstance(values, list) else [values]))


def _mark(manifest: Mapping[str, JSON], key: bytes) -> str:
    content = {name: manifest.get(name) for name in _SEALED}
    text = msgspec.json.encode(storable_value(content), order="sorted")
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _same(first: str, second: str) -> bool:
    return hmac.compare_digest(first.encode(), second.encode())


def _key(*, create: bool) -> bytes | None:
    """This user's key, made when it is first needed; None where there is no place for one."""
    file = Path.home() / ".chimera" / "run.key"
    try:
        if create and not file.exists():
            _make_key(file)
        others = file.stat().st_mode & 0o077
        key = file.read_bytes()
    except OSError:
        return None
    return key if len(key) == KEY_BYTES and not others else None


def _make_key(file: Path) -> None:
    """Written whole before it has its name, for runs that start at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secrets.token_bytes(KEY_BYTES))
        os.link(temporary, file)
    except FileExistsError:  # another run was faster
        pass
    finally:
        os.close(descriptor)
        temporary.unlink()
