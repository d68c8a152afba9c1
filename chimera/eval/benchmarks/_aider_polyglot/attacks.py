"""Solutions that forge, disarm or end the test run, or bring files of their own: all must fail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from chimera.eval.values import Submission

#: Code for the end of a stub that ends the process with success while it is loaded.
EARLY_EXIT: Mapping[str, str] = {
    "cpp": '\n#include <cstdlib>\n#include <cstdio>\nstatic int ended = (std::puts("All tests '
    'passed (9 assertions in 9 test cases)"), std::exit(0), 0);\n',
    "go": '\nfunc init() { println("ok"); panic("ended") }\n',
    "java": '\nclass Ended { static { System.out.println("[ 9 tests successful ]"); '
    "Runtime.getRuntime().halt(0); } static int now = 0; }\n",
    "javascript": "\nprocess.stdout.write('Tests: 9 passed, 9 total'); process.exit(0);\n",
    "python": "\nimport os\nprint('9 passed in 0.01s', flush=True)\nos._exit(0)\n",
    "rust": '\n#[used]\n#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]\n'
    'static ENDED: extern "C" fn() = {\n    extern "C" fn ended() {\n        println!("test result:'
    ' ok. 9 passed; 0 failed");\n        std::process::exit(0)\n    }\n    ended\n};\n',
}
#: Files beside the solution that a runner would read if they reached it.
PLANTED: Mapping[str, Mapping[str, str]] = {
    "python": {
        "conftest.py": "def pytest_collection_modifyitems(items):\n    items[1:] = []\n",
        "pytest.py": "print('9 passed')\nraise SystemExit(0)\n",
        "pytest.ini": "[pytest]\naddopts = --collect-only\n",
    },
    "javascript": {"package.json": '{"scripts": {"test": "true"}, "jest": {"testMatch": []}}'},
    "rust": {"Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nautotests = false\n'},
    "go": {"main_test.go": 'package x\nimport ("os"; "testing")\nfunc TestMain(*testing.M) '
           "{ os.Exit(0) }\n"},
    "cpp": {"CMakeLists.txt": "project(x NONE)\nadd_custom_target(x ALL)\n"},
    "java": {"build.gradle": "test { enabled = false }\n"},
}  # fmt: skip


#: Code that makes a stub pass the published tests, in files KIND.LANGUAGE.
HOSTILE = Path(__file__).with_name("hostile")
KINDS: Mapping[str, str] = {
    "forged": "writes a passing report and ends the run",
    "runner": "replaces how tests are run",
    "assertions": "replaces the assertions",
    "equal": "returns what equals everything",
}


def hostile(language: str, stubs: Mapping[str, bytes]) -> Iterator[tuple[str, Submission]]:
    """The stub with code that passes the published tests without solving anything."""
    for kind, what in KINDS.items():
        code = HOSTILE / f"{kind}.{language}"
        in_header = (language, kind) == ("cpp", "assertions")
        file = next((name for name in stubs if name.endswith(".h") is in_header), None)
        if code.is_file() and file is not None:
            content = _planted(language, stubs[file].decode(), code.read_text())
            yield what, Submission(files={**stubs, file: content.encode()})


def _planted(language: str, stub: str, code: str) -> str:
    """At the end; in Go before the stub's own imports, in Java inside of the first class."""
    start = {"go": r"^package \w+\n", "java": r"\bclass \w+[^{]*\{"}.get(language)
    found = re.search(start, stub, re.MULTILINE) if start else None
    place = found.end() if found else len(stub)
    return stub[:place] + code + stub[place:]


def attacks(
    language: str, stubs: Mapping[str, bytes], tests: Sequence[str]
) -> Iterator[tuple[str, Submission]]:
    """Hostile submissions for an exercise, made from its stub."""
    yield from hostile(language, stubs)
    first = next((name for name in stubs if not name.endswith(".h")), None)
    if first is not None:
        ended = {**stubs, first: stubs[first] + EARLY_EXIT[language].encode()}
        yield "ends the run with success", Submission(files=ended)
    planted = {name: text.encode() for name, text in PLANTED[language].items()}
    yield "brings settings of the runner", Submission(files={**stubs, **planted})
    edited = dict.fromkeys(tests, b"")
    yield "empties the tests", Submission(files={**stubs, **edited})
