"""Causes of red steps: tables of ends and logs."""

from __future__ import annotations

import pytest

from aop.kernel.gates.causes import Cause, cause_of, failed_pytest_ids

LOGS = [
    ("not_started", None, "There is no program `tox` on the PATH `/usr/bin`.", Cause.PROGRAM_MISSING),
    ("failed", 127, "sh: 1: mocha: not found", Cause.PROGRAM_MISSING),
    ("failed", 2, "make: pytest: No such file\nsh: 1: pytest: not found", Cause.PROGRAM_MISSING),
    ("failed", 1, "Error: spawn eslint ENOENT", Cause.PROGRAM_MISSING),
    ("failed", 1, "/usr/bin/python3: No module named pytest", Cause.MODULE_MISSING),
    ("failed", 2, "E   ModuleNotFoundError: No module named 'click'\n1 error in 0.1s", Cause.MODULE_MISSING),
    ("failed", 1, "Error: Cannot find module 'tape'\n  code: 'MODULE_NOT_FOUND'", Cause.MODULE_MISSING),
    ("failed", 1, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'vitest'", Cause.MODULE_MISSING),
    ("failed", 4, "error: unrecognized arguments: --cov --cov-branch", Cause.MODULE_MISSING),
    (
        "failed",
        2,
        "importlib.metadata.PackageNotFoundError: No package metadata was found for shop",
        Cause.METADATA_MISSING,
    ),
    ("failed", 1, "LookupError: setuptools-scm was unable to detect version for /x", Cause.METADATA_MISSING),
    ("failed", 1, "npm error code EAI_AGAIN\nnpm error syscall getaddrinfo", Cause.NETWORK_REFUSED),
    ("failed", 1, "npm error code ENOTCACHED", Cause.NETWORK_REFUSED),
    ("failed", 1, "socket.gaierror: [Errno -3] Temporary failure in name resolution", Cause.NETWORK_REFUSED),
    (
        "failed",
        1,
        "OSError: [Errno 101] Network is unreachable\nFAILED tests/test_a.py::test_b\n1 failed, 9 passed in 1s",
        Cause.NETWORK_REFUSED,
    ),
    ("failed", 5, "no tests ran in 0.01s", Cause.NO_TESTS),
    ("failed", 5, "Ran 0 tests in 0.000s\n\nNO TESTS RAN", Cause.NO_TESTS),
    ("failed", 1, "No test files found, exiting with code 1", Cause.NO_TESTS),
    ("passed", 0, "# tests 0\n# pass 0\nThe report counts no test that ran.", Cause.NO_TESTS),
    ("timed_out", None, "..........", Cause.TIMED_OUT),
    ("failed", 1, "FAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed, 3 passed in 0.1s", Cause.TESTS_FAILED),
    ("failed", 1, "No module named x\nFAILED tests/test_a.py::test_b\n1 failed, 3 passed", Cause.TESTS_FAILED),
    ("failed", 1, "Ran 3 tests in 0.001s\n\nFAILED (failures=1)", Cause.TESTS_FAILED),
    ("failed", 1, "# tests 3\n# pass 2\n# fail 1", Cause.TESTS_FAILED),
    ("failed", 1, "not ok 2 should be equal", Cause.TESTS_FAILED),
    ("failed", 1, "  2 passing\n  1 failing", Cause.TESTS_FAILED),
    ("failed", 1, "src/a.py:1:1: E501 Line too long", Cause.FAILED),
]


@pytest.mark.parametrize(("outcome", "exit_code", "log", "cause"), LOGS, ids=[log[:30] for _, _, log, _ in LOGS])
def test_the_cause_is_read_from_the_end_of_a_step(outcome: str, exit_code: int | None, log: str, cause: Cause) -> None:
    assert cause_of(outcome, exit_code, log) is cause


def test_the_failed_tests_of_pytest_are_named_once_with_their_parameters() -> None:
    log = (
        "FAILED tests/test_a.py::test_b[x - y] - AssertionError: no\n"
        "FAILED tests/test_a.py::test_b[x - y] - AssertionError: no\n"
        "FAILED tests/test_a.py::TestC::test_d\n"
        "ERROR tests/test_e.py - ModuleNotFoundError: No module named 'x'\n"
        "ERROR: not found\n"
    )
    assert failed_pytest_ids(log) == (
        "tests/test_a.py::test_b[x - y]",
        "tests/test_a.py::TestC::test_d",
        "tests/test_e.py",
    )
