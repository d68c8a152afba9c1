"""`chimera gateway`: a model for programs of one's own, metered, bounded and recorded."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import IO

import click

from chimera.cli.options import Number, Whole, config_option, option
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.gateway.door import Door
from chimera.gateway.server import Gateway
from chimera.gateway.session import Call, Session
from chimera.plugins import pairs
from chimera.providers import create_provider
from chimera.providers.meter import Budget, Meter, TrialLimits
from chimera.providers.secrets import redact
from chimera.providers.settings import model_settings
from chimera.types import Response


@click.command("gateway")
@option("--model", "-m", required=True, help="The model that answers, as for `chimera eval`.")
@option("--host", default="127.0.0.1", help="Address to listen on.")
@option("--port", type=Whole(0, 65535), default=8400, help="Port; 0 takes a free one.")
@option("--budget", type=Number(0), help="US dollars it may spend at the most.")
@option("--token-limit", type=Whole(1), help="Tokens it may use, in and out.")
@option("--max-steps", type=Whole(1), help="Calls it may answer.")
@option("--price", help="US dollars for a million tokens as INPUT/OUTPUT, where not known.")
@option("--model-option", multiple=True, help="KEY=VALUE for the model, as for `chimera eval`.")
@option("--base-url", help="Address of an OpenAI- or Anthropic-compatible server.")
@option("--api-key", help="Key for it; better given by the provider's usual variable.")
@option(
    "--other-models",
    type=click.Choice(["rewrite", "refuse"]),
    default="rewrite",
    help="What becomes of calls that name another model.",
)
@option("--record", type=click.Path(path_type=Path, dir_okay=False), help="Append calls as JSONL.")
@config_option
def command(
    *,
    model: str,
    host: str,
    port: int,
    budget: float | None,
    token_limit: int | None,
    max_steps: int | None,
    price: str | None,
    model_option: tuple[str, ...],
    base_url: str | None,
    api_key: str | None,
    other_models: str,
    record: Path | None,
) -> None:
    """Serve a model at an address of this machine, in the formats of OpenAI (chat completions and
    Responses), Anthropic and Gemini. Programs get a token; the key stays here.

    Over the limit it answers 402. Ctrl-C ends it and tells what was spent.

    \b
    Examples:
      chimera gateway --model openai/gpt-5 --budget 5 --record calls.jsonl
      chimera gateway -m anthropic/claude-sonnet-4-5 --port 9000 --max-steps 200
      chimera gateway -m local/smollm2          # no key, no network
    """
    settings = model_settings(pairs(model_option, "--model-option"))
    provider = create_provider(
        model, api_key=api_key, base_url=base_url, price=price, settings=settings
    )
    if budget is not None:
        provider.required_price()
    provider.start()
    limits = TrialLimits(max_steps=max_steps, max_tokens=token_limit)
    meter = Meter(limits, None if budget is None else Budget(budget))
    session = Session(provider, meter, "refuse" if other_models == "refuse" else "rewrite")
    try:
        server = Gateway(session).listen(host, port)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: {error.strerror}") from None
    with server, _recorder(record) as recorder:
        session.observer = recorder
        door = Door(f"http://{host}:{server.server_address[1]}", session)
        echo(f"{provider.name} is served at {door.address}; programs find it with")
        for name, value in door.variables.items():
            echo(f"  export {name}={value}")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            cost = "an unknown price" if meter.cost is None else f"${meter.cost:.4f}"
            tokens = meter.usage.total_tokens
            echo(f"\n{len(meter.calls)} calls, {tokens} tokens, {cost}", err=True)


class _Recorder:
    """Writes a line for each call; keys are in none of them."""

    def __init__(self, file: IO[str] | None) -> None:
        self._file = file
        self._lock = threading.Lock()

    def __enter__(self) -> _Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def __call__(self, call: Call, response: Response) -> None:
        if self._file is None:
            return
        usage = response.usage
        value = {
            "time": time.time(),
            "format": call.wire.name,
            "asked_for": call.model,
            "model": response.model,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "cost": response.cost,
            "request": call.body,
            "answer": response.content,
            "tool_calls": [[each.name, each.raw_arguments] for each in response.tool_calls],
        }
        with self._lock:
            self._file.write(redact(json.dumps(value, ensure_ascii=False)) + "\n")
            self._file.flush()


def _recorder(path: Path | None) -> _Recorder:
    if path is None:
        return _Recorder(None)
    try:
        return _Recorder(path.open("a", encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--record {path}: {error.strerror}") from None
