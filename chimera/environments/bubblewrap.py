"""Commands in Linux namespaces: this machine's programs, read-only, and nothing else of it."""

from __future__ import annotations

import importlib.util
import os
import site
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Self

from chimera.confinement.namespaces import bwrap, namespaces_refused, privileged
from chimera.confinement.system_calls import environment_filter
from chimera.environments.base import EnvironmentSpec
from chimera.environments.identity import interpreter, mounted, programs
from chimera.environments.provision import provisioned
from chimera.environments.supervised import GUEST, SupervisedEnvironment
from chimera.errors import UsageError
from chimera.types import JSON

HOME, WORKDIR, INSIDE_GUEST = "/home/agent", "/workspace", "/run/chimera/guest.py"
USER = 61000  # the agent's, inside; outside too where Chimera runs as root
STORAGE = 4 * 1024**3  # bytes of files together, unless the spec says otherwise
OWN_ETC = Path(__file__).with_name("etc")

#: What programs need of /etc; nothing with names of people, keys or settings of this machine.
ETC = (
    "alternatives", "bash.bashrc", "ca-certificates", "debian_version", "fonts", "gai.conf",
    "host.conf", "inputrc", "java*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime",
    "magic", "maven", "mime.types", "nsswitch.conf", "os-release", "perl", "pki", "profile",
    "protocols", "python3*", "services", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
    "xml",
)  # fmt: skip


class BubblewrapEnvironment(SupervisedEnvironment):
    """Namespaces of its own for processes, mounts, network, users and IPC.

    Writable are the working directory, the home and /tmp, which live in memory, are bounded
    together with it and vanish with the environment. There is no network unless the spec asks.
    """

    name = "bubblewrap"
    capabilities = frozenset({"commands", "confined", "network"})

    def __init__(self, spec: EnvironmentSpec, *, writable: Sequence[str] = ()) -> None:
        """`writable` are directories of this machine that become the agent's: what is to be made
        there by others' programs is."""
        self.workdir = spec.workdir or WORKDIR
        if not self.workdir.startswith("/"):
            raise UsageError(f"the working directory must be an absolute path: {self.workdir}")
        variables = {
            "PATH": search_path(),
            "HOME": HOME,
            "USER": "agent",
            "LANG": "C.UTF-8",
            "TMPDIR": "/tmp",
        }
        super().__init__(spec, {**variables, **spec.variables})
        try:
            agents = (self.workdir, HOME, "/tmp", "/dev/shm", *writable)
            with _system_calls() as (options, descriptors):
                self._launch(
                    [*confined_command(spec, self.workdir, writable), *options, "--"],
                    python(),
                    INSIDE_GUEST,
                    processes=self.limits.processes,
                    become=(USER, agents) if privileged() else None,
                    descriptors=descriptors,
                )
        except BaseException:
            self.close()
            raise

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> Self:
        return provisioned(cls(spec), spec)

    @classmethod
    def availability(cls) -> str | None:
        reason = namespaces_refused()
        return reason if reason is None or sys.platform == "linux" else f"{reason}; use docker here"

    @classmethod
    def identity(cls, spec: EnvironmentSpec) -> JSON:
        shown = mounted([*spec.mounts, *map(str, shown_packages())])
        return [cls.name, programs(), interpreter(Path(python())), shown, spec.network]


def python() -> str:
    """The interpreter Chimera runs on, outside of any virtual environment."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return str(Path(base).resolve())


def search_path(*first: str) -> str:
    """Where programs are looked for, in these directories first."""
    system = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
    return ":".join((*first, *python_path(), *system))


def python_path() -> tuple[str, ...]:
    directory = f"{sys.base_prefix}/bin"
    return () if directory in ("/usr/bin", "/bin") else (directory,)


@cache
def can_disable_nesting() -> bool:
    said = subprocess.run(["bwrap", "--help"], capture_output=True, timeout=20, check=False)
    return b"--disable-userns" in said.stdout


#: Parts of /proc through which the kernel listens to whoever is root outside.
COVERED = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "driver", "mtrr", "tty")


def confined_command(
    spec: EnvironmentSpec, workdir: str, writable: Sequence[str] = ()
) -> list[str]:
    """The bwrap command line, whose options may go on."""
    arguments = bwrap("--as-pid-1", "--hostname", "chimera", network=spec.network)
    arguments += identity()
    arguments += system_mounts(spec.mounts.values())
    arguments += ["--proc", "/proc", "--dev", "/dev", "--symlink", "/tmp", "/var/tmp"]
    for name in COVERED:
        arguments += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    storage = spec.limits.disk_bytes or STORAGE
    for place, share in ((workdir, 2), ("/tmp", 4), (HOME, 8), ("/dev/shm", 8)):
        arguments += ["--size", str(storage // share), "--tmpfs", place]
    if spec.network:
        resolver = Path("/etc/resolv.conf").resolve()
        arguments += ["--ro-bind-try", str(resolver), "/etc/resolv.conf"]
    shown = [("--ro-bind", source, target) for source, target in spec.mounts.items()]
    for kind, source, target in (*shown, *(("--bind", place, place) for place in writable)):
        check_mount(Path(source))
        inside = target if target.startswith("/") else f"{workdir}/{target}"
        if inside.startswith("/var/tmp/"):  # bwrap makes nothing behind a link
            inside = inside.removeprefix("/var")
        arguments += [kind, source, inside]
    arguments += ["--ro-bind", str(GUEST), INSIDE_GUEST, "--remount-ro", "/"]
    return [*with_open_parents(arguments), "--chdir", workdir]


@contextmanager
def _system_calls() -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """The options that put the filter on, and the descriptors that these name."""
    content = environment_filter()
    if content is None:
        yield (), ()
        return
    reading, writing = os.pipe()
    try:
        os.write(writing, content)  # which is far less than a pipe holds
        os.close(writing)
        yield ("--seccomp", str(reading)), (reading,)
    finally:
        os.close(reading)


def check_mount(source: Path) -> None:
    """A mount that the agent's user cannot read would only be found out by its commands."""
    try:
        mode = source.stat().st_mode
    except OSError as error:
        raise UsageError(f"{source} cannot be mounted: {error.strerror}") from error
    if privileged() and not mode & (stat.S_IXOTH if source.is_dir() else stat.S_IROTH):
        raise UsageError(
            f"{source} cannot be mounted: others than root may not read it (chmod o+rx)"
        )


