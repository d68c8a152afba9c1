"""Answers that use more than their limits, or reach each other, wherever answers can be run.

Every program below returns 1, which would pass, when it got through. Those without namespaces run
in a cage of bubblewrap's; a file system over /sys/fs/cgroup takes control groups away.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from chimera.confinement import cgroups
from chimera.confinement.namespaces import namespaces_refused
from chimera.sandbox import run_tests
from chimera.sandbox.inner import landlock
from tests.adversarial.test_without_namespaces import CAGE, ROOT

BURN = """\
import os, signal, time
def burn():
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    os._exit(0)
def ignore_children():
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    except OSError:
        pass
"""
MANY = """\
import os, time
def in_children(count, work):
    reading, writing = os.pipe()
    for _ in range(count):
        if os.fork() == 0:
            try:
                held = work()
                os.write(writing, b'x')
                time.sleep(60)
            finally:
                os._exit(0)
    os.close(writing)
    return int(sum(len(os.read(reading, 1)) for _ in range(count)) == count)
"""
LIBC = "import ctypes, fcntl, os, resource, socket\nlibc = ctypes.CDLL(None)\nboss = os.getppid()\n"
PROGRAMS = {
    "children-ignored": BURN
    + """
def f():
    ignore_children()
    for _ in range(40):
        if os.fork() == 0:
            burn()
        time.sleep(0.06)
    return 1
""",
    "orphans": BURN
    + """
def f():
    ignore_children()
    for _ in range(40):
        if os.fork() == 0:
            if os.fork() == 0:
                burn()
            os._exit(0)
        time.sleep(0.06)
    return 1
""",
    "chain-of-processes": BURN
    + """
def f():
    ignore_children()
    if os.fork() == 0:
        while os.fork() == 0:
            end = time.process_time() + 0.03
            while time.process_time() < end:
                pass
        os._exit(0)
    time.sleep(8)
    return 1
""",
    "pages-not-resident": MANY
    + """
import mmap
def work():
    block = mmap.mmap(-1, 150 << 20)
    for at in range(0, len(block), 1 << 20):
        block[at : at + (1 << 20)] = bytes(1 << 20)
        block.madvise(mmap.MADV_DONTNEED, at, 1 << 20)
    return block
def f():
    return in_children(4, work)
""",
    "pages-of-a-device": MANY
    + """
import mmap
def work():
    block = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 150 << 20)
    for at in range(0, len(block), 1 << 20):
        block[at : at + (1 << 20)] = bytes(1 << 20)
        block.madvise(mmap.MADV_DONTNEED, at, 1 << 20)
    return block
def f():
    return in_children(4, work)
""",
    "socket-buffers": MANY
    + """
import socket
def work():
    pairs = [socket.socketpair() for _ in range(115)]
    for each in (end for pair in pairs for end in pair):
        each.setblocking(False)
        try:
            while each.send(bytes(1 << 16)):
                pass
        except BlockingIOError:
            pass
    time.sleep(0.3)
    return pairs
def f():
    return in_children(8, work)
""",
    "descriptors": """
import os
def f():
    held = []
    try:
        while len(held) < 600:
            held.append(os.open('/dev/null', os.O_RDONLY))
    except OSError:
        return 0
    return 1
""",
    "children": MANY + "def f():\n    return in_children(45, int)\n",
    "lock-of-a-library": """
