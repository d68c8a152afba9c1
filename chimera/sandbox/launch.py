"""How the warm interpreter is started: in bubblewrap's namespaces, or as a plain process."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from chimera.confinement.namespaces import bwrap, namespaces_refused
from chimera.errors import EnvironmentFault
from chimera.sandbox.inner import landlock

INNER = Path(__file__).parent / "inner"
INSIDE = "/sandbox"
#: Directories that an interpreter and its libraries need, where they exist.
SYSTEM = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib32",
    "/lib",
    "/lib64",
    "/usr/share/zoneinfo",
    "/nix/store",
)
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime")
VARIABLES = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",  # the order of a set of strings must not decide a verdict
    "LD_BIND_NOW": "1",  # once here, rather than in every answer
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
OWNER = "CHIMERA_SANDBOX_OWNER"  # marks every process of a sandbox with the one that started it
START = "import sys; sys.path.append(sys.argv[2]); from inner.server import main; main()"


def variables() -> dict[str, str]:
    """The whole environment of a sandbox."""
    return {**VARIABLES, OWNER: str(os.getpid())}


def interpreter() -> Path:
    """The real interpreter behind a virtual environment's link."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def package_paths(packages: Sequence[str]) -> list[Path]:
    """Where installed packages lie, with the shared libraries shipped beside them."""
    found: list[Path] = []
    for package in packages:
        spec = importlib.util.find_spec(package)
        place = spec and next(iter(spec.submodule_search_locations or ()), spec.origin)
        if not place:
            raise EnvironmentFault(
                f"the package '{package}' is not installed: pip install {package}"
            )
        folder = Path(place)
        found.append(folder)
        libraries = folder.with_name(f"{folder.name}.libs")
        if libraries.is_dir():
            found.append(libraries)
    return found


def link_modules(packages: Sequence[str], place: str) -> None:
    """Have packages and our own modules in `place`, which everybody can pass through."""
    Path(place).chmod(0o755)
    for path in (INNER, *package_paths(packages)):
        Path(place, path.name).symlink_to(path)


def arguments(settings: dict[str, object], modules: str) -> list[str]:
    # Without the columns of each instruction, which only tracebacks show, compiling is faster.
    switches = ["-sSPB", "-X", "utf8", "-X", "no_debug_ranges"]
    return [str(interpreter()), *switches, "-c", START, json.dumps(settings), modules]


def confined_command(settings: dict[str, object], packages: Sequence[str]) -> list[str]:
    """Bubblewrap around the interpreter: read-only libraries, nothing else of the host."""
    command = bwrap("--hostname", "sandbox", "--clearenv")
    if os.geteuid() == 0:
        for capability in ("SYS_ADMIN", "SETUID", "SETGID", "CHOWN", "KILL", "SYS_RESOURCE"):
            command += ["--cap-add", f"CAP_{capability}"]
    else:
        command += ["--unshare-user"]
    for name, value in variables().items():
        command += ["--setenv", name, value]
    prefix, python = Path(sys.base_prefix).resolve(), interpreter()
    for parent in parents(*SYSTEM, *SYSTEM_FILES, prefix, python, INSIDE + "/inner"):
        command += ["--perms", "0755", "--dir", parent]  # else no other user could pass through it
    for directory in SYSTEM:
        if Path(directory).is_symlink():
            command += ["--symlink", str(Path(directory).readlink()), directory]
        else:
            command += ["--ro-bind-try", directory, directory]
    for file in SYSTEM_FILES:
        command += ["--ro-bind-try", file, file]
    if prefix not in (Path("/usr"), Path("/")):
        command += ["--ro-bind", str(prefix), str(prefix)]
    if not python.is_relative_to(prefix) or prefix == Path("/usr"):
        command += ["--ro-bind", str(python), str(python)]
    command += ["--ro-bind", str(INNER), f"{INSIDE}/inner"]
    for path in package_paths(packages):
        command += ["--ro-bind", str(path), f"{INSIDE}/{path.name}"]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp"]
    command += ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*command, "--", *arguments(settings, INSIDE)]


def parents(*places: str | Path) -> list[str]:
    """The directories above these places, the upper ones first."""
    return sorted({str(parent) for place in places for parent in Path(place).parents[:-1]})


def readable(packages: Sequence[str]) -> list[str]:
    """What an answer may read where there are no namespaces: the same as it sees in them."""
    prefix = Path(sys.base_prefix).resolve()
    places = [*map(Path, (*SYSTEM, *SYSTEM_FILES)), interpreter(), INNER, *package_paths(packages)]
    if prefix not in (Path("/usr"), Path("/")):
        places.append(prefix)
    return [str(place) for place in places]


def landlock_available() -> bool:
    return sys.platform == "linux" and landlock.version(ctypes.CDLL(None, use_errno=True)) > 0


def isolation() -> Literal["namespaces", "process"]:
    """How answers are confined here; refused where nothing would keep them from this machine."""
    if os.environ.get("CHIMERA_SANDBOX") == "process":
        return "process"
    reason = namespaces_refused()
    if reason is None:
        return "namespaces"
    if not landlock_available():
        raise EnvironmentFault(
            f"nothing here keeps an answer's code from your files: {reason}, and this kernel has "
            "no Landlock\n  Install bubblewrap (apt-get install bubblewrap), or set "
            "CHIMERA_SANDBOX=process to run it all the same"
        )
    return "process"
