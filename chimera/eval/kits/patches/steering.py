"""Files that steer a test run: what an answer changed in them is put back before it is graded."""

from __future__ import annotations

import re
import sys
from pathlib import PurePosixPath

#: Names that a test runner reads before it runs a test.
STEERING_NAMES = frozenset(
    {
        "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "setup.cfg",
        "setup.py", "pyproject.toml", "sitecustomize.py", "usercustomize.py", "noxfile.py",
        ".coveragerc", "runtests.py", "pytestdebug.py",
        "jest.config.js", "jest.config.ts", "jest.config.cjs", "jest.config.mjs",
        "jest.config.json", ".mocharc.js", ".mocharc.cjs", ".mocharc.json", ".mocharc.jsonc",
        ".mocharc.yml", ".mocharc.yaml", "mocha.opts", "karma.conf.js", "vitest.config.js",
        "vitest.config.ts", "vitest.config.mjs", "vitest.config.mts", "vitest.workspace.ts",
        ".babelrc", ".babelrc.js", ".babelrc.json", "babel.config.js", "babel.config.cjs",
        "babel.config.json", ".swcrc", ".nycrc", ".taprc", ".npmrc", ".yarnrc", ".yarnrc.yml",
        "pom.xml", "mvnw", "gradlew", "build.gradle", "build.gradle.kts", "settings.gradle",
        "settings.gradle.kts", "gradle.properties", "testng.xml", "junit-platform.properties",
        "surefire.properties", ".mvn", "CTestTestfile.cmake",
    }
)  # fmt: skip
_STEERING_SUFFIXES = (".pth", ".egg-link", ".pyc")
_STEERING_PATHS = (
    re.compile(r"^bin/(test|doctest|test_.*)$"),
    re.compile(r"^sympy/(testing|utilities)/(py)?(runtests|tests?|randtest|benchmarking)\w*\.py$"),
    re.compile(r"^tests/test_sqlite\.py$"),
    re.compile(r"(^|/)(\.mvn|node_modules|site-packages|__pycache__|\.chimera-metadata)/"),
    re.compile(r"(^|/)[^/]+\.(dist|egg)-info/"),
    # what a build left: classes that win over the sources, and reports of runs that never were
    re.compile(r"(^|/)target/((test-)?classes|[\w-]+-reports)/"),
    re.compile(r"(^|/)build/(classes|test-results|reports)/"),
    re.compile(r"^(gradle|buildSrc)/"),
    re.compile(r"(^|/)(META-INF/services/(org\.junit|org\.testng|org\.apache\.maven)|mockito-ext)"),
)
#: Packages of Java's test libraries below a folder of sources; a project's own class wins.
_JAVA_LIBRARIES = re.compile(
    r"(?:^|(?:^|/)(?:src|main|test|java|kotlin|groovy|resources)/)"
    r"(?:org/(?:junit|hamcrest|assertj|mockito|testng|opentest4j|easymock|powermock|spockframework"
    r"|apache/maven/surefire)|junit/(?:framework|runner|textui)|com/google/common/truth)"
    r"/[\w/$]+\.(?:java|kt|groovy|class)$"
)
#: Modules that a test runner imports.
RUNNER_MODULES = sys.stdlib_module_names | frozenset(
    {
        "pytest", "_pytest", "pluggy", "py", "xdist", "execnet", "coverage", "tblib", "iniconfig",
        "packaging", "attr", "exceptiongroup", "tomli", "hypothesis", "nose", "chimera_watch",
        "pygments",
    }
)  # fmt: skip
#: What of a package.json decides which tests run and how; the rest of it does not steer.
PACKAGE_KEYS = ("scripts", "mocha", "jest", "ava", "nyc", "c8", "karma")
_ROOTS = ((), ("src",), ("lib",), ("bin",))
#: Folders that hold tests; packages such as `testfixtures` are code.
_TESTS = re.compile(r"tests?|testing|testsuite|tests?[_.-].*")


def steers(path: str, *, new: bool) -> bool:
    """Whether a file at this path is read by a test runner, or shadows a module it imports."""
    pure = PurePosixPath(path)
    if pure.name in STEERING_NAMES or pure.name.endswith(_STEERING_SUFFIXES):
        return True
    if any(pattern.search(path) for pattern in _STEERING_PATHS):
        return True
    return new and (_shadows(pure) or _JAVA_LIBRARIES.search(path) is not None)


def _shadows(path: PurePosixPath) -> bool:
    """A new file that `import unittest` (or pytest, …) would find before the real one.

    Such a file must lie where a runner looks first: at the root of the code, or among the tests.
    """
    if path.suffix not in (".py", ".so", ".pyc"):
        return False
    is_package = path.name == "__init__.py"
    module = path.parent.name if is_package else path.name.split(".")[0]
    folders = path.parts[:-2] if is_package else path.parts[:-1]
    if module not in RUNNER_MODULES:
        return False
    return folders in _ROOTS or any(map(_TESTS.fullmatch, folders))
