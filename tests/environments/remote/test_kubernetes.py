"""Environments in pods, by the official client and a server of ours that speaks the interface."""

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
from chimera.environments.remote.pods import PodSandbox
from chimera.environments.remote.sandboxes import Address
from chimera.errors import EnvironmentFault, UsageError
from tests.conftest import missing
from tests.environments.remote.boxes import WORKDIR
from tests.environments.remote.clusters import V4, V5, Cluster, cluster, lacking

pytestmark = pytest.mark.xdist_group("kubernetes")
POLICY = "chimera-no-network"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests that leave it as it was."""
    if why := lacking():
        missing(why)
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Cluster]:
    if why := lacking():
        missing(why)
    with cluster(tmp_path) as found:
        yield found


@pytest.fixture
def start(own: Cluster) -> Iterator[Callable[..., Machine]]:
    started: list[Machine] = []

    def begin(spec: EnvironmentSpec | None = None, **settings: str) -> Machine:
        name = own.address(**settings)
        started.append(machine(start_environment(name, spec or EnvironmentSpec())))
        return started[-1]

    yield begin
    for env in started:
        env.close()


#: What confinement is for: bubblewrap's other checks are those of the backend that it is.
STAYS = "no_files_of_the_host"


def dear(inside: str, check: Check) -> list[pytest.MarkDecorator]:
    """Each check once where it is quickest; of bubblewrap's in pods one, and all are `full`. A pod
    for one check alone is two seconds of CPU time: of these one is quick enough for every day."""
    if inside == "bubblewrap":
        return [pytest.mark.slow if check.name == STAYS else pytest.mark.full]
    quick = check.kind == "shared" or check.name == "the_spec_is_carried_out"
    return [] if quick else [pytest.mark.slow]


def suites() -> list[object]:
    return [
        pytest.param(inside, check, id=f"{inside}-{check.name}", marks=dear(inside, check))
        for inside in PodSandbox.inside
        for check in CHECKS
        if inside == "bubblewrap" or not check.confined
    ]


@pytest.mark.parametrize(("inside", "check"), suites())
def test_the_suite_of_all_backends_holds(
    inside: str, check: Check, shared: Cluster, shared_environment: Callable[[str], Machine]
):
    name = shared.address(inside=inside)

    def begin(spec: EnvironmentSpec) -> Machine:
        return machine(start_environment(name, spec))

    if check.kind == "shared":
        check.function(shared_environment(name))
    else:
        check.function(needing(begin, EnvironmentSpec()))


# --- what becomes of a connection


def ends_while_it_runs(env: Machine, end: Callable[[], object]) -> EnvironmentFault:
    """What a command meets whose connection ends after a second."""
    before = time.monotonic()
    threading.Timer(1.0, end).start()
    with pytest.raises(EnvironmentFault, match="lost") as caught:
        env.run_command("while :; do echo output; sleep 0.1; done", timeout=100)
    assert caught.value.retryable
    assert time.monotonic() - before < 50
    with pytest.raises(EnvironmentFault, match="lost"):
        env.read_file("anything")
    return caught.value


def test_a_lost_connection_is_a_fault_and_no_exit_code(start, own: Cluster):
    said = ends_while_it_runs(start(), own.drop_connections)

    assert "still runs" in str(said)


@pytest.mark.full
def test_half_a_frame_is_a_fault_and_no_output(start, own: Cluster):
    ends_while_it_runs(start(), lambda: setattr(own, "halve", True))


@pytest.mark.slow
def test_a_server_that_dies_is_a_fault(start, own: Cluster):
    env = start()

    said = ends_while_it_runs(env, own.die)

    assert "cannot be reached" in str(said)
    env.close()


@pytest.mark.slow
def test_an_evicted_pod_says_so(start, own: Cluster):
    env = start()
    (pod,) = own.pods.values()

    said = ends_while_it_runs(
        env, lambda: pod.fail("Evicted", "The node was low on resource: memory.")
    )

    assert "Evicted: Error: The node was low on resource: memory." in str(said)


@pytest.mark.full
def test_a_pod_that_somebody_removes_is_a_fault(start, own: Cluster):
    env = start()

    said = ends_while_it_runs(env, lambda: own.delete_pod(*own.pods))

    assert "not found" in str(said)


@pytest.mark.slow
def test_a_pod_ends_when_its_time_is_over(start, own: Cluster):
    env = start(seconds="15")

    with pytest.raises(EnvironmentFault, match="lost"):
        env.run_command("sleep 60")
    (pod,) = own.pods.values()
    assert pod.body["spec"]["activeDeadlineSeconds"] == 15


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_no_pod(own: Cluster):
    program = (
        "import sys, time\n"
        "from chimera.environments import EnvironmentSpec, start_environment\n"
        "env = start_environment(sys.argv[1], EnvironmentSpec())\n"
        "print('started', flush=True)\n"
        "time.sleep(100)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, own.address()], stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"started\n"
        assert own.pods
        os.kill(running.pid, signal.SIGKILL)

    for _ in range(100):
        if not own.pods:
            break
        time.sleep(0.1)
    assert not own.pods


# --- the stream itself


def place(own: Cluster, **settings: str) -> PodSandbox:
    name = own.address(**settings)
    kind = backend_class(name)
    address: Address = kind.address  # type: ignore[attr-defined]
    return PodSandbox.create(address, EnvironmentSpec(), 600)


@pytest.mark.parametrize("protocol", [V4, V5])
def test_exit_codes_come_from_the_status_and_bytes_come_whole(own: Cluster, protocol: str):
    own.protocols = (protocol,)
    sandbox = place(own)
    content = bytes(range(256)) * 20_000
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


@pytest.mark.parametrize("protocol", [V4, V5])
def test_what_is_brought_there_arrives_whole(own: Cluster, protocol: str):
    own.protocols = (protocol,)
    content = os.urandom(3_000_000)

    said = place(own).run(["sha256sum"], lambda stream: stream.write(content))

    assert said.split()[0] == hashlib.sha256(content).hexdigest()


def test_an_input_that_ends_is_told_where_there_is_a_word_for_it(own: Cluster):
    with tempfile.TemporaryFile() as stderr:
        process = place(own).execute(["cat"], stderr)

        said, _ = process.communicate(b"all of it", timeout=30)

    assert (said, process.returncode) == (b"all of it", 0)


def test_a_program_that_is_not_in_the_image_is_named(own: Cluster):
    with pytest.raises(EnvironmentFault, match="/opt/python9: no such file"):
        start_environment(own.address(python="/opt/python9"), EnvironmentSpec())
    assert not own.pods


def test_arguments_are_in_no_log_of_the_cluster(start, own: Cluster):
    env = start(EnvironmentSpec(variables={"KEY": "a-secret-of-the-task"}))

    assert env.run_command("echo $KEY").stdout == b"a-secret-of-the-task\n"
    assert own.seen
    assert not [line for line in own.seen if "a-secret-of-the-task" in line]


# --- the pod


def test_a_pod_is_made_as_it_is_promised(start, own: Cluster):
    limits = ResourceLimits(memory_bytes=1024**3, cpus=1.5, disk_bytes=10**9)
    start(EnvironmentSpec(limits=limits), node_selector="disk=ssd", runtime_class="gvisor")

    (pod,) = own.pods.values()
    spec, labels = pod.body["spec"], pod.body["metadata"]["labels"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] == 24 * 3600
    assert spec["runtimeClassName"] == "gvisor"
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert labels["chimera.pid"] == str(os.getpid())
    assert {"chimera.run", "chimera.owner", "chimera.host", "chimera.network"} <= set(labels)
    assert pod.container["resources"]["limits"] == {
        "cpu": "1.5", "memory": str(1024**3 + 256 * 1024**2), "ephemeral-storage": "1000000000",
    }  # fmt: skip
    assert pod.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@pytest.mark.full
def test_a_task_works_in_its_own_image(start, own: Cluster):
    image = "registry.test/of-the-task:1"
    env = start(EnvironmentSpec(image=image, needs=frozenset({"image"})))

    assert env.workdir == WORKDIR
    assert env.run_command("echo $OF_IMAGE").stdout == b"yes\n"
    env.write_file("/somewhere/else", "all of the container is the environment")
    (pod,) = own.pods.values()
    assert pod.container["image"] == image
    kind = backend_class(own.address())
    assert kind.identity(EnvironmentSpec()) != kind.identity(EnvironmentSpec(image=image))


@pytest.mark.slow
def test_commands_are_the_user_that_is_asked_for(start):
    env = start(user="1234")

    assert env.run_command("id -u").stdout == b"1234\n"


@pytest.mark.full
def test_mounts_are_brought_there(start, tmp_path: Path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("content")

    env = start(EnvironmentSpec(mounts={str(tmp_path / "tree"): "/data"}))

    assert env.run_command("cat /data/file").stdout == b"content"


# --- the network


DEVICES = "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '"


def test_a_task_without_a_network_is_cut_off_by_a_policy(start, own: Cluster):
    env = start()

    (policy,) = own.policies.values()
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    names = env.run_command(DEVICES).stdout.split()
    assert b"lo" in names
    assert b"eth0" not in names
    (pod,) = own.pods.values()
    assert own.cut_off(pod)
    assert pod.body["spec"]["dnsPolicy"] == "None"


@pytest.mark.full
def test_a_task_with_a_network_is_not(start, own: Cluster):
    start(EnvironmentSpec(network=True))

    assert not own.policies
    assert "dnsPolicy" not in next(iter(own.pods.values())).body["spec"]


def test_without_a_policy_there_is_no_environment(start, own: Cluster):
    own.refused.add(("create", "networkpolicies"))

    with pytest.raises(EnvironmentFault, match=r"(?s)NetworkPolicy .*forbidden.*a role"):
        start()
    assert not own.pods
    start(EnvironmentSpec(network=True))


@pytest.mark.full
def test_a_policy_that_somebody_else_made_will_do(start, own: Cluster):
    start()
    own.refused.add(("create", "networkpolicies"))

    start()
    own.policies[POLICY]["spec"]["egress"] = [{}]
    with pytest.raises(EnvironmentFault, match="does not cut pods off"):
        start()


# --- refusals


@pytest.mark.parametrize(
    ("settings", "why", "retryable"),
    [
        ({"image": "elsewhere.test/x"}, "ImagePullBackOff: elsewhere.test/x: not found", False),
        ({"node_selector": "disk=hdd", "wait": "2"}, "Unschedulable: 0/1 nodes", True),
    ],
)
def test_a_pod_that_does_not_run_says_why(start, own: Cluster, settings, why: str, retryable: bool):
    with pytest.raises(EnvironmentFault, match=why) as caught:
        start(**settings)

    assert caught.value.retryable is retryable
    assert not own.pods


def test_a_used_up_quota_says_what_to_do(start, own: Cluster):
    own.quota = 1
    start()

    with pytest.raises(EnvironmentFault, match=r"(?s)exceeded quota.*most=NUMBER") as caught:
        start()
    assert caught.value.retryable


def test_an_expired_login_says_what_to_do(own: Cluster):
    name = own.address(config=str(own.kubeconfig(token="old")))

    assert "(401): Unauthorized\n  the login is wrong or has expired" in str(available(name))
    with pytest.raises(EnvironmentFault, match="expired") as caught:
        backend_class(name).start(EnvironmentSpec())
    assert caught.value.everywhere
    assert not caught.value.retryable


@pytest.mark.parametrize("what", [("create", "pods"), ("delete", "pods"), ("get", "pods/exec")])
def test_what_is_not_allowed_is_known_before(own: Cluster, what: tuple[str, str]):
    assert available(own.address()) is None
    own.refused.add(what)

    assert f"not allowed in the namespace tests: {' '.join(what)}" in str(available(own.address()))
    with pytest.raises(UsageError, match="not allowed"):
        start_environment(own.address(), EnvironmentSpec())


def test_a_refused_command_is_told_in_the_clusters_words(own: Cluster):
    own.refused.add(("get", "pods/exec"))

    with pytest.raises(EnvironmentFault, match=r'403.*cannot get resource "pods/exec"'):
        backend_class(own.address()).start(EnvironmentSpec())
    assert not own.pods


def test_a_cluster_that_is_not_there_says_so(own: Cluster):
    name = own.address(config=str(own.kubeconfig(port=1)))

    assert "cannot be reached" in str(available(name))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("kubernetes", "wants a place: --environment kubernetes://PLACE"),
        ("k8s://", "name a namespace"),
        ("k8s://Big?image=x", "name a namespace"),
        ("k8s://tests?colour=red", "no setting 'colour'"),
        ("k8s://tests?inside=local", "inside is container or bubblewrap"),
        ("k8s://tests?wait=long", "wait is a number"),
        ("kubernetes://tests?node_selector=ssd", "LABEL=VALUE"),
    ],
)
def test_a_wrong_address_is_refused(address: str, said: str):
    with pytest.raises(UsageError, match=said):
        backend_class(address)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (EnvironmentSpec(), "not named by the task: name one with"),
        (EnvironmentSpec(build_context=Path("/")), "is built from a Dockerfile"),
        (EnvironmentSpec(volumes={"/data": "data"}), "no services beside them"),
    ],
)
def test_what_a_pod_cannot_be_is_said(own: Cluster, spec: EnvironmentSpec, said: str):
    with pytest.raises(UsageError, match=said):
        start_environment(own.address(image=""), spec)


def test_without_the_package_the_extra_is_named():
    program = (
        "import sys; sys.modules['kubernetes'] = None\n"
        "from chimera.environments import available; print(available('k8s://tests?image=x'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "pip install 'chimera-eval[kubernetes]'" in done.stdout


def test_settings_that_name_no_cluster_are_told(tmp_path: Path):
    assert "name no cluster" in str(available(f"k8s://tests?config={tmp_path}/absent"))
