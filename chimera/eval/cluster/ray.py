"""A run's nodes as actors of a Ray cluster: one a machine, with a desk beside the driver.

Nodes post to the desk and the driver takes from it, so that a driver has one open call whatever
the number of trials under way. A node lives as long as its call `live` does not fail; one that
was lost is never spoken to again, and a machine that comes back gets a new actor, which must
answer before it is given anything.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import platform
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from chimera.errors import EnvironmentFault, UsageError
from chimera.eval.cluster.messages import Job, Joined, Lost, Message, Reserve, Setup
from chimera.eval.cluster.node import Node
from chimera.eval.trial import close_open_environments

#: How often the cluster is looked at for machines that came, and threads for the run's end.
LOOK_SECONDS = 2.0
CLOSE_SECONDS = 15.0
#: An autoscaler that cannot give all that is wished for may give nothing: then less is wished for.
WISH_SECONDS = 60.0
FACTS_SECONDS = 120.0
#: How many nodes in a row a machine gets that end before they join.
MOST_SILENT = 3
#: What a node holds of its machine's CPUs, so that an autoscaler does not take it for idle.
HELD = 0.001
#: Resources that say what a machine can do, as `ray start --resources` gives them.
RESOURCES = {"docker": "chimera_docker", "browser": "chimera_browser"}


class DeskActor:
    """The mailbox of the driver; lives on the driver's machine."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[tuple[Message, int | None]] = asyncio.Queue()
        self._replies: dict[int, asyncio.Future[str | None]] = {}
        self._tickets = itertools.count(1)

    async def post(self, message: Message) -> None:
        await self._messages.put((message, None))

    async def ask(self, message: Reserve) -> str | None:
        ticket = next(self._tickets)
        self._replies[ticket] = reply = asyncio.get_running_loop().create_future()
        await self._messages.put((message, ticket))
        refusal: str | None = await reply
        return refusal

    async def take(self, seconds: float) -> list[tuple[Message, int | None]]:
        """Everything that has come, as soon as there is something, or nothing in time."""
        try:
            taken = [await asyncio.wait_for(self._messages.get(), seconds)]
        except TimeoutError:
            return []
        while not self._messages.empty():
            taken.append(self._messages.get_nowait())
        return taken

    async def reply(self, ticket: int, refusal: str | None) -> None:
        self._replies.pop(ticket).set_result(refusal)


