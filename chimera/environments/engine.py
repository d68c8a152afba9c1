"""The client of a container engine (docker, or podman where that is what there is)."""

from __future__ import annotations

import atexit
import errno
import hashlib
import io
import json
import os
import platform
import secrets
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Self

from chimera.activity import doing
from chimera.confinement.cgroups import start_time
from chimera.environments import tar_streams
from chimera.environments.base import READ_BYTES, EnvironmentSpec
from chimera.environments.clones import served, with_clones
from chimera.errors import EnvironmentFault, UsageError
from chimera.text import log_end

#: Where a machine that cannot pull says what to take instead: JSON, or a file with it.
IMAGE_MAP = "CHIMERA_DOCKER_IMAGE_MAP"
DEFAULT_IMAGE = "CHIMERA_DOCKER_IMAGE"
PARALLEL_STARTS = threading.BoundedSemaphore(4)
BUILD_LOG = 1500  # characters of each stream that are told of a build that failed
RUN = secrets.token_hex(8)  # this process's containers
NO_LOG = "--log-driver=none"
ANSWER_HOLDS = 60.0  # seconds for which an engine that answered is taken to be there
#: What a registry says of an image that it does not have, or does not give.
ANSWERED = ("no such manifest", "manifest unknown", "not found", "denied", "unauthorized",
            "does not exist")  # fmt: skip
_answered: dict[str, float] = {}
_builds: dict[str, threading.Lock] = {}
_builds_lock = threading.Lock()

#: What the client itself may see of the host's variables; the containers see none of them.
CLIENT = (
    "PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH", "XDG_RUNTIME_DIR", "CONTAINER_HOST", "SSH_AUTH_SOCK",
)  # fmt: skip


def client_variables() -> dict[str, str]:
    return {name: os.environ[name] for name in CLIENT if name in os.environ}


def program() -> str | None:
    """The client to use: CHIMERA_DOCKER, else docker, else podman."""
    chosen = os.environ.get("CHIMERA_DOCKER")
    return shutil.which(chosen) if chosen else shutil.which("docker") or shutil.which("podman")


