"""Stands after the tests of an exercise: runs them all, and ends with the first failure."""


def run_all_tests(names: dict[str, object]) -> None:
    import unittest
    from typing import Any

    class Result(unittest.TestResult):
        why = "no test ran"

        def addError(self, test: unittest.TestCase, err: Any) -> None:
            self.why = f"{test.id().rpartition('.')[2]}: {str(err[1])[:300]}"
            self.stop()
            super().addError(test, err)

        def addFailure(self, test: unittest.TestCase, err: Any) -> None:
            self.addError(test, err)

        def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
            if err is not None:
                self.addError(test, err)

    cases = [
        each
        for each in names.values()
        if isinstance(each, type) and issubclass(each, unittest.TestCase)
    ]
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    result = Result()
    unittest.TestSuite(map(load, cases)).run(result)
    not_run = [*result.skipped, *result.expectedFailures]
    passed = result.wasSuccessful() and not not_run and result.testsRun > 0
    assert passed, result.why


run_all_tests(dict(globals()))
