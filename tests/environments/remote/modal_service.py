"""A stand-in for Modal: its control plane, and the router that runs commands in a sandbox."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.environments.remote.rented import KEY, Refused, Rented, Service

BUILDER = "2025.06"
GONE = "the sandbox has ended"


@dataclass(eq=False)
class Exec:
    """A command whose output is kept, because a reader may ask for it again from anywhere."""

    process: subprocess.Popen[bytes]
    said: dict[int, bytearray] = field(default_factory=lambda: {1: bytearray(), 2: bytearray()})
    open: set[int] = field(default_factory=lambda: {1, 2})
    taken: int = 0
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Modal(Service):
    loop: asyncio.AbstractEventLoop
    address = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.images: dict[str, str] = {}
        self.execs: dict[str, Exec] = {}
        self.transports: set[Any] = set()

    def drop_connections(self) -> None:
        def drop() -> None:
            for transport in list(self.transports):
                transport.abort()

        self.loop.call_soon_threadsafe(drop)

    # --- the control plane

    async def AuthTokenGet(self, asked: Any, answer: Any) -> Any:
        claims = base64.urlsafe_b64encode(json.dumps({"exp": 1 << 33}).encode()).decode()
        return answer(token=f"e30.{claims.rstrip('=')}.c2ln")

    async def EnvironmentGetOrCreate(self, asked: Any, answer: Any) -> Any:
        found = answer(environment_id="en-1")
        found.metadata.settings.image_builder_version = BUILDER
        return found

    async def AppGetOrCreate(self, asked: Any, answer: Any) -> Any:
        return answer(app_id="ap-1")

    async def ImageGetOrCreate(self, asked: Any, answer: Any) -> Any:
        commands = list(asked.image.dockerfile_commands)
        digest = hashlib.sha256(str(asked.image).encode()).hexdigest()[:20]
        based = [self.images[each.image_id] for each in asked.image.base_images]
        self.images[f"im-{digest}"] = "\n".join([*based, *commands])
        found = answer(image_id=f"im-{digest}")
        found.result.status = 1
        if any("absent" in command for command in commands):
            found.result.status = 2
            found.result.exception = "the image cannot be pulled"
        return found

    async def SandboxCreateV2(self, asked: Any, answer: Any) -> Any:
        definition = asked.definition
        blocked = definition.network_access.NetworkAccessType.Value("BLOCKED")
        network = definition.network_access.network_access_type != blocked
        wanted = {"image": self.images[definition.image_id], "definition": str(definition)}
        rented = await asyncio.to_thread(self.rent, wanted, network=network)
        return answer(sandbox_id=f"sb-{rented.name}", task_id=f"ta-{rented.name}V")

    def named(self, name: str) -> Rented:
        found = self.sandboxes.get(name.partition("-")[2].removesuffix("V"))
        if found is None:
            raise Refused(404, GONE)
        return found

    async def SandboxWaitV2(self, asked: Any, answer: Any) -> Any:
        found = answer()
        if asked.sandbox_id.partition("-")[2] not in self.sandboxes:
            found.result.status = 3  # terminated
        return found

    async def SandboxTerminateV2(self, asked: Any, answer: Any) -> Any:
        with suppress(Refused):
            await asyncio.to_thread(self.end, asked.sandbox_id.partition("-")[2])
        return answer()

    async def SandboxGetTaskIdV2(self, asked: Any, answer: Any) -> Any:
        return answer(task_id=f"ta-{self.named(asked.sandbox_id).name}V")

    async def SandboxGetCommandRouterAccess(self, asked: Any, answer: Any) -> Any:
        self.named(asked.sandbox_id or asked.task_id)
        token = await self.AuthTokenGet(None, lambda token: token)
        return answer(jwt=token, url=self.address)

    # --- the router

    async def TaskExecStart(self, asked: Any, answer: Any) -> Any:
        rented = self.named(asked.task_id)
        self.seen.append(f"{asked.exec_id} {list(asked.command_args)}")
        pipe = subprocess.PIPE
        process = await asyncio.to_thread(
            rented.start, list(asked.command_args), stdin=pipe, stdout=pipe, stderr=pipe
        )
        for stream in (process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
        self.execs[asked.exec_id] = Exec(process)
        return answer()

    async def TaskExecStdinWrite(self, asked: Any, answer: Any) -> Any:
        self.named(asked.task_id)
        found = self.execs[asked.exec_id]
        data = asked.data[found.taken - asked.offset :]  # what came already comes again
        found.taken += len(data)
        with suppress(BrokenPipeError):
            await asyncio.to_thread(found.process.stdin.write, data)  # type: ignore[union-attr]
        return answer()

    async def TaskExecStdioRead(self, asked: Any, stream: Any, answer: Any) -> None:
        found, offset = self.execs[asked.exec_id], asked.offset
        number = asked.file_descriptor + 1
        said = found.said[number]
        pipe = {1: found.process.stdout, 2: found.process.stderr}[number]
        assert pipe is not None
        while True:
            if offset < len(said):
                data = bytes(said[offset : offset + (1 << 16)])
                if self.halve:
                    self.halve = False
                    for transport in list(self.transports):
                        transport.abort()
                await stream.send_message(answer(data=data))
                offset += len(data)
                continue
            self.named(asked.task_id)
            if number not in found.open:
                return
            async with found.reading:
                if offset == len(said):
                    await self.read(found, number, pipe, said)

    async def read(self, found: Exec, number: int, pipe: Any, said: bytearray) -> None:
        while self.mute.is_set():
            await asyncio.sleep(0.1)
        try:
            data = os.read(pipe.fileno(), 1 << 16)
        except BlockingIOError:
            await asyncio.sleep(0.005)
            return
        if data:
            said += self.spoiled(data)
            return
        found.open.discard(number)
        pipe.close()
        if not found.open:
            found.process.stdin.close()  # type: ignore[union-attr]

    async def TaskExecWait(self, asked: Any, answer: Any) -> Any:
        found = self.execs[asked.exec_id]
        return answer(code=await asyncio.to_thread(found.process.wait))


CONTROL = ("AuthTokenGet", "EnvironmentGetOrCreate", "AppGetOrCreate", "ImageGetOrCreate",
           "SandboxCreateV2", "SandboxWaitV2", "SandboxTerminateV2", "SandboxGetTaskIdV2",
           "SandboxGetCommandRouterAccess")  # fmt: skip
ROUTER = ("TaskExecStart", "TaskExecStdinWrite", "TaskExecStdioRead", "TaskExecWait")


class Calls:
    """The part of both interfaces that the stand-in has, under their own names."""

    def __init__(self, service: Modal) -> None:
        self.service = service

    def __mapping__(self) -> dict[str, Any]:
        from modal_proto import api_grpc, task_command_router_grpc

        found = {}
        for base, names in (
            (api_grpc.ModalClientBase, CONTROL),
            (task_command_router_grpc.TaskCommandRouterBase, ROUTER),
        ):
            blank = type("Blank", (base,), {"__abstractmethods__": frozenset()})
            blank.__abstractmethods__ = frozenset()
            for path, handler in blank().__mapping__().items():
                if path.rpartition("/")[2] in names:
                    found[path] = handler._replace(func=self.serve(path, handler))
        return found

    def serve(self, path: str, handler: Any) -> Any:
        from grpclib import GRPCError, Status

        statuses = {401: Status.UNAUTHENTICATED, 404: Status.NOT_FOUND,
                    429: Status.RESOURCE_EXHAUSTED, 503: Status.UNAVAILABLE}  # fmt: skip
        name = path.rpartition("/")[2]
        call = getattr(self.service, name)

        async def answer(stream: Any) -> None:
            asked = await stream.recv_message()
            secret = stream.metadata.get("x-modal-token-secret")
            try:
                if name in CONTROL and secret != KEY:
                    raise Refused(401, f"Token {secret} is not valid")
                if handler.cardinality.server_streaming:
                    await call(asked, stream, handler.reply_type)
                else:
                    await stream.send_message(await call(asked, handler.reply_type))
            except Refused as refused:
                raise GRPCError(statuses[refused.code], str(refused)) from None

        return answer


@contextmanager
def modal(folder: Path) -> Iterator[tuple[Modal, dict[str, str]]]:
    """The service, and the variables by which its package finds it."""
    from grpclib.server import Server

    service = Modal(folder)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        service.address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        ready, over = threading.Event(), asyncio.Event()

        async def serve() -> None:
            service.loop = asyncio.get_running_loop()
            server = Server([Calls(service)])
            make = server._protocol_factory

            def watched() -> Any:
                protocol = make()
                made = protocol.connection_made

                def connection_made(transport: Any) -> None:
                    service.transports.add(transport)
                    made(transport)

                protocol.connection_made = connection_made
                return protocol

            server._protocol_factory = watched  # type: ignore[method-assign]
            await server.start(sock=listening)
            ready.set()
            await over.wait()
            server.close()
            await asyncio.sleep(0.1)  # for what was dropped to be closed

        thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
        thread.start()
        assert ready.wait(30)
        try:
            yield service, {
                "MODAL_TOKEN_ID": "ak-tests", "MODAL_TOKEN_SECRET": KEY,
                "MODAL_SERVER_URL": service.address,
                "MODAL_CONFIG_PATH": str(folder / "no-settings"),
            }  # fmt: skip
        finally:
            service.close()
            service.loop.call_soon_threadsafe(over.set)
            thread.join(30)
            for found in service.execs.values():
                with found.process:  # closes its pipes
                    pass
