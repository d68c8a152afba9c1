"""`chimera gateway` and `chimera agents`, as a user meets them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from click.testing import CliRunner

from chimera.agents.coding import CODING_AGENTS
from chimera.cli.main import cli
from chimera.errors import UsageError


def test_a_gateway_serves_records_and_tells_what_was_spent(tmp_path: Path):
    record = tmp_path / "calls.jsonl"
    words = ["--model", "scripted/echo", "--port", "0", "--max-steps", "1", "--record", str(record)]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "chimera", "gateway", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        address = re.search(r"http://\S+\d", running.stdout.readline())[0]  # type: ignore[index]
        variables = [running.stdout.readline().split()[1].split("=") for _ in range(7)]
        bearer = {"authorization": "Bearer " + dict(variables)["OPENAI_API_KEY"]}
        body = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]}
        replies = [
            httpx.post(f"{address}/v1/chat/completions", json=body, headers=bearer,
                       trust_env=False, timeout=60)
            for _ in range(2)
        ]  # fmt: skip
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)

    assert [reply.status_code for reply in replies] == [200, 402]
    assert replies[0].json()["choices"][0]["message"]["content"] == "Hello?"
    assert "1 calls, " in told
    (line,) = record.read_text().splitlines()
    assert (json.loads(line)["answer"], json.loads(line)["request"]) == ("Hello?", body)


def test_agents_are_listed_with_their_versions():
    listed = json.loads(CliRunner().invoke(cli, ["agents", "list", "--json"]).output)

    assert [row["name"] for row in listed] == list(CODING_AGENTS)
    assert all(re.match(r"\d+\.\d+", row["version"]) for row in listed)


def test_an_unknown_agent_is_not_installed():
    outcome = CliRunner().invoke(cli, ["agents", "install", "nobody"])

    assert isinstance(outcome.exception, UsageError)
    assert "claude-code" in str(outcome.exception)
