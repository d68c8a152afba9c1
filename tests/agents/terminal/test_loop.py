"""The terminal loop with a scripted model and a real tmux."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from chimera.agents.terminal.loop import (
    MAX_MALFORMED,
    MalformedReply,
    TerminalLoop,
    read_turn,
    shortened,
)
from chimera.agents.terminal.tmux import TmuxTerminal, at_prompt, key_arguments, new_text, settle
from chimera.providers.scripted import Reply, Script, ScriptedProvider
from chimera.types import Message

DONE = json.dumps({"commands": [], "done": True})


def scripted(*replies: str) -> ScriptedProvider:
    script = Script(tuple(Reply(reply) for reply in replies))
    return ScriptedProvider(name="scripted/test", model="test", script=script)


def typed(*keys: str, wait: float = 20) -> str:
    return json.dumps({"commands": [{"keys": k, "wait": wait} for k in keys], "done": False})


@pytest.fixture
def terminal(require, tmp_path: Path) -> Iterator[TmuxTerminal]:
    require("tmux")
    socket = tmp_path / "tmux"

    def run(command: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(
            [command[0], "-S", str(socket), "-f", "/dev/null", *command[1:]],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "PS1": "here$ ", "SHELL": "/bin/sh", "TERM": "xterm"},
        )
        return done.returncode, done.stdout or done.stderr

    with TmuxTerminal(run) as session:
        yield session


@pytest.mark.parametrize(
    ("reply", "keys", "done"),
    [
        ('{"commands": [{"keys": "ls\\n", "wait": 2}], "done": false}', ["ls\n"], False),
        ('Sure!\n```json\n{"commands": [], "done": true}\n```', [], True),
        ('{"commands": [{"keys": "a\nb\n"}]}', ["a\nb\n"], False),
        ('{"commands": [{"keys": "ls\\n"},], "done": false,}', ["ls\n"], False),
        ('{"analysis": "x", "commands": ["ls"]', ["ls\n"], False),
        ('{"note": 1} {"commands": [{"keystrokes": "x", "duration": 999}]}', ["x"], False),
    ],
)
def test_replies_are_read_with_small_damage_repaired(reply, keys, done):
    turn = read_turn(reply)

    assert [command.keys for command in turn.commands] == keys
    assert turn.done is done
    assert all(command.wait <= 180 for command in turn.commands)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "empty"),
        ("I would now run ls.", "no JSON object"),
        ('{"commands": "ls"}', "must be a list"),
        ('{"commands": [{"wait": 1}]}', 'no "keys"'),
        ('{"commands": [{"keys": "x", "wait": "long"}]}', "number of seconds"),
        ('{"commands": [], "done": "yes"}', "true or false"),
        ('{"analysis": "thinking"}', "no JSON object"),
    ],
)
def test_malformed_replies_say_what_is_wrong(reply, problem):
    with pytest.raises(MalformedReply, match=problem):
        read_turn(reply)


@pytest.mark.parametrize(
    ("keys", "calls"),
    [
        ("ls\n", [["-l", "--", "ls"], ["Enter"]]),
        ("C-c", [["C-c"]]),
        ("", []),
        ("-n Enter", [["-l", "--", "-n Enter"]]),
        ("a\n\nb", [["-l", "--", "a"], ["Enter"], ["Enter"], ["-l", "--", "b"]]),
    ],
)
def test_keys_are_typed_verbatim(keys, calls):
    assert key_arguments(keys) == calls


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("root@0a1b:/app# ", True),
        ("user@host:~$", True),
        (">>> ", True),
        ("mysql> ", True),
        ("sqlite> ", True),
        ("Downloading 10%", False),
        ("Compiling x v1.0", False),
        ("", False),
    ],
)
def test_a_prompt_is_recognised(line, waits):
    assert at_prompt(f"earlier output\n{line}\n\n") is waits


def test_new_text_is_what_came_after():
    assert new_text("$ ", "$ echo a\na\n$ ") == "$ echo a\na\n$ "
    assert new_text("$ ls\nx\n$ ", "$ echo a\na") is None


def test_waiting_ends_with_the_prompt_with_silence_or_with_time():
    class Screen:
        def __init__(self, *screens: str) -> None:
            self.screens = list(screens)

        def screen(self) -> str:
            return self.screens.pop(0) if len(self.screens) > 1 else self.screens[0]

    def wait(screen: Screen, seconds: float) -> str:
        now = [0.0]
        return settle(
            screen,  # type: ignore[arg-type]
            seconds,
            clock=lambda: now[0],
            sleep=lambda s: now.__setitem__(0, now[0] + s),
        )

    assert wait(Screen("$ make", "$ make\nok\n$ "), 60) == "prompt"
    assert wait(Screen("$ make\ncc a.c"), 60) == "quiet"
    assert wait(Screen(*(f"line {n}" for n in range(1000))), 5) == "time"


def test_a_task_is_solved_in_a_real_terminal(terminal, tmp_path):
    loop = TerminalLoop(
        provider=scripted(typed("printf '%s' DONE > result.txt\n", "cat result.txt\n"), DONE, DONE)
    )

    progress = loop.run("Write DONE to result.txt", terminal)

    assert progress.stop_reason == "done"
    assert (tmp_path / "result.txt").read_text() == "DONE"
    assert progress.turns == 3
    assert progress.usage.input_tokens > 0
    assert progress.usage.output_tokens > 0
    assert any("DONE" in s.message.content for s in progress.trajectory if s.message.role == "user")


def test_the_end_must_be_confirmed_and_doubt_withdraws_it(terminal, tmp_path):
    loop = TerminalLoop(provider=scripted(DONE, typed("touch later\n"), DONE, DONE))

    progress = loop.run("Make a file", terminal)

    assert progress.turns == 4
    assert progress.stop_reason == "done"
    assert (tmp_path / "later").exists()


def test_malformed_replies_are_answered_and_then_given_up(terminal):
    recovering = TerminalLoop(provider=scripted("what?", "hm", DONE, DONE)).run("x", terminal)
    hopeless = TerminalLoop(provider=scripted("what?")).run("x", terminal)

    assert (recovering.stop_reason, recovering.malformed) == ("done", 2)
    assert (hopeless.stop_reason, hopeless.malformed) == ("malformed", MAX_MALFORMED)
    assert "not understood" in hopeless.trajectory[-2].message.content


def test_turns_and_time_are_limits(terminal):
    by_turns = TerminalLoop(provider=scripted(typed("true\n")), max_turns=2).run("x", terminal)
    by_time = TerminalLoop(provider=scripted(DONE)).run("x", terminal, out_of_time=lambda: True)

    assert (by_turns.stop_reason, by_turns.turns) == ("turns", 2)
    assert by_turns.result().stop_reason == "limit:steps"
    assert (by_time.stop_reason, by_time.turns) == ("time", 0)


def test_a_hanging_program_is_interrupted(terminal):
    loop = TerminalLoop(
        provider=scripted(typed("sleep 600\n", wait=1), typed("C-c"), typed("echo ok-$?\n"), DONE)
    )

    progress = loop.run("x", terminal)

    shown = [step.message.content for step in progress.trajectory]
    assert any("still running" in text for text in shown)
    assert any("ok-130" in text for text in shown)


def test_old_screens_are_left_out_of_long_conversations():
    messages = [Message.system("s"), Message.user("task")]
    messages += [m for _ in range(40) for m in (Message.assistant("a"), Message.user("x" * 10_000))]

    short = shortened(messages)

    assert len(short) == len(messages)
    assert sum(len(m.content) for m in short) < 250_000
    assert short[1].content == "task"
    assert short[-1] == messages[-1]
