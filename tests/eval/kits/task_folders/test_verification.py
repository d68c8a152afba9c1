"""Tests of a task run apart from what an agent did to the machine, and still see its work."""

from __future__ import annotations

import shutil

import pytest

from chimera.environments.base import EnvironmentSpec
from chimera.environments.docker import DockerEnvironment
from chimera.eval.kits.task_folders.changes import changes
from chimera.eval.kits.task_folders.verification import transfer
from chimera.eval.submitters import NopAgent, OracleAgent
from tests.eval.kits.task_folders.examples import (
    TASK_TOML,
    commands,
    harbor_task,
    pytest_task,
    run,
    write,
    yaml_task,
)

#: A library that the reference installs, and a hook that nobody asked for.
INSTALL = (
    "cd /usr/lib/python3/dist-packages && mkdir -p answers answers-1.0.dist-info &&"
    " echo 'value = 42' > answers/__init__.py && touch answers-1.0.dist-info/METADATA\n"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))


def test_an_honest_answer_passes_apart(tmp_path, image):
    pytest_task(tmp_path / "tasks", image)

    record = run(tmp_path / "tasks", commands("echo 42 > /app/answer.txt"))

    assert record.passed, record.why
    assert record.verdict.metrics == {"verification": "apart"}


def library_task(root, image):
    place = pytest_task(root, image)
    write(
        place,
        {
            "solution/solve.sh": INSTALL,
            "tests/test_outputs.py": "def test_answer():\n    import answers\n"
            "    assert answers.value == 42\n",
        },
    )
    return place


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (INSTALL, "passed"),
        pytest.param(
            INSTALL.replace("1.0", "2.0.1") + "echo x=1 > answers/more.py\n",
            "passed",
            marks=pytest.mark.slow,
        ),
        pytest.param(INSTALL.replace("42", "41"), "failed", marks=pytest.mark.slow),
        pytest.param(
            INSTALL.replace("42", "41")
            + "echo 'import os, sys; sys.argv[0] == \"-m\" and os._exit(0)' > x.pth\n",
            "failed",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_libraries_count_where_the_reference_changes_them_too(tmp_path, image, script, status):
    library_task(tmp_path / "tasks", image)

    record = run(tmp_path / "tasks", commands(script))

    assert record.status == status, record.why
    assert record.verdict.metrics["verification"] == "apart"


def test_without_a_reference_nothing_is_excepted_and_the_verdict_says_so(tmp_path, image):
    place = library_task(tmp_path / "tasks", image)
    shutil.rmtree(place / "solution")

    record = run(tmp_path / "tasks", commands(INSTALL))

    assert record.status == "failed"
    assert record.verdict.metrics["reference"] == "there is none"
    assert record.verdict.metrics["withheld"] == [
        "/usr/lib/python3/dist-packages/answers",
        "/usr/lib/python3/dist-packages/answers-1.0.dist-info",
    ]
    assert "withheld from the tests: 2 changes" in record.why


SERVER = (
    "import socket,time;s=socket.socket();s.bind(('127.0.0.1',8123));s.listen();time.sleep(999)"
)
ASKING = (
    "#!/bin/bash\necho '=== test session starts ==='\n"
    "pgrep -f 'sleep 54321' > /dev/null && status=FAILED || status=PASSED\n"
    "(exec 3<> /dev/tcp/127.0.0.1/8123) 2>/dev/null || status=FAILED\n"
    "(exec 3<> /dev/tcp/127.0.0.1/8124) 2>/dev/null || status=FAILED\n"
    "echo '=== short test summary info ==='\n"
    'echo "$status ../tests/test_outputs.py::test_answer"\n'
)


@pytest.mark.slow
def test_where_the_reference_needs_its_servers_they_stay_and_all_else_ends(tmp_path, image):
    # As a server that has changed its user: nobody sees what it has open.
    hidden = "import ctypes;ctypes.CDLL(None).prctl(4,0,0,0,0);" + SERVER.replace("8123", "8124")
    solution = (
        f'setsid python3 -c "{SERVER}" &\nsetsid python3 -c "{hidden}" &\n'
        "setsid sleep 54321 &\nsleep 3\n"
    )
    write(yaml_task(tmp_path / "tasks", image), {"run-tests.sh": ASKING, "solution.sh": solution})
    hooks = "echo 'exit 1' > /usr/local/bin/pgrep; chmod +x /usr/local/bin/pgrep\n"

    honest = run(tmp_path / "tasks", OracleAgent())
    hooked = run(tmp_path / "tasks", commands(f"({solution}) > /dev/null 2>&1\n{hooks}"))
    nothing = run(tmp_path / "tasks", NopAgent())

    assert honest.passed, honest.why
    assert honest.verdict.metrics["verification"] == "live"
    assert hooked.passed, hooked.why
    assert hooked.verdict.metrics["withheld"] == ["/usr/local/bin/pgrep"]
    assert nothing.status == "failed"


def test_in_the_live_container_the_image_s_programs_are_put_back(tmp_path, image):
    place = pytest_task(tmp_path / "tasks", image)
    write(place, {"tests/test.sh": "#!/bin/bash\n# http://localhost\n"
          + (place / "tests/test.sh").read_text()})  # fmt: skip
    shutil.rmtree(place / "solution")
    forge = "import os;open('/logs/verifier/reward.txt','w').write('1');os._exit(0)"
    script = (
        f'echo "{forge}" > /usr/lib/python3/dist-packages/x.pth\n'
        "printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt' > /usr/bin/python3.11\n"
        "rm /usr/bin/bash; cp /bin/true /usr/local/sbin/rm\n"
        "echo /nowhere.so > /etc/ld.so.preload\n"
        "cp -p /usr/bin/pytest /tmp/x; sed -i s/sys/SYS/ /usr/bin/pytest\n"
        "touch -r /tmp/x /usr/bin/pytest\n"
    )

    record = run(tmp_path / "tasks", commands(script))

    assert record.status == "failed", record.why
    assert record.verdict.metrics["verification"] == "live"
    assert "withheld from the tests" in record.why
    assert "/usr/bin/pytest" in record.verdict.metrics["withheld"]
    assert "test_answer" in record.verdict.evidence["output"]


def test_a_verifier_of_its_own_sees_what_the_task_hands_over(tmp_path, image):
    place = harbor_task(tmp_path / "tasks", image)
    toml = (
        'artifacts = [{ source = "/app/answer.txt" }, { source = "/app/more", exclude = ["b"] }]\n'
    )
    write(
        place,
        {
            "task.toml": toml
            + TASK_TOML.replace("[verifier]", '[verifier]\nenvironment_mode="separate"'),
            "tests/Dockerfile": f"FROM {image}\nCOPY . /tests\nRUN touch /tests/own\n",
            "tests/test.sh": "#!/bin/sh\n[ -e /tests/own ] && [ -e /app/more/a ]"
            " && [ ! -e /app/more/b ] && [ ! -e /app/other ] && [ ! -e /usr/bin/planted ]\n"
            "echo $((! $?)) > /logs/verifier/reward.txt\n",
        },
    )
    script = "mkdir more; touch answer.txt more/a more/b other /usr/bin/planted"

    record = run(tmp_path / "tasks", commands(script))

    assert record.passed, record.why
    assert record.verdict.metrics["verification"] == "separate"


def test_changes_arrive_with_modes_owners_links_and_deletions(image):
    spec = EnvironmentSpec(needs=frozenset({"commands", "image", "root"}), image=image)
    script = (
        "mkdir -p /data/d /data/e && cd /data && echo a > d/a && chown 12:34 d/a && chmod 4750 d/a"
        " && ln -s d/a link && ln d/a hard && ln d/a /usr/withheld && mkfifo pipe"
        " && mknod device c 1 3 && rm -rf /srv /etc/debian_version && ln -s /data /srv"
        " && rm -rf /opt && echo file > /opt && touch -d 2001-01-01 old"
    )
    with DockerEnvironment.start(spec) as agent, DockerEnvironment.start(spec) as fresh:
        assert agent.run_command(script).success
        changed = changes(agent.container)
        held = frozenset({"/usr/withheld"})
        transfer(agent.container, fresh.container, changed, held)
        seen = fresh.run_command(
            "cd /data; stat -c '%a %u:%g %h' d/a; readlink link /srv; cat hard /opt;"
            "stat -c %F pipe e; date -r old +%Y; ls -d device /etc/debian_version /usr/withheld"
        )

    assert seen.stdout.decode().splitlines() == [
        *("4750 12:34 2", "d/a", "/data", "a", "file", "fifo", "directory", "2001"),
    ]


@pytest.mark.slow
def test_a_hard_link_to_what_is_withheld_keeps_its_content(image):
    spec = EnvironmentSpec(needs=frozenset({"commands", "image", "root"}), image=image)
    with DockerEnvironment.start(spec) as agent, DockerEnvironment.start(spec) as fresh:
        agent.run_command(
            "mkdir /zone; echo a > /usr/first; ln /usr/first /zone/x; ln /zone/x /zone/y"
        )
        changed = changes(agent.container)
        transfer(agent.container, fresh.container, changed, frozenset({"/usr/first"}))
        seen = fresh.run_command("cat /zone/x /zone/y; ls /usr/first")

    assert seen.stdout == b"a\na\n"
