"""pytest's printed results as FeatureBench reads them."""

from __future__ import annotations

import pytest

from chimera.eval.benchmarks._feature_bench import pytest_summary

SUMMARY = "=== short test summary info ===\n"


@pytest.mark.parametrize(
    ("lines", "rate"),
    [
        ("PASSED a\nPASSED b\n", 1.0),
        ("PASSED a\nFAILED b - m\n", 0.5),
        ("PASSED a\nSKIPPED [1] x.py:1: w\n", 1.0),
        ("SKIPPED [1] x.py:1: w\n", 0.0),
        ("ERROR t.py\n", 0.0),
        ("XPASS a\nPASSED b\n", 1.0),
        ("XFAIL a\n", 1.0),
        ("=== 1 passed ===\nPASSED a\n", 0.0),
    ],
)
def test_feature_bench_pass_rates(lines, rate):
    assert pytest_summary.pass_rate(pytest_summary.summary(SUMMARY + lines)) == rate


def test_feature_bench_names():
    assert list(pytest_summary.summary(f"{SUMMARY}PASSED a[x - y]\n")) == ["a[x"]
    subtests = pytest_summary.summary(
        f"{SUMMARY}SUBFAILED a\nSUBFAILED a\nPASSED b\n", subtests=True
    )
    assert pytest_summary.pass_rate(subtests) == 0.3333
    assert pytest_summary.verbose("p::a PASSED [ 50%]\np::b PASSED\n") == {"p::a": "PASSED"}
