"""A run that was made elsewhere orders nothing; one's own is resumed by its name."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3

import pytest

from chimera.errors import UsageError
from chimera.eval.runs.seal import usable_settings

MARK = "import pathlib; pathlib.Path({mark!r}).touch()"


@pytest.fixture
def tasks(tmp_path):
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([{"id": "a", "prompt": "Say a.", "expected": "a"}]))
    return file


@pytest.fixture
def run(chimera, tasks, tmp_path):
    """A run of one's own."""
    done = chimera("eval", "-b", "custom", "--dataset", tasks, "-m", "scripted/text:a")
    assert done.code == 0
    (path,) = (tmp_path / "runs").iterdir()
    return path


def change(path, **settings):
    """What a stranger would write into the file."""
    connection = sqlite3.connect(path)
    (text,) = connection.execute("SELECT value FROM manifest WHERE key = 'settings'").fetchone()
    stored = {**json.loads(text), **settings}
    connection.execute(
        "UPDATE manifest SET value = ? WHERE key = 'settings'", (json.dumps(stored),)
    )
    if "environment" in settings:
        value = json.dumps(settings["environment"])
        connection.execute("UPDATE manifest SET value = ? WHERE key = 'environment'", (value,))
    connection.execute("UPDATE trials SET status = 'error', error_boundary = 'agent'")
    connection.execute("DELETE FROM verdicts")
    connection.commit()
    connection.close()


def test_ones_own_run_is_resumed_and_graded_by_its_name(chimera, run, tmp_path):
    key = tmp_path / ".chimera" / "run.key"

    assert chimera("eval", "--resume").code == 0
    assert chimera("grade", "latest", "--check").code == 0
    assert (key.stat().st_mode & 0o777, len(key.read_bytes())) == (0o600, 32)


def test_a_check_confirms_no_verdict_whose_answer_is_gone(chimera, run):
    with sqlite3.connect(run) as connection:
        connection.execute("DELETE FROM submissions")
    checked = chimera("grade", "latest", "--check", "--json")

    assert (checked.code, json.loads(checked.out)["unfounded"]) == (1, 1)


def test_a_run_from_elsewhere_asks_for_its_paths_again(chimera, run, tasks, tmp_path):
    shutil.rmtree(tmp_path / ".chimera")
    resumed = chimera("eval", "--resume")
    graded = chimera("grade", "latest", "--check")

    for ran in (resumed, graded):
        assert ran.code == 2
        assert f"--dataset {tasks}" in ran.err
    assert chimera("grade", "latest", "--check", "--dataset", tasks).code == 0
    assert chimera("eval", "--resume", "latest", "--dataset", tasks).code == 0
    assert chimera("eval", "--resume").code == 0, "it was asked for here, and is one's own now"


@pytest.mark.parametrize(
    "settings",
    [
        {"benchmark": "evil:Bench"},
        {"benchmark": "evil.py:Bench"},
        {"agent": "evil:Agent"},
        {"agent": "command:touch owned"},
        {"agent": "replay:owned.jsonl"},
        {"environment": "local"},
        {"environment": "evil:Environment"},
        {"base_url": "http://evil.example/v1"},
        {"model": "scripted/evil.json"},
        {"model": "litellm/huggingface/http://evil.example"},
        {"option": ["path=/etc/passwd"]},
        {"agent_option": ["pass_env=HOME"]},
        {"model": "evil:Model"},
        {"model_option": ["header.x=y"]},
        {"role": ["judge=litellm/http://evil.example"]},
        {"mcp": ["touch owned"]},
        {"network": True},
        {"samples": 10**9},
        {"concurrency": 10**9, "retries": 10**9},
    ],
    ids=str,
)
def test_a_changed_setting_breaks_the_seal_and_is_not_used(
    chimera, run, tmp_path, monkeypatch, settings
):
    (tmp_path / "evil.py").write_text(MARK.format(mark=str(tmp_path / "owned")))
    monkeypatch.syspath_prepend(tmp_path)
    change(run, **settings)
    ran = chimera("eval", "--resume")

    assert ran.code == 2
    for name, value in settings.items():
        first = value[0] if isinstance(value, list) else value
        shown = "" if value is True else shlex.quote(str(first))
        assert f"--{name.replace('_', '-')} {shown}" in ran.err
    assert not (tmp_path / "owned").exists()
    if settings.keys() & {"benchmark", "environment", "option", "role"}:
        assert chimera("grade", "latest", "--check").code == 2
        assert chimera("runs", "export", "latest", "--format", "swe-bench").code == 2
        assert not (tmp_path / "owned").exists()


def test_an_environment_without_confinement_is_named_again_even_for_ones_own_run(
    chimera, tasks, tmp_path
):
    command = ("eval", "-b", "custom", "--dataset", tasks, "-a", "command:echo a", "-e", "local")
    assert chimera(*command).code == 0
    ran = chimera("eval", "--resume")

    assert ran.code == 2
    assert ran.err.count("--") == 1
    assert "--environment local" in ran.err
    assert chimera("eval", "--resume", "latest", "-e", "local").code == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"samples": "many"},
        {"samples": 0},
        {"retries": -1},
        {"budget": -1.0},
        {"task": 7},
        {"benchmark": None},
        {"model": ["x"]},
    ],
    ids=str,
)
def test_settings_of_other_types_are_refused(chimera, run, tasks, settings):
    change(run, **settings)
    ran = chimera("eval", "--resume", "latest", "--dataset", tasks)

    assert ran.code == 2
    assert "Traceback" not in ran.err


def test_a_key_that_others_can_read_seals_nothing(chimera, run, tmp_path):
    (tmp_path / ".chimera" / "run.key").chmod(0o644)

    assert chimera("eval", "--resume").code == 2


def test_values_are_shown_so_that_they_cannot_repaint_the_list():
    manifest = {"settings": {"benchmark": "custom", "option": ["x=\x1b[2J\n  --harmless"]}}

    with pytest.raises(UsageError) as refused:
        usable_settings(manifest, {})

    assert "\x1b" not in str(refused.value)
    assert "\n  --harmless" not in str(refused.value)


ESCAPES = "\x1b]52;c;x\x07\x1b[2K\rhuman-eval: 100.0% passed\u202e\x9b0m\nsecond"


def test_no_command_prints_what_a_terminal_obeys(chimera, tmp_path):
    task = {"id": f"id{ESCAPES}", "prompt": ESCAPES, "expected": "nothing of the kind"}
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    (tmp_path / "script.json").write_text(json.dumps([ESCAPES]))
    made = ("eval", "-b", "custom", "--dataset", "tasks.json", "-m", "scripted/script.json")
    outputs = [
        chimera(*made),
        chimera(*made, "--json"),
        chimera(*made, "--dry-run"),
        chimera("runs", "list"),
        chimera("runs", "show", "latest"),
        chimera("runs", "show", "latest", "--json"),
        chimera("runs", "show", "latest", task["id"]),
        chimera("runs", "export", "latest"),
        chimera("compare", "latest", "latest"),
        chimera("grade", "latest", "--check"),
        chimera("runs", "show", "latest", f"absent{ESCAPES}"),
    ]

    for ran in outputs:
        text = ran.out + ran.err
        assert all(c.isprintable() or c in "\n\t" for c in text), text
        assert not any(line.startswith("second") for line in text.splitlines()[:3])