import fcntl, os
def f():
    try:
        fcntl.flock(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 1
""",
    "lock-of-a-device": """
import fcntl, os
def f():
    try:
        fcntl.lockf(os.open('/dev/null', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 1
""",
    "asking-for-a-lock": """
import fcntl, os, struct
def f():
    wanted = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)
    try:
        fcntl.fcntl(os.open('/dev/null', os.O_RDWR), fcntl.F_GETLK, wanted)
        return 1
    except OSError:
        return 0
""",
    "notices-of-files": """
import ctypes
def f():
    return int(ctypes.CDLL(None).inotify_init() >= 0)
""",
    "notices-of-directories": """
import fcntl, os
def f():
    try:
        fcntl.fcntl(os.open(os.path.dirname(os.__file__), os.O_RDONLY), fcntl.F_NOTIFY, 1)
        return 1
    except OSError:
        return 0
""",
}  # fmt: skip
#: What an answer could do to another process of its user, where it sees them.
TO_OTHERS = {
    "own-a-pipe": "fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, boss)",
    "own-a-pipe-otherwise": (
        "owner = (ctypes.c_int * 2)(1, boss)\n"
        "        if libc.fcntl(os.pipe()[0], 15, owner) < 0:\n            raise OSError"
    ),
    "choose-the-signal": "fcntl.fcntl(os.pipe()[0], 10, 9)",
    "own-a-socket": (
        "pair = socket.socketpair()\n        whom = ctypes.byref(ctypes.c_int(boss))\n"
        "        if libc.ioctl(pair[0].fileno(), 0x8901, whom) < 0:\n            raise OSError"
    ),
    "limit-another": "resource.prlimit(boss, resource.RLIMIT_NOFILE)",
    "slow-another": "os.setpriority(os.PRIO_PROCESS, boss, os.getpriority(os.PRIO_PROCESS, boss))",
    "move-another": "os.sched_setaffinity(boss, os.sched_getaffinity(boss))",
    "schedule-another": "os.sched_setscheduler(boss, os.SCHED_OTHER, os.sched_param(0))",
    "leave-the-session": (
        "if os.fork() == 0:\n            os._exit(libc.setsid() < 0)\n"
        "        if os.wait()[1]:\n            raise OSError"
    ),
}
LIMITS = {
    "cpu_seconds": 0.5,
    "wall_seconds": 20.0,
    "memory_bytes": 4 << 30,
    "processes": 40,
}
OTHER_LIMITS = {
    "chain-of-processes": {"cpu_seconds": 60.0, "wall_seconds": 0.5},
    "pages-not-resident": {"cpu_seconds": 20.0, "memory_bytes": 200 << 20},
    "pages-of-a-device": {"cpu_seconds": 20.0, "memory_bytes": 200 << 20},
    "socket-buffers": {"cpu_seconds": 20.0, "memory_bytes": 200 << 20},
}
SCRIPT = """
import fcntl, json, os, sys
from chimera.sandbox import Limits, close_all, run_tests
library = open(os.__file__)
fcntl.flock(library, fcntl.LOCK_SH)
device = open('/dev/null', 'r+')
fcntl.lockf(device, fcntl.LOCK_SH)
found = {}
for name, program, limits in json.load(sys.stdin):
    outcome = run_tests(program, 'assert f() == 1', limits=Limits(**limits))
    found[name] = [outcome.passed, outcome.limit, outcome.why]
heavy = 'block = bytearray(b"x") * (900 << 20)\\nfor _ in range(90):\\n    sum(range(10**5))'
outcome = run_tests('x = 1', heavy, limits=Limits(memory_bytes=200 << 20))
found['memory-of-the-judge'] = [outcome.passed, outcome.limit, outcome.why]
outcome = run_tests('def f():\\n    return 1', 'assert f() == 1')
close_all()
print(json.dumps([found, outcome.passed, outcome.isolation]))
"""
NO_GROUPS = (
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mount -t tmpfs none /sys/fs/cgroup; exec "$@"',
    "sh",
)
SETTINGS = {
    "namespaces and groups": ((), "namespaces"),
    "namespaces": (NO_GROUPS, "namespaces"),
    "process and groups": ((*CAGE, "--bind", "/sys/fs/cgroup", "/sys/fs/cgroup"), "process"),
    "process": (CAGE, "process"),
}


def to_others() -> dict[str, str]:
    return {
        name: f"{LIBC}def f():\n    try:\n        {does}\n        return 1\n"
        "    except (OSError, ValueError):\n        return 0\n"
        for name, does in TO_OTHERS.items()
    }


def tried(setting: str) -> dict[str, list[Any]]:
    """What became of each program, and that an honest answer passes after them all."""
    prefix, isolation = SETTINGS[setting]
    programs = PROGRAMS | (to_others() if isolation == "process" else {})
    cases = [[name, text, LIMITS | OTHER_LIMITS.get(name, {})] for name, text in programs.items()]
    done = subprocess.run(
        [*map(str, prefix), sys.executable, "-B", "-c", SCRIPT],
        input=json.dumps(cases),
        env={**os.environ, "CHIMERA_SANDBOX": isolation, "PYTHONPATH": str(ROOT), "HOME": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found, *honest = json.loads(done.stdout.splitlines()[-1])
    assert honest == [True, isolation]
    outcomes: dict[str, list[Any]] = found
    return outcomes


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(name, marks=[pytest.mark.full] if name == "process and groups" else [])
        for name in SETTINGS
    ],
)
def test_limits_hold(setting: str) -> None:
    if namespaces_refused() is not None or landlock.version(ctypes.CDLL(None)) == 0:
        pytest.skip("needs bubblewrap for the cage and Landlock for the answers")
    if "groups" in setting and not cgroups.available():
        pytest.skip("no control groups here")
    if setting == "namespaces" and (os.geteuid() != 0 or shutil.which("unshare") is None):
        pytest.skip("only root can take the control groups away")

    found = tried(setting)

    assert {name: said for name, said in found.items() if said[0]} == {}
    limits = {name: said[1] for name, said in found.items()}
    assert limits["chain-of-processes"] in ("wall time", "processes")
    assert limits["socket-buffers"] == limits["memory-of-the-judge"] == "memory"
    if "groups" in setting:
        assert limits["children-ignored"] == limits["orphans"] == "CPU time"
        assert limits["pages-not-resident"] == "memory"


HONEST = {
    "a database": """
import sqlite3
def f():
    for statement in ('create table t (a)', 'insert into t values (1)'):
        with sqlite3.connect('x.db') as database:
            database.execute(statement)
    return sqlite3.connect('x.db').execute('select a from t').fetchone()[0]
""",
    "an event loop": """
import asyncio
async def one():
    await asyncio.sleep(0)
    return 1
def f():
    return asyncio.run(one())
""",
    "a child": """
import subprocess, sys
def f():
    return int(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout)
""",
    "an alarm": """
import signal
def f():
    signal.signal(signal.SIGALRM, lambda *given: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    return 1
""",
}


@pytest.mark.parametrize("name", HONEST)
def test_what_honest_answers_do_is_left_to_them(name: str) -> None:
    outcome = run_tests(HONEST[name], "assert f() == 1")

    assert outcome.passed, outcome.why
