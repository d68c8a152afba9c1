"""The gateway of one trial: open inside its environment while the agent works there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from chimera.environments.base import Machine
from chimera.gateway.server import Gateway
from chimera.gateway.session import OtherModels, Session
from chimera.gateway.tunnel import Tunnel
from chimera.providers.base import Provider
from chimera.providers.meter import Meter, current_meter


@dataclass(frozen=True, slots=True)
class Door:
    """Where a program inside finds models: `address` on its own loopback, opened by the token."""

    address: str
    session: Session

    @property
    def token(self) -> str:
        return self.session.token

    @property
    def variables(self) -> Mapping[str, str]:
        """What the usual clients read to find their service."""
        address, token = self.address, self.token
        return {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_BASE": f"{address}/v1",
            "OPENAI_API_KEY": token,
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": token,
            "GOOGLE_GEMINI_BASE_URL": address,
            "GEMINI_API_KEY": token,
        }


@contextmanager
def opened_door(
    provider: Provider,
    env: Machine,
    *,
    python: Sequence[str] = ("python3",),
    other_models: OtherModels = "rewrite",
    names: tuple[str, ...] = (),
) -> Iterator[Door]:
    """A door to `provider` inside `env`, on account of the trial; `python` runs the forwarder."""
    session = Session(provider, current_meter() or Meter(), other_models, names)
    tunnel = Tunnel(env, python, Gateway(session).serve)
    try:
        yield Door(f"http://127.0.0.1:{tunnel.port}", session)
    finally:
        session.end()
        tunnel.close()
        session.drain(provider.timeout)
