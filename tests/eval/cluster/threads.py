"""Nodes in threads of this process, which can be lost at a word: what Ray does, without Ray."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable

from chimera.eval.cluster.messages import Done, Job, Lost, Message, Reserve, Setup
from chimera.eval.cluster.node import Node


class ThreadCarrier:
    """`lose_after` says after how many finished trials which node is lost; its threads go on."""

    def __init__(self, setup: Setup, nodes: int = 2, lose_after: dict[int, str] | None = None):
        self.setup, self.names = setup, [f"node{n}" for n in range(nodes)]
        self.events: queue.Queue[tuple[Message, int | None]] = queue.Queue()
        self.replies: dict[int, queue.Queue[str | None]] = {}
        self.tickets, self.finished = itertools.count(1), 0
        self.lose_after = lose_after or {}
        self.nodes: dict[str, Node] = {}
        self.sent: list[tuple[str, Job]] = []
        self.slowed: list[tuple[str, str, float]] = []
        self.given_up: list[str] = []
        self.wished = 0
        self.on_send: Callable[[str, Job], None] = lambda node, job: None

    # as a node's desk

    def post(self, message: Message) -> None:
        self.events.put((message, None))
        if isinstance(message, Done):
            self.finished += 1
            if (name := self.lose_after.get(self.finished)) is not None:
                self.events.put((Lost(name, "its cable was cut"), None))

    def ask(self, message: Reserve) -> str | None:
        ticket = next(self.tickets)
        self.replies[ticket] = reply = queue.Queue()
        self.events.put((message, ticket))
        return reply.get(timeout=30)

    # as the driver's carrier

    def start(self) -> None:
        for name in self.names:
            self.add(name)

    def add(self, name: str) -> None:
        self.nodes[name] = Node(name, self.setup, self)
        threading.Thread(target=self.nodes[name].join, daemon=True).start()

    def next(self, timeout: float) -> tuple[Message, int | None]:
        return self.events.get(timeout=timeout)

    def send(self, node: str, job: Job) -> None:
        self.sent.append((node, job))
        self.nodes[node].take(job)
        self.on_send(node, job)

    def reply(self, ticket: int, refusal: str | None) -> None:
        self.replies[ticket].put(refusal)

    def slow_down(self, node: str, endpoint: str, seconds: float) -> None:
        self.slowed.append((node, endpoint, seconds))

    def wish(self, nodes: int) -> None:
        self.wished = nodes

    def give_up(self, node: str) -> None:
        self.given_up.append(node)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
