"""Environments in pods of a Kubernetes cluster: `--environment k8s://NAMESPACE[?image=IMAGE]`."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any, Self

from chimera.activity import doing
from chimera.environments.base import EnvironmentSpec
from chimera.environments.engine import own_labels
from chimera.environments.remote.cluster import (
    CALL_SECONDS,
    CONTAINER,
    ROLE,
    Cluster,
    asking,
    ended,
)
from chimera.environments.remote.sandboxes import Address, Sandbox
from chimera.errors import EnvironmentFault, UsageError
from chimera.types import JSON

WAIT_SECONDS = 300
GUEST_BYTES = 256 * 1024**2  # for what serves an environment, beside the task's memory
#: A container that says so does not begin to run by itself.
HOPELESS = ("ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RunContainerError",
            "CreateContainerConfigError", "CreateContainerError")  # fmt: skip
NEEDED = (("create", "pods"), ("get", "pods"), ("delete", "pods"), ("get", "pods/exec"))
POLICY = "chimera-no-network"
CUT_OFF = {"chimera.network": "none"}
#: What a name that is looked up in vain must not wait for.
NO_NAMES = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"]}}


class PodSandbox(Sandbox):
    """A pod of the task's image, or of the address's for tasks that name none."""

    optional = ("image", "config", "context", "cpus", "node_selector", "runtime_class",
                "user", "wait")  # fmt: skip
    inside = ("container", "bubblewrap")
    kept = "/chimera"

    def __init__(self, cluster: Cluster, address: Address, name: str) -> None:
        self._cluster = cluster
        self._address = address
        self.name = name

    @classmethod
    def check(cls, address: Address) -> None:
        settings = address.settings
        if re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", address.place) is None:
            raise UsageError("name a namespace: k8s://NAMESPACE?image=IMAGE")
        for key in ("user", "wait"):
            if not settings.get(key, "1").isdecimal():
                raise UsageError(f"k8s://{address.place}: {key} is a number")
        if "=" not in settings.get("node_selector", "="):
            raise UsageError(f"k8s://{address.place}: node_selector is LABEL=VALUE[,LABEL=VALUE…]")

    @classmethod
    def admits(cls, address: Address) -> bool:
        cluster = Cluster.of(address.place, address.settings)
        lacking = [f"{verb} {what}" for verb, what in NEEDED if not cluster.may(verb, what)]
        if lacking:
            raise EnvironmentFault(
                f"not allowed in the namespace {address.place}: {', '.join(lacking)}\n  {ROLE}"
            )
        return True

    @classmethod
    def create(cls, address: Address, spec: EnvironmentSpec, seconds: int) -> Self:
        image = spec.image or address.settings.get("image")
        if spec.services or spec.volumes:
            raise UsageError("pods have no services beside them: choose --environment docker")
        if image is None:
            why = "is built from a Dockerfile" if spec.build_context else "is not named by the task"
            raise UsageError(f"the pod's image {why}: name one with ?image=IMAGE")
        cluster = Cluster.of(address.place, address.settings)
        found = cls(cluster, address, f"chimera-{secrets.token_hex(8)}")
        pod = manifest(found.name, image, address, spec, seconds)
        if CUT_OFF.items() <= pod["metadata"]["labels"].items():
            cut_off(cluster)
        with asking("create a pod"):
            cluster.core.create_namespaced_pod(address.place, pod, _request_timeout=CALL_SECONDS)
        try:
            with doing(f"waiting for the pod {found.name}"):
                found.identity = found._running()
        except BaseException:
            found.kill()
            raise
        return found

    def _running(self) -> JSON:
        """The digest of the image, once the pod runs."""
        until = time.monotonic() + int(self._address.settings.get("wait", WAIT_SECONDS))
        while True:
            pod = self._cluster.pod(self.name)
            statuses = pod.status.container_statuses or ()
            if pod.status.phase == "Running" and statuses and statuses[0].state.running:
                return str(statuses[0].image_id)
            why, hopeless = waits_for(pod)
            over = ended(pod)
            if over or hopeless or time.monotonic() > until:
                raise EnvironmentFault(
                    f"the pod {self.name} does not run: {over or why}", retryable=not hopeless
                )
            time.sleep(0.5)

    def execute(self, command: Sequence[str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        job = {
            "namespace": self._address.place,
            "settings": self._address.settings,
            "pod": self.name,
            "command": list(command),
        }
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "chimera.environments.remote.pod_exec", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )

    def run(self, command: Sequence[str], fill: Callable[[IO[bytes]], object] | None = None) -> str:
        """Input has a length that is told: clusters before 1.30 have no word for its end."""
        if fill is None:
            return super().run(command)
        with tempfile.TemporaryFile() as whole:
            fill(whole)
            counted = 'size=$1; shift; head -c "$size" | "$@"'
            words = ["sh", "-c", counted, "sh", str(whole.tell()), *command]
            whole.seek(0)
            return super().run(words, lambda stream: shutil.copyfileobj(whole, stream))

    def kill(self) -> None:
        with suppress(EnvironmentFault):  # then its deadline ends it
            self._cluster.remove(self.name)


def manifest(
    name: str, image: str, address: Address, spec: EnvironmentSpec, seconds: int
) -> dict[str, Any]:
    settings = address.settings
    nested = settings["inside"] == "bubblewrap"
    open_to_all = spec.network or nested  # bubblewrap has a network namespace of its own
    memory = spec.limits.memory_bytes
    limits = {
        "cpu": spec.limits.cpus or settings.get("cpus"),
        "memory": None if memory is None else memory + GUEST_BYTES,
        "ephemeral-storage": spec.limits.disk_bytes,
    }
    container = {
        "name": CONTAINER,
        "image": image,
        "command": ["sleep", str(seconds)],
        "resources": {"limits": {key: str(value) for key, value in limits.items() if value}},
        "securityContext": _security(settings.get("user"), nested, "root" in spec.needs),
        "volumeMounts": [{"name": "chimera", "mountPath": PodSandbox.kept}],
    }
    more: dict[str, Any] = {} if open_to_all else dict(NO_NAMES)
    if nested:
        more["hostUsers"] = False
    if "runtime_class" in settings:
        more["runtimeClassName"] = settings["runtime_class"]
    if "node_selector" in settings:
        pairs = (pair.partition("=") for pair in settings["node_selector"].split(","))
        more["nodeSelector"] = {label: value for label, _, value in pairs}
    return {
        "metadata": {"name": name, "labels": _labels() | ({} if open_to_all else CUT_OFF)},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "activeDeadlineSeconds": seconds,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": [{"name": "chimera", "emptyDir": {}}],
            **more,
        },
    }


def _security(user: str | None, nested: bool, root: bool) -> dict[str, Any]:
    found: dict[str, Any] = {} if user is None else {"runAsUser": int(user), "runAsNonRoot": True}
    if nested:  # in the pod's own user namespace, without which the cluster refuses the second
        found |= {"capabilities": {"add": ["SYS_ADMIN", "NET_ADMIN"]}, "procMount": "Unmasked"}
        return found | {"seccompProfile": {"type": "Unconfined"}}
    if root:
        return found
    found |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return found | {"seccompProfile": {"type": "RuntimeDefault"}}


def _labels() -> dict[str, str]:
    """Those of containers, in the form that the cluster takes."""
    own = (label.removeprefix("--label=").partition("=") for label in own_labels())
    return {key: re.sub(r"[^A-Za-z0-9.-]", "-", text)[:63].strip("-.") for key, _, text in own}


def waits_for(pod: Any) -> tuple[str, bool]:
    """What a pod that does not run waits for, and whether that is in vain."""
    for status in pod.status.container_statuses or ():
        if status.state.waiting is not None:
            reason = status.state.waiting.reason or "waiting"
            said = f"{reason}: {status.state.waiting.message or status.image}"
            return said, reason in HOPELESS
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"{condition.reason}: {condition.message}", False
    return f"it is {pod.status.phase}", False


def cut_off(cluster: Cluster) -> None:
    """See to a policy that leaves pods with the label no way in or out; a fault without one."""
    from kubernetes.client import ApiException

    place = {"namespace": cluster.namespace, "_request_timeout": CALL_SECONDS}
    policy = {
        "metadata": {"name": POLICY},
        "spec": {"podSelector": {"matchLabels": CUT_OFF}, "policyTypes": ["Ingress", "Egress"]},
    }
    with asking("make the NetworkPolicy of a task without a network"):
        try:
            found = cluster.networking.create_namespaced_network_policy(body=policy, **place)
        except ApiException as error:
            if error.status not in (403, 409):
                raise
            try:  # somebody else may have made it
                found = cluster.networking.read_namespaced_network_policy(POLICY, **place)
            except ApiException:
                raise error from None
    spec = found.spec
    whom = (spec.pod_selector.match_labels, spec.pod_selector.match_expressions or None)
    both = {"Ingress", "Egress"} <= set(spec.policy_types or ())
    if whom != (CUT_OFF, None) or not both or spec.ingress or spec.egress:
        raise EnvironmentFault(
            f"the NetworkPolicy {POLICY} in {cluster.namespace} does not cut pods off: remove it"
        )