def availability() -> str | None:
    client = program()
    if client is not None and time.monotonic() < _answered.get(client, 0.0) + ANSWER_HOLDS:
        return None
    if client is None:
        return "neither 'docker' nor 'podman' is installed: apt install docker.io (or podman)"
    asked = [client, "version", "--format", "{{.Server.Version}}"]
    try:
        answer = subprocess.run(
            asked, capture_output=True, timeout=30, check=False, env=client_variables()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"'{client}' does not answer: {error}"
    if answer.returncode == 0:
        _answered[client] = time.monotonic()
        return None
    said = answer.stderr.decode("utf-8", "replace").strip()
    return f"the container engine does not answer ({said}): systemctl start docker"


class Engine:
    def __init__(self, client: str) -> None:
        self.client = client
        self.podman = "podman" in Path(client).name
        self._images: dict[str, str] = {}  # those seen to be here, with their working directories
        self._registries: dict[str, str | None] = {}  # those asked, with why nothing comes of it
        self._listing: tuple[float, frozenset[str]] = (-ANSWER_HOLDS, frozenset())

    @classmethod
    @cache
    def find(cls) -> Self:
        client = program()
        if client is None:
            raise EnvironmentFault(str(availability()))
        found = cls(client)
        found.reap()
        atexit.register(found.remove_own)
        return found

    def command(self, *arguments: str) -> list[str]:
        return [self.client, *arguments]

    def call(
        self, *arguments: str, data: bytes | None = None, timeout: float = 120.0
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                self.command(*arguments),
                input=data if data is not None else b"",
                capture_output=True,
                timeout=timeout,
                check=False,
                env=client_variables(),
            )
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFault(
                f"the container engine did not answer '{arguments[0]}' in {timeout:g} s",
                retryable=True,
            ) from error
        except OSError as error:
            raise EnvironmentFault(f"'{self.client}' cannot be run: {error}") from error

    def must(self, *arguments: str, data: bytes | None = None, timeout: float = 120.0) -> bytes:
        done = self.call(*arguments, data=data, timeout=timeout)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise EnvironmentFault(
                f"{Path(self.client).name} {arguments[0]}: {said}", retryable=passing(said)
            )
        return done.stdout

    # --- images

    def image_for(self, spec: EnvironmentSpec) -> str:
        """The image to start: mapped, built or pulled where it is not here yet."""
        if spec.build_context is not None:
            return self.build(spec.build_context, spec.image, clones=spec.clones)
        wanted = spec.image or default_image()
        if wanted is None:
            raise UsageError(
                f"the task names no image for its container: give one with {DEFAULT_IMAGE}"
            )
        image = image_map().get(wanted, wanted)
        if self._known(image) is not None:
            return image
        with doing(f"pulling the image {image}"):
            pulled = self.call("pull", image, timeout=3600)
        if pulled.returncode:
            said = pulled.stderr.decode("utf-8", "replace").strip()
            raise EnvironmentFault(
                f"the image {image} is not here and cannot be pulled: {said}\n"
                f"  Name another for it with {IMAGE_MAP}, a JSON object or a file with one.",
                retryable=passing(said),
            )
        return image

    def unobtainable(self, image: str) -> str | None:
        """Why an image is neither here nor to be pulled, where that is certain.

        A registry that answers is taken to have its other images, and one that does not is not
        asked again.
        """
        image = image_map().get(image, image)
        registry = registry_of(image)
        if tagged(image) in self._names_here():
            return None
        if registry in self._registries:
            return self._registries[registry]
        fault = self._not_listed(image)
        if fault and not any(word in fault.lower() for word in ANSWERED):
            fault = self._not_pulled(image)
        if fault is None or not any(word in fault.lower() for word in ANSWERED):
            self._registries[registry] = fault
        return fault

    def _names_here(self) -> frozenset[str]:
        """All images with a name; to ask for hundreds one by one takes a minute."""
        asked, names = self._listing
        if time.monotonic() > asked + ANSWER_HOLDS:
            form = "{{.Repository}}:{{.Tag}}\n{{.Repository}}@{{.Digest}}"
            listed = self.must("images", "--digests", "--format", form).decode()
            names = frozenset(name.removeprefix("localhost/") for name in listed.splitlines())
            self._listing = time.monotonic(), names
        return names

    def _not_listed(self, image: str) -> str | None:
        """What the client's own question to the registry came to, if that was nothing."""
        listed = self.call("manifest", "inspect", image)
        return _last_line(listed.stderr) if listed.returncode else None

    def _not_pulled(self, image: str) -> str | None:
        """The engine may have mirrors that its client does not know."""
        with doing(f"pulling the image {image}"):
            pulled = self.call("pull", image, timeout=3600)
        return _last_line(pulled.stderr) if pulled.returncode else None

    def build(self, context: Path, tag: str | None = None, *, clones: Path | None = None) -> str:
        """Build a context once; the tag says what was in it."""
        image = _built_name(context)
        with _builds_lock:
            lock = _builds.setdefault(image, threading.Lock())
        with doing(f"building the image of {context.name}"), lock:
            if self._known(image) is None:
                self._build(context, image, clones)
        if tag is not None:
            self.must("tag", image, tag)
        return image

    def has_built(self, context: Path) -> bool:
        """Whether a context's image is here."""
        return self._known(_built_name(context)) is not None

    def _build(self, context: Path, image: str, clones: Path | None) -> None:
        arguments = ["build", "--network=host", "-t", image]
        if clones is None:
            done = self.call(*arguments, str(context), timeout=3600)
        else:
            recipe = with_clones((context / "Dockerfile").read_text("utf-8"))
            with served(clones) as variables:
                arguments += [f"--build-arg={name}={text}" for name, text in variables.items()]
                done = self.call(
                    *arguments, "--file=-", str(context), data=recipe.encode(), timeout=3600
                )
        if done.returncode:
            # The step that failed is at the end of the one stream, what it came to of the other.
            log = done.stdout.decode("utf-8", "replace").strip()[-BUILD_LOG:]
            said = done.stderr.decode("utf-8", "replace").strip()[-BUILD_LOG:]
            why = log_end(f"{log}\n{said}", 2 * BUILD_LOG)
            raise EnvironmentFault(f"docker build: {why}", retryable=passing(said))

    def workdir_of(self, image: str) -> str | None:
        """The image's own working directory, unless it is the root."""
        path = self._known(image) or ""
        return path if path not in ("", "/") else None

    def image_id(self, image: str) -> str:
        """The digest of what an image's name stands for now."""
        return self.must("image", "inspect", "--format", "{{.Id}}", image).decode().strip()

    def _known(self, image: str) -> str | None:
        """The working directory of an image that is here; None for one that is not."""
        if image not in self._images:
            said = self.call("image", "inspect", "--format", "{{.Config.WorkingDir}}", image)
            if said.returncode:
                return None
            self._images[image] = said.stdout.decode().strip()
        return self._images[image]

    # --- containers

    def run(self, spec: EnvironmentSpec, image: str, workdir: str, more: Sequence[str] = ()) -> str:
        """Start a container that waits for commands; its id."""
        # podman does not make the directory to work in
        place = f"--workdir={'/' if self.podman else workdir}"
        options = [*run_options(spec, workdir), place, *more]
        try:
            with PARALLEL_STARTS:
                said = self.must(
                    "run", "-d", *options, "--entrypoint=sh", image, "-c", "exec tail -f /dev/null"
                )
        except EnvironmentFault:
            self._images.pop(image, None)  # it may have been removed since it was seen
            raise
        container = said.decode().strip().splitlines()[-1]
        if self.podman and self.call("exec", container, "test", "-d", workdir).returncode:
            self._make_directory(container, workdir)
        return container

    def _make_directory(self, container: str, path: str) -> None:
        """By the engine, since the container itself may not be allowed to."""
        entry = tarfile.TarInfo(path.strip("/"))
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            archive.addfile(entry)
        done = self.call("cp", "-", f"{container}:/", data=content.getvalue())
        if done.returncode:
            raise EnvironmentFault(f"{path}: {done.stderr.decode('utf-8', 'replace').strip()}")

    def remove(self, container: str) -> None:
        # An engine that imports images can take minutes; a verdict must not be lost to that.
        done = self.call("rm", "--force", "--volumes", container, timeout=900)
        said = done.stderr.decode("utf-8", "replace")
        if (
            done.returncode
            and "No such container" not in said
            and "already in progress" not in said
        ):
            raise EnvironmentFault(f"the container {container} cannot be removed: {said.strip()}")

    def remove_own(self) -> None:
        """Remove what this process left, at its end."""
        own = f"label=chimera.run={RUN}"
        listed = self.call("ps", "-aq", "--filter", own).stdout.split()
        if listed:
            self.call("rm", "--force", "--volumes", *(name.decode() for name in listed))
        self.call("network", "prune", "--force", "--filter", own)

    def reap(self) -> list[str]:
        """Remove containers whose owner on this machine is dead; their names."""
        form = '{{.ID}} {{.Label "chimera.owner"}}'
        listed = self.call(
            "ps", "-a", "--filter", f"label=chimera.host={platform.node()}", "--format", form
        )
        dead: list[str] = []
        for line in listed.stdout.decode().splitlines():
            container, _, owner = line.partition(" ")
            process, _, started = owner.partition("-")
            if process.isdigit() and start_time(int(process)) != started:
                dead.append(container)
        if dead:
            self.call("rm", "--force", "--volumes", *dead)
        return dead

    # --- files

    def read_file(self, container: str, path: str, named: str) -> bytes:
        follow = () if self.podman else ("--follow-link",)  # podman does so by itself
        with subprocess.Popen(
            self.command("cp", *follow, f"{container}:{path}", "-"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=client_variables(),
        ) as copying:
            try:
                assert copying.stdout is not None
                return only_file(copying.stdout, named)
            except tarfile.ReadError:
                assert copying.stderr is not None
                said = copying.stderr.read().decode("utf-8", "replace").strip()
                raise self._unread(said, named) from None
            finally:
                copying.kill()

    def write_file(self, container: str, path: str, data: bytes, mode: int) -> None:
        """Write within the container's own root, its directories made on the way."""
        parent, _, name = path.rpartition("/")
        script = 'mkdir -p -- "$1" && cat > "$2" && chmod "$3" -- "$2"'
        done = self.call(
            "exec", "-i", container, "sh", "-c", script, "sh", parent or "/", path, oct(mode)[2:],
            data=data,
        )  # fmt: skip
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise PermissionError(f"{name} cannot be written: {said}")

    def copy_in(self, container: str, source: Path, target: str) -> None:
        with tempfile.TemporaryFile() as archive:
            tar_streams.pack(source, archive)
            archive.seek(0)
            self.must("exec", container, "mkdir", "-p", target)
            done = subprocess.run(
                self.command("cp", "-", f"{container}:{target}"),
                stdin=archive,
                capture_output=True,
                check=False,
                timeout=3600,
                env=client_variables(),
            )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise EnvironmentFault(f"{source} cannot be copied in: {said}")

    def copy_out(self, container: str, source: str, target: Path, named: str) -> None:
        with tempfile.TemporaryFile() as archive:
            done = subprocess.run(
                self.command("cp", f"{container}:{source}", "-"),
                stdout=archive,
                stderr=subprocess.PIPE,
                check=False,
                timeout=3600,
                env=client_variables(),
            )
            if done.returncode:
                raise self._unread(done.stderr.decode("utf-8", "replace").strip(), named)
            archive.seek(0)
            tar_streams.unpack(archive, target, named=named)

    @staticmethod
    def _unread(said: str, named: str) -> OSError | EnvironmentFault:
        """What the client's complaint about a path means."""
        missing = (
            "no such file",
            "could not find the file",
            "not a directory",
            "no such container:path",
        )
        if any(word in said.lower() for word in missing):
            return FileNotFoundError(f"{named} is not there")
        return EnvironmentFault(f"{named} cannot be read: {said}", retryable=passing(said))


def only_file(archive: IO[bytes], named: str) -> bytes:
    """The content of the one regular file of a tar stream, if it is not too long."""
    with tarfile.open(fileobj=archive, mode="r|") as members:
        member = members.next()
        if member is None or member.isdir():
            raise IsADirectoryError(f"{named} is a directory")
        content = members.extractfile(member) if member.isreg() else None
        if content is None:
            raise PermissionError(f"{named} is not a regular file")
        if member.size > READ_BYTES:
            raise OSError(errno.EFBIG, f"is longer than {READ_BYTES} bytes", named)
        return content.read()


def run_options(spec: EnvironmentSpec, workdir: str) -> list[str]:
    limits = spec.limits
    options = ["--init", "--pull=never", *own_labels(), NO_LOG, "--ulimit=core=0"]
    if not spec.network:
        options.append("--network=none")
    if "root" not in spec.needs:
        options += ["--cap-drop=ALL", "--security-opt=no-new-privileges"]
    if limits.memory_bytes is not None:
        options += [f"--memory={limits.memory_bytes}", f"--memory-swap={limits.memory_bytes}"]
    if limits.cpus is not None:
        options.append(f"--cpus={limits.cpus}")
    if limits.processes is not None:
        options.append(f"--pids-limit={limits.processes}")
    if limits.file_bytes is not None:
        options.append(f"--ulimit=fsize={limits.file_bytes}")
    for source, target in spec.mounts.items():
        inside = str(PurePosixPath(workdir, target))
        options.append(f"--volume={Path(source).resolve()}:{inside}:ro")
    return options


def own_labels() -> list[str]:
    """By which what this process made is found again, by itself or by the next."""
    return [
        f"--label=chimera.run={RUN}",
        f"--label=chimera.pid={os.getpid()}",
        f"--label=chimera.owner={os.getpid()}-{start_time(os.getpid())}",
        f"--label=chimera.host={platform.node()}",
    ]


def passing(said: str) -> bool:
    """Whether the engine's complaint can be over by the next attempt."""
    lasting = ("no such image", "not found", "denied", "no such host", "invalid", "unknown flag",
               "manifest unknown", "repository does not exist")  # fmt: skip
    return not any(word in said.lower() for word in lasting)


def _last_line(stream: bytes) -> str:
    return (stream.decode("utf-8", "replace").strip() or "nothing was said").splitlines()[-1]


def tagged(image: str) -> str:
    """A name as the engine lists it."""
    name = image.removeprefix("docker.io/").removeprefix("library/")
    return name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"


def registry_of(image: str) -> str:
    """The host that an image's name begins with; the usual one where it names none."""
    host, slash, _ = image.partition("/")
    named = slash and ("." in host or ":" in host or host == "localhost")
    return host if named else "docker.io"


def default_image() -> str | None:
    """What containers of tasks that name no image start from."""
    return os.environ.get(DEFAULT_IMAGE)


def image_map() -> Mapping[str, str]:
    """Images to take in place of others."""
    said = os.environ.get(IMAGE_MAP, "").strip()
    if not said:
        return {}
    try:
        text = said if said.startswith("{") else Path(said).read_text()
        mapping = json.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(f"{IMAGE_MAP} is neither JSON nor a file with it: {error}") from error
    if not isinstance(mapping, dict) or not all(isinstance(v, str) for v in mapping.values()):
        raise UsageError(f"{IMAGE_MAP} must map image names to image names")
    return mapping


def _built_name(context: Path) -> str:
    return f"chimera-build:{context_digest(context)}"


def context_digest(context: Path) -> str:
    """A digest of a build context: names, modes and contents."""
    digest = hashlib.sha256()
    for path in sorted(context.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(context))
            head = f"{name}\0{path.stat().st_mode & 0o777:o}\0{path.stat().st_size}\0"
            digest.update(head.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]