def with_open_parents(arguments: list[str]) -> list[str]:
    """The same mounts, with directories on the way to them that everybody may pass."""
    lengths = {"--tmpfs": 1, "--symlink": 2, "--bind": 2, "--ro-bind": 2, "--ro-bind-try": 2}
    done: list[str] = []
    made: set[str] = set()
    for index, word in enumerate(arguments):
        length = lengths.get(word)
        if length is not None:
            target = PurePosixPath(arguments[index + length])
            missing = [str(parent) for parent in target.parents if str(parent) not in made]
            made.update(missing)
            place = len(done) - 2 if done[-2:-1] == ["--size"] else len(done)
            done[place:place] = [
                item for parent in reversed(missing) if parent != "/" for item in ("--dir", parent)
            ]
        done.append(word)
    return done


def identity() -> list[str]:
    """Who the processes are: nobody that owns anything outside."""
    if privileged():
        # The guest needs these to give the agent its directories and to become the agent.
        needed = ("CAP_CHOWN", "CAP_SETUID", "CAP_SETGID")
        return ["--cap-drop", "ALL", *(word for name in needed for word in ("--cap-add", name))]
    arguments = ["--unshare-user", "--uid", str(USER), "--gid", str(USER)]
    return [*arguments, "--disable-userns"] if can_disable_nesting() else arguments


def system_mounts(targets: Iterable[str] = ()) -> list[str]:
    """Programs and libraries, read-only, and the little of /etc they need, with room in /usr for
    the `targets` of further mounts."""
    arguments = ["--tmpfs", "/", "--ro-bind", "/usr", "/usr"]
    for target in map(Path, targets):
        if target.is_relative_to("/usr") and not target.exists():
            arguments += reopened(target.parent)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for pattern in ETC:
        for path in sorted(Path("/etc").glob(pattern)):
            arguments += ["--ro-bind", str(path), str(path)]
    for path in sorted(OWN_ETC.iterdir()):
        arguments += ["--ro-bind", str(path), f"/etc/{path.name}"]
    prefix = Path(sys.base_prefix)
    if not prefix.is_relative_to("/usr"):
        arguments += ["--ro-bind", str(prefix), str(prefix)]
    for packages in hidden_packages():
        arguments += ["--tmpfs", packages]
    for packages in [each for each in base_packages() if each in hidden_packages()][:1]:
        for path in shown_packages():
            arguments += ["--ro-bind", str(path), f"{packages}/{path.name}"]
    return arguments


def reopened(directory: Path) -> list[str]:
    """A directory of this machine as it is, in which more can be mounted."""
    arguments = ["--tmpfs", str(directory)]
    for path in sorted(directory.iterdir()):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        else:
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def base_packages() -> list[str]:
    """Where the interpreter of `python()` looks for packages."""
    return [path.replace(sys.prefix, sys.base_prefix, 1) for path in site.getsitepackages()]


@cache
def hidden_packages() -> tuple[str, ...]:
    """Where pip puts packages for this interpreter: data sets and graders may lie there."""
    found = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    found |= set(base_packages())
    found.discard("/usr/lib/python3/dist-packages")  # Debian's own, which its programs need
    seen = (Path("/usr"), Path(sys.base_prefix))
    return tuple(
        sorted(
            path
            for path in found
            if Path(path).is_dir() and any(Path(path).is_relative_to(tree) for tree in seen)
        )
    )


@cache
def shown_packages() -> tuple[Path, ...]:
    """pytest and what it needs, where Chimera has it: tasks are checked with it."""
    found: list[Path] = []
    for name in ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"):
        module = importlib.util.find_spec(name)
        if module is not None and module.origin is not None:
            origin = Path(module.origin)
            found.append(origin.parent if origin.name == "__init__.py" else origin)
    return tuple(found)
