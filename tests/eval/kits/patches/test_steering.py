"""Which files steer a test run."""

from __future__ import annotations

import pytest

from chimera.eval.kits.patches.steering import steers


@pytest.mark.parametrize(
    ("path", "new", "expected"),
    [
        ("conftest.py", True, True),
        ("tests/unit/conftest.py", False, True),
        ("setup.cfg", False, True),
        ("pkg/evil.pth", True, True),
        ("bin/test", False, True),
        ("tests/runtests.py", False, True),
        ("sympy/testing/runtests.py", False, True),
        ("pytest.py", True, True),
        ("unittest/__init__.py", True, True),
        ("tests/deep/unittest.py", True, True),
        ("test_unit/types.py", True, True),
        ("testkit/types.py", True, False),
        ("package/testing_of/operator.py", True, False),
        ("src/json.py", True, True),
        ("django/http/cookie.py", True, False),
        ("src/flask/json/__init__.py", True, False),
        ("src/flask/blueprints.py", False, False),
        ("astropy/units/types.py", True, False),
        ("docs/conf.py", False, False),
    ],
)
def test_what_steers_a_run(path, new, expected):
    assert steers(path, new=new) is expected