class RemoteDesk:
    """The desk, as a node reaches it."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def post(self, message: Message) -> None:
        """Returns when it is there: what is not heard of must be lost with its node."""
        self._until_answered(self._actor.post.remote(message))

    def ask(self, message: Reserve) -> str | None:
        refusal: str | None = self._until_answered(self._actor.ask.remote(message))
        return refusal

    def _until_answered(self, call: Any) -> Any:
        import ray

        try:
            return ray.get(call)
        except ray.exceptions.RayError:  # nobody can be told anything: the node ends
            close_open_environments()
            os._exit(1)


class NodeActor:
    """A node in a process of its own on its machine."""

    def __init__(self, name: str, setup: Setup, desk: Any) -> None:
        self._node = Node(name, setup, RemoteDesk(desk))
        self._ended = threading.Event()

    def join(self) -> None:
        self._node.join()

    def take(self, job: Job) -> None:
        self._node.take(job)

    def live(self) -> None:
        """Ends only with the node."""
        self._ended.wait()

    def slow_down(self, endpoint: str, seconds: float) -> None:
        from chimera.providers.limiter import limiter_for

        limiter_for(endpoint).refused(float("inf"), seconds)

    def close(self) -> None:
        self._node.close()
        self._ended.set()


class RayCarrier:
    """Finds a cluster's machines, starts a node on each, and carries between them and the driver.

    `address` is that of a cluster (`ray://HOST:PORT`); None is the one of RAY_ADDRESS, or one that
    runs here, or a new one of this machine alone.
    """

    def __init__(self, setup: Setup, address: str | None = None) -> None:
        self._setup, self._address = setup, address
        self._events: queue.SimpleQueue[tuple[Message, int | None] | EnvironmentFault]
        self._events = queue.SimpleQueue()
        self._actors: dict[str, Any] = {}
        self._machines: dict[str, str] = {}  # a node's name by its machine's id
        self._visits: dict[str, int] = {}  # by name: ids of machines may begin alike
        self._joined: set[str] = set()
        self._silent: dict[str, int] = {}  # nodes of a machine in a row that never joined
        self._growth = Growth(RESOURCES.get(setup.environment, "CPU"))
        self._closed = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        ray = connect(self._address)
        context = ray.get_runtime_context()
        self._desk = (
            ray.remote(DeskActor)
            .options(
                num_cpus=0, max_concurrency=100_000, scheduling_strategy=_on(context.get_node_id())
            )
            .remote()
        )
        self._threads = [
            threading.Thread(target=serve, daemon=True, name=f"chimera-ray{serve.__name__}")
            for serve in (self._take, self._look)
        ]
        for thread in self._threads:
            thread.start()

    def next(self, timeout: float) -> tuple[Message, int | None]:
        event = self._events.get(timeout=timeout)
        if isinstance(event, EnvironmentFault):
            raise event
        return event

    def send(self, node: str, job: Job) -> None:
        with self._lock:
            actor = self._actors.get(node)
        if actor is not None:
            actor.take.remote(job)

    def reply(self, ticket: int, refusal: str | None) -> None:
        self._desk.reply.remote(ticket, refusal)

    def slow_down(self, node: str, endpoint: str, seconds: float) -> None:
        with self._lock:
            actor = self._actors.get(node)
        if actor is not None:
            actor.slow_down.remote(endpoint, seconds)

    def wish(self, nodes: int) -> None:
        self._growth.wanted = nodes

    def give_up(self, node: str) -> None:
        import ray

        with self._lock:
            actor = self._actors.pop(node, None)
            key = next((key for key, name in self._machines.items() if name == node), None)
            if key is not None:
                self._silent[key] = 0 if node in self._joined else self._silent.get(key, 0) + 1
                if self._silent[key] < MOST_SILENT:
                    del self._machines[key]  # it gets another
        if actor is not None:
            ray.kill(actor)

    def close(self) -> None:
        """End every node, with what its trials have running, and leave the cluster."""
        import ray

        if self._closed.is_set() or not ray.is_initialized():
            return
        self._closed.set()
        with self._lock:
            actors, self._actors = list(self._actors.values()), {}
        if actors:
            ends = [actor.close.remote() for actor in actors]
            ray.wait(ends, num_returns=len(ends), timeout=CLOSE_SECONDS)
        for thread in self._threads:  # Ray crashes when it is left while a call waits
            thread.join(CLOSE_SECONDS)
        ray.shutdown()

    # Threads of the driver

    def _take(self) -> None:
        """Bring what comes to the desk."""
        import ray

        try:
            while not self._closed.is_set():
                for event in ray.get(self._desk.take.remote(LOOK_SECONDS)):
                    if isinstance(event[0], Joined):
                        self._joined.add(event[0].node)
                    self._events.put(event)
        except (ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
            self._fail(error)

    def _look(self) -> None:
        """Start a node on every machine that has none, and notice those that are gone."""
        import ray

        lives: dict[Any, str] = {}
        try:
            while not self._closed.is_set():
                for machine in self._new_machines():
                    name, actor = self._new_node(machine)
                    lives[actor.live.remote()] = name
                    actor.join.remote()
                gone, _ = (
                    ray.wait(list(lives), num_returns=1, timeout=LOOK_SECONDS)
                    if lives
                    else ([], [])
                )
                for ended in gone:
                    self._events.put((Lost(lives.pop(ended), _why(ended)), None))
                if not lives:
                    self._closed.wait(LOOK_SECONDS)
        except (ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """The cluster itself is gone, or the desk: nothing of this run can go on."""
        if not self._closed.is_set():
            why = str(error).strip().partition("\n")[0][:200]
            self._events.put(EnvironmentFault(f"the Ray cluster does not answer: {why}"))

    def _new_machines(self) -> Iterator[dict[str, Any]]:
        import ray

        every: Callable[[], list[dict[str, Any]]] = ray.nodes
        machines = [machine for machine in every() if machine["Alive"]]
        self._growth.tend(machines)
        for machine in fitting(machines, self._setup.environment):
            with self._lock:
                known = machine["NodeID"] in self._machines
            if not known:
                yield machine

    def _new_node(self, machine: dict[str, Any]) -> tuple[str, Any]:
        import ray

        key, name = machine["NodeID"], _name(machine)
        self._visits[name] = visit = self._visits.get(name, 0) + 1
        name += f"-{visit}" if visit > 1 else ""
        actor = (
            ray.remote(NodeActor)
            .options(num_cpus=HELD, max_concurrency=8, max_restarts=0, scheduling_strategy=_on(key))
            .remote(name, self._setup, self._desk)
        )
        with self._lock:
            self._machines[key] = name
            self._actors[name] = actor
        return name, actor


class Growth:
    """Tells the cluster's autoscaler, if it has one, that more machines would be used.

    The wish is a placement group of one bundle more than there are machines, each on a machine of
    its own: it can only be met by new ones, and it ends with the driver, however that ends.
    """

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._group: Any = None
        self._until = 0.0
        self._step = 1
        self.wanted = 0

    def tend(self, machines: Sequence[dict[str, Any]]) -> None:
        """Look after the wish, now that there are these machines."""
        there = sum(bool(machine["Resources"].get(self._resource)) for machine in machines)
        wanted = self.wanted or (0 if any(m["Resources"].get("CPU") for m in machines) else 1)
        if self._group is not None:
            if wanted and not self._met() and time.monotonic() < self._until:
                return
            self._withdraw()
        if wanted:
            self._ask(there + min(wanted, self._step))

    def _ask(self, machines: int) -> None:
        from ray.util.placement_group import placement_group

        self._until = time.monotonic() + WISH_SECONDS
        self._group = placement_group([{self._resource: HELD}] * machines, strategy="STRICT_SPREAD")

    def _met(self) -> bool:
        from ray.util.placement_group import placement_group_table

        met: bool = placement_group_table(self._group)["state"] == "CREATED"
        return met

    def _withdraw(self) -> None:
        """More at once after a wish that was met, fewer after one that was not in time."""
        from ray.util.placement_group import remove_placement_group

        self._step = self._step * 2 if self._met() else max(1, self._step // 2)
        remove_placement_group(self._group)
        self._group = None


def connect(address: str | None) -> Any:
    """Ray, connected to a cluster; a `UsageError` says what is missing."""
    # Ray prints what raylets logged before they ended, among a run's own lines on standard output
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        import ray
    except ImportError:
        raise UsageError(
            "runs over many machines need Ray\n  pip install 'chimera-eval[ray]'"
        ) from None
    if ray.is_initialized():
        return ray
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    wanted = address or os.environ.get("RAY_ADDRESS")
    for place in [wanted] if wanted else ["auto", None]:
        try:
            ray.init(
                address=place,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=False if place is None else None,
            )
        except Exception as error:  # noqa: BLE001 - Ray raises whatever it likes when a start fails
            if place == "auto":
                continue  # none runs here: one of this machine alone is started
            raise UsageError(f"no Ray cluster at {place or 'this machine'}: {error}") from None
        return ray
    raise EnvironmentFault("no Ray cluster could be reached or started")


def machine_facts(address: str | None) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """What each machine of a cluster can do, by its name; a text where it does not say."""
    ray = connect(address)
    asked = [
        (
            _name(machine),
            ray.remote(_facts).options(num_cpus=0, scheduling_strategy=_on(machine["NodeID"])),
        )
        for machine in ray.nodes()
        if machine["Alive"]
    ]
    answers = [(name, task.remote()) for name, task in asked]
    try:
        for name, answer in answers:
            try:
                yield name, ray.get(answer, timeout=FACTS_SECONDS)
            except ray.exceptions.RayError as error:
                yield name, str(error).strip().splitlines()[-1][:200]
    finally:
        ray.shutdown()


def _facts() -> dict[str, Any]:
    from chimera import __version__
    from chimera.environments import BACKENDS, available
    from chimera.eval.data.datasets import datasets_dir

    place = datasets_dir()
    return {
        "chimera": __version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "environments": {backend: available(backend) for backend in BACKENDS},
        "place": str(place),
        "datasets": sorted(p.name for p in place.iterdir() if p.is_dir()) if place.is_dir() else [],
    }


def fitting(machines: Sequence[dict[str, Any]], environment: str) -> Sequence[dict[str, Any]]:
    """The machines that say that they have the environment; all of them where none says so.

    One without a CPU is there for something else (the head of a cluster that grows, often).
    """
    workers = [machine for machine in machines if machine["Resources"].get("CPU")]
    resource = RESOURCES.get(environment)
    return [machine for machine in workers if resource in machine["Resources"]] or workers


def _name(machine: dict[str, Any]) -> str:
    return f"{machine['NodeManagerHostname']}-{machine['NodeID'][:12]}"


def _on(node_id: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)


def _why(ended: Any) -> str:
    import ray

    try:
        ray.get(ended)
    except ray.exceptions.RayError as error:
        return str(error).strip().splitlines()[0][:200]
    return "its process ended"
