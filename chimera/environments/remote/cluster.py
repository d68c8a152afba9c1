"""A Kubernetes cluster by its official client, and what its refusals mean."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

from chimera.errors import EnvironmentFault, UsageError

INSTALL = "pip install 'chimera-eval[kubernetes]'"
CALL_SECONDS = 60
CONTAINER = "environment"
EXPIRED = "the login is wrong or has expired: log in to the cluster anew"
QUOTA = "the namespace's quota is used up: free some of it, or have fewer at once with most=NUMBER"
ROLE = "ask for a role that allows it; docs/environments.md, 'Kubernetes', has one"


@dataclass(frozen=True, slots=True)
class Cluster:
    """One namespace, reached by the user's own settings of kubectl, or those of a pod we are in."""

    namespace: str
    api: Any

    @classmethod
    def of(cls, namespace: str, settings: Mapping[str, str]) -> Self:
        try:
            from kubernetes import client, config
        except ModuleNotFoundError as error:
            raise UsageError(f"Kubernetes needs a package: {INSTALL}") from error
        found = client.Configuration()
        own = {"config_file": settings.get("config"), "context": settings.get("context")}
        try:
            config.load_kube_config(client_configuration=found, **own)
        except config.ConfigException as error:
            if any(own.values()):
                raise UsageError(f"kubectl's settings name no cluster: {error}") from error
            try:
                config.load_incluster_config(client_configuration=found)
            except config.ConfigException:
                raise UsageError(f"kubectl's settings name no cluster: {error}") from error
        return cls(namespace, client.ApiClient(found))

    @property
    def core(self) -> Any:
        from kubernetes.client import CoreV1Api

        return CoreV1Api(self.api)

    @property
    def networking(self) -> Any:
        from kubernetes.client import NetworkingV1Api

        return NetworkingV1Api(self.api)

    def may(self, verb: str, resource: str) -> bool:
        """Whether the cluster lets us do this in the namespace."""
        from kubernetes.client import AuthorizationV1Api

        kind, _, below = resource.partition("/")
        wanted = {"namespace": self.namespace, "verb": verb, "resource": kind, "subresource": below}
        with asking("say what is allowed"):
            said = AuthorizationV1Api(self.api).create_self_subject_access_review(
                {"spec": {"resourceAttributes": wanted}}, _request_timeout=CALL_SECONDS
            )
        return bool(said.status.allowed)

    def pod(self, name: str) -> Any:
        with asking(f"tell of the pod {name}"):
            return self.core.read_namespaced_pod(
                name, self.namespace, _request_timeout=CALL_SECONDS
            )

    def remove(self, name: str) -> None:
        """Remove a pod at once, if it is still there."""
        from kubernetes.client import ApiException

        with asking(f"remove the pod {name}"):
            try:
                self.core.delete_namespaced_pod(
                    name, self.namespace, grace_period_seconds=0, _request_timeout=CALL_SECONDS
                )
            except ApiException as error:
                if error.status != 404:
                    raise

    def connect(self, name: str, command: list[str]) -> Any:
        """The WebSocket of a command in a pod, whose frames begin with a channel's number.

        Its address is written here: the client's own method loads hundreds of models first, two
        thirds of what a command costs.
        """
        from kubernetes.stream import ws_client

        settings = self.api.configuration
        streams = [(each, "true") for each in ("stdin", "stdout", "stderr")]
        query = [("container", CONTAINER), *streams, *(("command", word) for word in command)]
        place = f"/api/v1/namespaces/{quote(self.namespace)}/pods/{quote(name)}/exec"
        login = settings.auth_settings().get("BearerToken")
        with asking(f"run a command in the pod {name}"):
            return ws_client.websocket_call(
                settings, "GET", f"{settings.host}{place}", query_params=query,
                headers={} if login is None else {"authorization": login["value"]},
                _preload_content=False,
            ).sock  # fmt: skip


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn a refusal into a fault that says what to do."""
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ApiException as error:
        raise refusal(what, error) from error
    except (HTTPError, OSError) as error:
        why = f"the cluster cannot be reached to {what}: {error}"
        raise EnvironmentFault(why, retryable=True) from error


def refusal(what: str, error: Any) -> EnvironmentFault:
    """What a cluster's answer means; that to a WebSocket's handshake is in the error's context."""
    status = error.status or getattr(error.__context__, "status_code", 0)
    said = _message(error.body or getattr(error.__context__, "resp_body", b"")) or error.reason
    short = status == 403 and "quota" in said
    advice = {401: EXPIRED, 403: QUOTA if short else ROLE}.get(status, "")
    found = EnvironmentFault(
        f"the cluster did not {what} ({status}): {said}" + (f"\n  {advice}" if advice else ""),
        retryable=short or status in (0, 409, 429) or status >= 500,
    )
    found.everywhere = status == 401
    return found


def _message(body: bytes | str) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return ""


def ended(pod: Any) -> str:
    """Why a pod does not run any more; empty where it does, or did not begin to."""
    states = [each.state.terminated for each in pod.status.container_statuses or ()]
    reasons = [each.reason for each in states if each is not None]
    if pod.metadata.deletion_timestamp is not None:
        reasons.append("it is being deleted")
    if pod.status.phase not in ("Failed", "Succeeded") and not reasons:
        return ""
    said = (pod.status.reason, *reasons, pod.status.message)
    return ": ".join(dict.fromkeys(each for each in said if each)) or pod.status.phase
