"""Which compilers and runners this machine has, and the Debian package of each that it lacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chimera.programs import usable


@dataclass(frozen=True, slots=True)
class Requirement:
    """A program (or, with `header`, a library's header) and the package that brings it."""

    what: str
    package: str
    programs: tuple[str, ...] = ()
    header: str = ""

    @property
    def present(self) -> bool:
        if self.header:
            return any((Path(root) / self.header).exists() for root in INCLUDE_DIRECTORIES)
        return all(usable(program) for program in self.programs)

    @property
    def install_command(self) -> str:
        return f"apt-get install {self.package}"


INCLUDE_DIRECTORIES = ("/usr/include", "/usr/local/include")

#: language → what its exercises need
REQUIREMENTS: dict[str, tuple[Requirement, ...]] = {
    "cpp": (
        Requirement("C++ compiler", "g++", ("g++",)),
        Requirement("CMake", "cmake", ("cmake",)),
        Requirement("make", "make", ("make",)),
        Requirement("Boost date_time", "libboost-date-time-dev", header="boost/date_time.hpp"),
    ),
    "go": (Requirement("Go 1.18 or later", "golang", ("go",)),),
    "java": (
        Requirement("JDK 17 or later", "openjdk-17-jdk-headless", ("javac", "java")),
        Requirement("Maven", "maven", ("mvn",)),
    ),
    "javascript": (Requirement("Node.js with npm", "nodejs npm", ("node", "npm")),),
    "python": (Requirement("Python", "python3 python3-venv", ("python3",)),),
    "rust": (Requirement("Rust with Cargo", "cargo", ("cargo", "rustc")),),
}


def missing_requirements(language: str) -> list[Requirement]:
    return [need for need in REQUIREMENTS[language] if not need.present]
