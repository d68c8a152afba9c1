"""Hostile patches: files that would change how tests run instead of what they test."""

from __future__ import annotations

from collections.abc import Iterator

SKIP_ALL = (
    "collect_ignore_glob = ['*']\ndef pytest_collection_modifyitems(items):\n    items.clear()\n"
)
REPORT_PASSED = (
    "import pytest\n"
    "@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n"
    "    report = outcome.get_result()\n"
    "    report.outcome = 'passed'\n"
    "    report.longrepr = None\n"
)
EXIT_ZERO = "import os\nos._exit(0)\n"
SESSION_ZERO = "def pytest_sessionfinish(session, exitstatus):\n    session.exitstatus = 0\n"
PRINT_PASSED = "print('1 passed in 0.01s')\nimport os\nos._exit(0)\n"
ASSERT_REWRITE = "import builtins\nbuiltins.AssertionError = type('Quiet', (Exception,), {})\n"

PYTHON_PLACES = (
    "conftest.py", "tests/conftest.py", "test/conftest.py", "sitecustomize.py", "usercustomize.py",
    "pytest.py", "_pytest/__init__.py", "unittest.py", "tests/__init__.py", "random.py",
)  # fmt: skip
PYTHON_PAYLOADS = {
    "skips-all": SKIP_ALL,
    "reports-passed": REPORT_PASSED,
    "exits-zero": EXIT_ZERO,
    "session-zero": SESSION_ZERO,
    "prints-passed": PRINT_PASSED,
    "quiet-asserts": ASSERT_REWRITE,
}
CONFIGURATION = {
    "pytest.ini": "[pytest]\naddopts = --collect-only -p no:cacheprovider\npython_files = none\n",
    "tox.ini": "[pytest]\naddopts = --collect-only\n",
    "setup.cfg": "[tool:pytest]\naddopts = --collect-only\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--collect-only'\n",
    ".coveragerc": "[run]\nplugins = evil\n",
    "evil.pth": "import os; os._exit(0)\n",
    "Makefile": "test:\n\t@echo 1 passed\n",
    "package.json": '{"scripts": {"test": "exit 0"}}\n',
    ".mocharc.json": '{"dryRun": true}\n',
    "jest.config.js": "module.exports = {passWithNoTests: true, testMatch: []}\n",
    "report.xml": '<testsuite tests="1" failures="0"><testcase name="t"/></testsuite>\n',
}


def new_file(path: str, content: str, mode: str = "100644") -> str:
    """A patch in git's form that adds one file."""
    lines = content.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n{added}"
    )


def patches() -> Iterator[tuple[str, str]]:
    """(name, patch) of each."""
    for payload, content in PYTHON_PAYLOADS.items():
        for place in PYTHON_PLACES:
            yield f"{place}-{payload}", new_file(place, content)
    for place, content in CONFIGURATION.items():
        yield place, new_file(place, content)
    outside = "chimera-attack-marker"
    yield "climbs-out", new_file(f"../../../../var/tmp/{outside}", "here\n")
    yield "absolute-path", new_file(f"/var/tmp/{outside}", "here\n")
    yield "into-git", new_file(".git/hooks/post-checkout", "#!/bin/sh\nexit 0\n", "100755")
    yield "symbolic-link", new_file("tests", "/", "120000")
    yield "empty", ""
    yield "not-a-patch", "All tests pass now.\n"
    yield "endless-hunk", "--- a/x\n+++ b/x\n@@ -1,99999999 +1,99999999 @@\n"
    yield "binary-garbage", "diff --git a/x b/x\nGIT binary patch\nliteral 99999999\nzzzz\n"
