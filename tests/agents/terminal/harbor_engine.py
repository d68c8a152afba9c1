"""An environment for Harbor over the engine's command line, where there is no Compose.

Imported by Harbor's own interpreter: `harbor run -e harbor_engine:EngineEnvironment …`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult


class EngineEnvironment(BaseEnvironment):
    container = ""

    @staticmethod
    def type() -> str:
        return "engine"

    def _validate_definition(self) -> None:
        if not (self.environment_dir / "Dockerfile").is_file():
            raise FileNotFoundError("the task has no Dockerfile")

    async def _docker(self, *arguments: str, timeout: float | None = None) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            "docker", *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        stdout, stderr = await asyncio.wait_for(process.communicate(), timeout)
        assert process.returncode is not None
        return ExecResult(
            stdout=stdout.decode("utf-8", "replace"),
            stderr=stderr.decode("utf-8", "replace"),
            return_code=process.returncode,
        )

    async def _must(self, *arguments: str) -> str:
        done = await self._docker(*arguments)
        if done.return_code:
            raise RuntimeError(f"docker {arguments[0]}: {done.stderr}")
        return (done.stdout or "").strip()

    async def start(self, force_build: bool) -> None:
        image = f"chimera-harbor-test:{self.environment_id[:16].lower()}"
        await self._must("build", "-q", "-t", image, str(self.environment_dir))
        self.container = await self._must(
            "run", "-d", "--init", "--network=none", image, "tail", "-f", "/dev/null"
        )
        await self._must("exec", self.container, "mkdir", "-p", "/logs/agent", "/logs/verifier")

    async def stop(self, delete: bool) -> None:
        if self.container:
            await self._must("rm", "-f", self.container)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        parent = str(Path(target_path).parent)
        await self._must("exec", self.container, "mkdir", "-p", parent)
        await self._must("cp", str(source_path), f"{self.container}:{target_path}")

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._must("exec", self.container, "mkdir", "-p", target_dir)
        await self._must("cp", f"{source_dir}/.", f"{self.container}:{target_dir}")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await self._must("cp", f"{self.container}:{source_path}", str(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        Path(target_dir).mkdir(parents=True, exist_ok=True)
        await self._must("cp", f"{self.container}:{source_dir}/.", str(target_dir))

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
        **_: Any,
    ) -> ExecResult:
        options = [f"--env={name}={value}" for name, value in (env or {}).items()]
        options += [f"--workdir={cwd}"] if cwd else []
        options += [f"--user={user}"] if user is not None else []
        return await self._docker(
            "exec", *options, self.container, "bash", "-c", command, timeout=timeout_sec
        )
