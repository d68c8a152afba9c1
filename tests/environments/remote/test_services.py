"""Environments in sandboxes of services, by the services' own packages and stand-ins of ours."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from chimera.environments import (
    EnvironmentSpec,
    Machine,
    ResourceLimits,
    available,
    backend_class,
    machine,
    start_environment,
)
from chimera.environments.conformance import CHECKS, Check, needing
from chimera.environments.remote.far import WINDOW
from chimera.environments.remote.services import ServiceSandbox
from chimera.errors import EnvironmentFault, UsageError
from tests.conftest import missing
from tests.environments.remote.boxes import WORKDIR, lacking
from tests.environments.remote.daytona_service import daytona
from tests.environments.remote.e2b_service import e2b
from tests.environments.remote.modal_service import modal
from tests.environments.remote.rented import KEY, PYTHON, Refused, Service


@dataclass(frozen=True)
class Kind:
    name: str
    place: str
    unknown: str  # a place that the service does not have
    key: str  # the variable with the key
    serve: Callable[[Path], AbstractContextManager[tuple[Service, dict[str, str]]]]
    resumes: bool = False  # its package goes on where a connection broke off

    def address(self, **settings: str) -> str:
        place, _, query = settings.pop("place", self.place).partition("?")
        own = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        chosen = {**own, "python": PYTHON, **settings}.items()
        return f"{self.name}://{place}?" + "&".join(f"{key}={text}" for key, text in chosen)


KINDS = {
    kind.name: kind
    for kind in [
        Kind("e2b", "base", "absent", "E2B_API_KEY", e2b),
        Kind(
            "modal",
            "tests?image=registry.test/python:3",
            "tests?image=registry.test/absent",
            "MODAL_TOKEN_SECRET",
            modal,
            resumes=True,
        ),
        Kind("daytona", "python-3.12", "absent", "DAYTONA_API_KEY", daytona),
    ]
}
QUICK = "e2b"
#: What confinement is for: bubblewrap's other checks are those of the backend that it is.
STAYS = "no_files_of_the_host"
#: Half a gigabyte and more, as text twice over; bounds are tried for less below.
DEAR = ("output_is_bounded", "huge_files_are_refused")
ALL = [
    pytest.param(name, marks=[pytest.mark.xdist_group(name)] + [pytest.mark.slow] * (name != QUICK))
    for name in KINDS
]
#: Of the suite, what `make test` tries: a connection's bytes, ends and limits are tried below.
EVERY_DAY = ("results_are_told_apart", "bytes_survive", "deadline_is_kept")


@contextmanager
def serving(kind: Kind, folder: Path) -> Iterator[Service]:
    if why := lacking():
        missing(why)
    if not find_spec(kind.name):
        missing(f"the package '{kind.name}' is not installed")
    with kind.serve(folder) as (service, variables), pytest.MonkeyPatch.context() as patch:
        for name, text in variables.items():
            patch.setenv(name, text)
        yield service


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def own(kind: Kind, tmp_path: Path) -> Iterator[Service]:
    with serving(kind, tmp_path) as found:
        yield found


@pytest.fixture
def start(kind: Kind, own: Service) -> Iterator[Callable[..., Machine]]:
    started: list[Machine] = []

    def begin(spec: EnvironmentSpec | None = None, **settings: str) -> Machine:
        found = backend_class(kind.address(**settings))
        started.append(machine(found.start(spec or EnvironmentSpec())))
        return started[-1]

    yield begin
    for env in started:
        env.close()


each_kind = pytest.mark.parametrize("kind", ALL, indirect=True)
#: What is ours and the same in all kinds is tried in the others by `make test-full`.
one_kind = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            name, marks=[pytest.mark.xdist_group(name)] + [pytest.mark.full] * (name != QUICK)
        )
        for name in KINDS
    ],
    indirect=True,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Kind], Service]]:
    """One service of each kind for all tests that leave it as it was."""
    found: dict[str, Service] = {}
    entered = []

    def serve(kind: Kind) -> Service:
        if kind.name not in found:
            context = serving(kind, tmp_path_factory.mktemp(kind.name))
            found[kind.name] = context.__enter__()
            entered.append(context)
        return found[kind.name]

    yield serve
    for context in entered:
        context.__exit__(None, None, None)


def tier(kind: str, inside: str, check: Check) -> list[pytest.MarkDecorator]:
    if kind != QUICK or inside != "container" or check.name in DEAR:
        return [pytest.mark.full]
    return [] if check.name in EVERY_DAY else [pytest.mark.slow]


def suites() -> list[object]:
    """All checks in one kind, for in the others nothing differs but what other tests here try."""
    marks = [
        (kind, inside, check)
        for kind in KINDS
        for inside in ServiceSandbox.inside
        for check in CHECKS
        if (inside == "bubblewrap" and check.name == STAYS)
        or (inside == "container" and not check.confined)
    ]
    return [
        pytest.param(
            kind, inside, check, id=f"{kind}-{inside}-{check.name}",
            marks=[pytest.mark.xdist_group(kind), *tier(kind, inside, check)],
        )
        for kind, inside, check in marks
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "inside", "check"), suites(), indirect=["kind"])
def test_the_suite_of_all_backends_holds(
    kind: Kind,
    inside: str,
    check: Check,
    shared: Callable[[Kind], Service],
    shared_environment: Callable[[str], Machine],
):
    shared(kind)
    name = kind.address(inside=inside)

    def begin(spec: EnvironmentSpec) -> Machine:
        return machine(start_environment(name, spec))

    if check.kind == "shared":
        check.function(shared_environment(name))
    else:
        check.function(needing(begin, EnvironmentSpec()))


# --- the stream itself


def place(kind: Kind, **settings: str) -> ServiceSandbox:
    found = backend_class(kind.address(**settings))
    return found.kind.create(found.address, EnvironmentSpec(), 600)  # type: ignore[attr-defined]


@each_kind
def test_bytes_come_whole_and_exit_codes_are_the_commands(kind: Kind, own: Service):
    sandbox = place(kind)
    content = bytes(range(256)) * 4_000
    with tempfile.TemporaryFile() as stderr:
        command = ["sh", "-c", f"head -c {len(content)}; printf '\\377' >&2; exit 7"]
        process = sandbox.execute(command, stderr)
        assert process.stdin is not None
        feeding = threading.Thread(target=process.stdin.write, args=(content,))
        feeding.start()
        assert process.stdout is not None
        assert process.stdout.read() == content
        feeding.join()
        with process:
            assert process.wait(30) == 7
        stderr.seek(0)
        assert stderr.read() == b"\xff"
    assert sandbox.run(["sha256sum"], lambda stream: stream.write(content)).split()[0] == (
        hashlib.sha256(content).hexdigest()
    )
    with pytest.raises(EnvironmentFault, match=r"\(137\)"):
        sandbox.run(["sh", "-c", "kill -9 $$"])


@one_kind
def test_output_that_nobody_reads_stops_the_command(kind: Kind, own: Service):
    sandbox = place(kind)
    size = 3 * WINDOW
    with tempfile.TemporaryFile() as stderr:
        command = ["sh", "-c", f"head -c {size} /dev/zero; echo done > /tmp/done"]
        process = sandbox.execute(command, stderr)
        assert process.stdout is not None
        process.stdout.read(1)
        assert sandbox.run(["sh", "-c", "sleep 1; ls /tmp"]) == ""

        assert len(process.stdout.read()) == size - 1
        process.communicate()
    assert sandbox.run(["cat", "/tmp/done"]) == "done\n"


# --- what becomes of a connection


def ends_while_it_runs(env: Machine, end: Callable[[], object]) -> str:
    """What a command meets whose connection ends after a moment."""
    threading.Timer(0.5, end).start()
    with pytest.raises(EnvironmentFault, match="lost") as caught:
        env.run_command("while :; do echo output; sleep 0.1; done", timeout=100)
    assert caught.value.retryable
    with pytest.raises(EnvironmentFault, match="lost"):
        env.read_file("anything")
    return str(caught.value)


@each_kind
def test_a_sandbox_that_ends_is_a_fault_that_says_so(kind: Kind, start, own: Service):
    env = start()

    said = ends_while_it_runs(env, lambda: own.end(own.only().name))

    assert "has ended" in said


def goes_on(env: Machine, end: Callable[[], object]) -> None:
    threading.Timer(0.5, end).start()
    result = env.run_command("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.2; done; exit 3")
    assert (result.stdout.split(), result.exit_code) == ([b"%d" % i for i in range(1, 10)], 3)


@each_kind
def test_a_lost_connection_is_a_fault_and_no_exit_code(kind: Kind, start, own: Service):
    if kind.resumes:
        goes_on(start(), own.drop_connections)
    else:
        assert "still runs" in ends_while_it_runs(start(), own.drop_connections)


@one_kind
def test_half_of_what_was_said_is_a_fault_and_no_output(kind: Kind, start, own: Service):
    tried = goes_on if kind.resumes else ends_while_it_runs
    tried(start(), lambda: setattr(own, "halve", True))


@each_kind
def test_a_service_that_stops_answering_is_given_up(kind: Kind, start, own: Service):
    env = start(patience="2")

    said = ends_while_it_runs(env, own.mute.set)

    assert "nothing was heard for 2 s" in said


@one_kind
def test_what_was_altered_on_its_way_is_a_fault(kind: Kind, start, own: Service):
    said = ends_while_it_runs(start(), lambda: setattr(own, "alter", True))

    assert "a line" in said


@one_kind
def test_a_process_that_is_killed_leaves_no_sandbox(kind: Kind, own: Service):
    program = (
        "import sys, time\n"
        "from chimera.environments import EnvironmentSpec, backend_class\n"
        "env = backend_class(sys.argv[1]).start(EnvironmentSpec())\n"
        "print('started', flush=True)\n"
        "time.sleep(100)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, kind.address()], stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"started\n"
        assert own.sandboxes
        os.kill(running.pid, signal.SIGKILL)

    for _ in range(100):
        if not own.sandboxes:
            break
        time.sleep(0.1)
    assert not own.sandboxes


# --- the sandbox


DEVICES = "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '"


@each_kind
def test_a_task_without_a_network_has_none(kind: Kind, start, own: Service):
    env = start(EnvironmentSpec(variables={"SECRET": "of-the-task"}))

    assert env.run_command(DEVICES).stdout.split() == [b"lo"]
    assert env.workdir == WORKDIR
    assert env.run_command("echo $SECRET").stdout == b"of-the-task\n"
    assert not [line for line in own.seen if "of-the-task" in line]
    env.close()
    assert not own.sandboxes


@one_kind
def test_a_task_with_a_network_has_it(kind: Kind, start, own: Service):
    env = start(EnvironmentSpec(network=True))

    mine = Path("/proc/self/ns/net").readlink()
    assert env.run_command("readlink /proc/self/ns/net").stdout.decode().strip() == str(mine)


@one_kind
def test_a_key_is_in_no_sandbox(kind: Kind, start, own: Service):
    env = start()

    seen = env.run_command("cat /proc/*/environ /proc/*/cmdline; env").stdout
    assert b"PATH" in seen
    assert KEY.encode() not in seen
    assert KEY not in str(own.only().asked)


@pytest.mark.full
@pytest.mark.parametrize("kind", ALL[1:], indirect=True)
def test_a_task_works_in_its_own_image(kind: Kind, start, own: Service):
    image = "registry.test/of-the-task:1"
    limits = ResourceLimits(memory_bytes=1024**3, cpus=1.5)
    start(EnvironmentSpec(image=image, limits=limits))

    asked = str(own.only().asked)
    assert image in asked
    assert {"modal": "memory_mb_max: 1280", "daytona": "'memory': 2"}[kind.name] in asked
    identity = backend_class(kind.address()).identity
    assert identity(EnvironmentSpec()) != identity(EnvironmentSpec(image=image))


# --- refusals


def refused(kind: Kind, **settings: str) -> EnvironmentFault:
    with pytest.raises(EnvironmentFault) as caught:
        backend_class(kind.address(**settings)).start(EnvironmentSpec())
    assert KEY not in str(caught.value)
    return caught.value


@each_kind
def test_a_refused_key_says_what_to_do(kind: Kind, own: Service, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(kind.key, "another-key-of-the-tests")

    fault = refused(kind)

    assert fault.everywhere
    assert not fault.retryable
    assert f"{kind.key} anew" in str(fault)
    assert "another-key" not in str(fault)
    with pytest.raises(UsageError, match=f"{kind.key} anew"):
        start_environment(kind.address(), EnvironmentSpec())


@each_kind
def test_a_used_up_quota_says_what_to_do(kind: Kind, own: Service):
    own.quota = 0

    fault = refused(kind)

    assert "most=NUMBER" in str(fault)
    assert fault.retryable


@each_kind
def test_a_place_that_is_not_there_says_so(kind: Kind, own: Service):
    fault = refused(kind, place=kind.unknown)

    assert backend_class(kind.address()).kind.unknown in str(fault)  # type: ignore[attr-defined]
    assert not fault.retryable


@each_kind
def test_a_service_that_is_not_there_says_so(kind: Kind, own: Service):
    own.refusal = Refused(503, "no room")

    assert refused(kind).retryable


@one_kind
def test_a_program_that_is_not_in_the_image_is_named(kind: Kind, own: Service):
    assert "/opt/python9" in str(refused(kind, python="/opt/python9"))
    assert not own.sandboxes


def test_an_account_with_shorter_sandboxes_says_what_to_do(tmp_path: Path):
    with serving(KINDS["e2b"], tmp_path) as service:
        service.longest = 3600  # type: ignore[attr-defined]

        assert "seconds=NUMBER" in str(refused(KINDS["e2b"]))


@pytest.mark.parametrize("name", KINDS)
def test_without_package_or_key_what_is_missing_is_named(name: str):
    kind = KINDS[name]
    program = (
        "import sys; from chimera.environments import available\n"
        f"print(available('{kind.address()}')); sys.modules['{name}'] = None\n"
        f"print(available('{kind.address()}'))"
    )
    bare = {key: text for key, text in os.environ.items() if key != kind.key}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=bare, check=True
    )

    with_package, without = done.stdout.splitlines()
    assert f"pip install 'chimera-eval[{name}]'" in without
    if find_spec(name):
        assert "needs a key: set " in with_package
        assert kind.key in with_package


@pytest.mark.parametrize(
    ("address", "spec", "said"),
    [
        ("e2b://", EnvironmentSpec(), "name a template"),
        ("modal://", EnvironmentSpec(), "name an app"),
        ("daytona://", EnvironmentSpec(), "name a snapshot"),
        ("daytona://x?inside=local", EnvironmentSpec(), "inside is container or bubblewrap"),
        ("e2b://base?patience=soon", EnvironmentSpec(), "patience is a number"),
        ("e2b://base?image=x", EnvironmentSpec(), "no setting 'image'"),
        ("e2b://base", EnvironmentSpec(image="python:3.12"), r"does not offer .*\(image\)"),
        ("e2b://base", EnvironmentSpec(build_context=Path("/")), r"does not offer .*\(image\)"),
    ],
)
def test_what_a_service_cannot_give_is_refused(address: str, spec: EnvironmentSpec, said: str):
    with pytest.raises(UsageError, match=said):
        start_environment(address, spec)


def test_a_service_that_cannot_be_reached_says_so(monkeypatch: pytest.MonkeyPatch):
    if not find_spec("e2b"):
        missing("the package 'e2b' is not installed")
    monkeypatch.setenv("E2B_API_KEY", KEY)
    monkeypatch.setenv("E2B_API_URL", "http://127.0.0.1:1")

    assert "look at the network" in str(available("e2b://base"))
