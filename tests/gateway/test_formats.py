"""Official SDKs and a client of our own speak to the gateway, whatever its service speaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.gateway.wires import WIRES, target_of
from tests.gateway.conftest import FORMATS, provider_of
from tests.gateway.upstream import KEY, cost, truth

CLIENT = Path(__file__).with_name("client.py")
WRITE = ("bash", {"command": "echo hello > out.txt; cat out.txt"})


def run_client(spoken: str, door, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CLIENT), spoken],
        input="Write hello.",
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **door.variables},
    )


@pytest.mark.parametrize("service_speaks", FORMATS)
@pytest.mark.parametrize("client_speaks", FORMATS)
def test_every_client_reaches_every_service(
    upstream, door, tmp_path: Path, client_speaks: str, service_speaks: str
):
    service = upstream([WRITE, "All is done."])
    opened = door(provider_of(service, service_speaks))

    done = run_client(client_speaks, opened, tmp_path)

    assert (done.stdout.strip(), done.returncode) == ("All is done.", 0)
    assert (tmp_path / "out.txt").read_text() == "hello\n"
    meter = opened.session.meter
    assert meter.usage == truth(0) + truth(1)
    assert meter.cost == pytest.approx(cost(truth(0)) + cost(truth(1)))
    roles = [step.message.role for step in opened.session.recording.trajectory()]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert all(target_of(path.partition("?")[0]).wire.name == service_speaks  # type: ignore[union-attr]
               for path, _, _ in service.seen)  # fmt: skip


@pytest.mark.parametrize("spoken", FORMATS)
def test_a_request_in_the_services_own_format_is_passed_on_as_it_is(
    upstream, door, tmp_path: Path, spoken: str
):
    service = upstream(["Yes."])
    opened = door(provider_of(service, spoken))

    run_client(spoken, opened, tmp_path)

    _, headers, body = service.seen[0]
    assert opened.token not in str(service.seen)
    assert KEY in str(headers)
    wire = WIRES[spoken]
    assert [tool.name for tool in wire.asked(body).tools] == ["bash"]
    if spoken == "anthropic":
        assert (headers["anthropic-beta"], body["max_tokens"]) == ("some-beta", 99)
    if spoken == "chat":
        assert body["stream_options"] == {"include_usage": True}


def test_the_official_sdks_read_the_streams(upstream, door):
    anthropic, openai = pytest.importorskip("anthropic"), pytest.importorskip("openai")
    service = upstream(["Yes, I do."])
    opened = door(provider_of(service, "chat"))

    with anthropic.Anthropic(base_url=opened.address, api_key=opened.token).messages.stream(
        model="m", max_tokens=10, messages=[{"role": "user", "content": "Well?"}]
    ) as stream:
        assert stream.get_final_text() == "Yes, I do."
    client = openai.OpenAI(base_url=f"{opened.address}/v1", api_key=opened.token)
    with client.responses.stream(model="m", input="Well?") as stream:
        assert stream.get_final_response().output_text == "Yes, I do."
    with client.chat.completions.stream(
        model="m", messages=[{"role": "user", "content": "Well?"}]
    ) as stream:
        assert stream.get_final_completion().choices[0].message.content == "Yes, I do."


@pytest.mark.parametrize("spoken", ["chat", "responses", "anthropic"])
def test_no_two_replies_have_one_name(spoken: str):
    from chimera.gateway.wires.base import Asked
    from chimera.types import Response

    first, second = (WIRES[spoken].reply(Response("Yes."), Asked(), "m") for _ in range(2))

    assert first["id"] != second["id"]


@pytest.mark.parametrize("spoken", FORMATS)
def test_a_stream_makes_up_the_reply_that_it_was_made_of(spoken: str):
    from chimera.gateway.wires.base import Asked, stream_data
    from chimera.types import Response, ToolCall, Usage

    wire = WIRES[spoken]
    said = Response(
        "Let me see.",
        (ToolCall("id_1", "bash", {"command": "ls"}, '{"command": "ls"}'),),
        Usage(50, 9, 20),
        stop_reason="tool_calls",
        model="m",
    )
    reply = wire.reply(said, Asked(), "m")

    read = wire.response(wire.whole(stream_data(wire.stream(reply))), Asked())

    assert (read.content, read.usage) == (said.content, said.usage)
    assert [(c.id, c.name, c.arguments) for c in read.tool_calls] == [
        ("id_1", "bash", {"command": "ls"})
    ]
