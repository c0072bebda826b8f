"""Causes: why a gate step did not pass, from its end and its log."""

from __future__ import annotations

import re
from enum import StrEnum

NOT_FOUND = 127
NO_TESTS_OF_PYTEST = 5


class Cause(StrEnum):
    """Why a step did not pass; each has its own cures."""

    PROGRAM_MISSING = "program_missing"
    MODULE_MISSING = "module_missing"
    METADATA_MISSING = "metadata_missing"
    NETWORK_REFUSED = "network_refused"
    SETUP_FAILED = "setup_failed"
    NO_TESTS = "no_tests"
    COVERAGE_LOW = "coverage_low"
    TIMED_OUT = "timed_out"
    TESTS_FAILED = "tests_failed"
    FAILED = "failed"


_NO_TESTS = re.compile(
    r"^no tests ran in |^collected 0 items|^NO TESTS RAN|^Ran 0 tests in |no test files found|no tests found"
    r"|^(?:#|\u2139) tests 0$|^\s*0 passing|No test specified|counts no test that ran",
    re.MULTILINE | re.IGNORECASE,
)
_METADATA = re.compile(
    r"PackageNotFoundError|No package metadata was found|DistributionNotFound|setuptools[-_]scm was unable"
    r"|unable to detect version for|Unable to determine version|does not contain a valid version"
)
_MODULE = re.compile(
    r"ModuleNotFoundError|ImportError: cannot import name|No module named "
    r"|Cannot find module|ERR_MODULE_NOT_FOUND|Cannot find package"
    r"|can't find crate|no required module provides|is not in std|unrecognized arguments: --"
    r"|missing required plugins|module not found",
    re.IGNORECASE,
)
_PROGRAM = re.compile(
    r"^.*: (?:line )?\d*:? ?(?:command )?not found$|spawn \S+ ENOENT|Failed to spawn"
    r"|No such file or directory: '[^/']+'",
    re.MULTILINE,
)
_NETWORK = re.compile(
    r"Temporary failure in name resolution|Name or service not known|EAI_AGAIN|ENOTFOUND|ENETUNREACH"
    r"|Network is unreachable|Could not resolve host|getaddrinfo failed|ENOTCACHED|Max retries exceeded"
    r"|Failed to establish a new connection|nodename nor servname|Errno -3\]|Errno 101\]|dns error"
    r"|only-if-cached|Failed to fetch",
)
_FAILED_TESTS = re.compile(
    r"^(?:FAILED|ERROR) \S+|\d+ (?:failed|failing)\b|^FAILED \(|^not ok \d+|^(?:#|\u2139) fail [1-9]"
    r"|test result: FAILED|^--- FAIL|\"Output\":\"\\s*--- FAIL|There are test failures|^FAIL\b",
    re.MULTILINE,
)
_ORDER = (
    (_METADATA, Cause.METADATA_MISSING),
    (_MODULE, Cause.MODULE_MISSING),
    (_PROGRAM, Cause.PROGRAM_MISSING),
    (_NETWORK, Cause.NETWORK_REFUSED),
    (_FAILED_TESTS, Cause.TESTS_FAILED),
    (_NO_TESTS, Cause.NO_TESTS),
)
_RAN = re.compile(r"\b\d+ passed\b|^\s*\d+ passing|^(?:#|\u2139) pass [1-9]", re.MULTILINE)
_FAILED_TEST_OF_PYTEST = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+\.py\S*?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)


def cause_of(outcome: str, exit_code: int | None, log: str) -> Cause:
    """Return why a step did not pass, from its outcome (`timed_out` ...), its exit code and the end of its log."""
    if outcome == "timed_out":
        return Cause.TIMED_OUT
    if outcome == "not_started" or exit_code == NOT_FOUND:
        return Cause.PROGRAM_MISSING
    if exit_code == NO_TESTS_OF_PYTEST and _NO_TESTS.search(log):
        return Cause.NO_TESTS
    if _RAN.search(log) and _FAILED_TESTS.search(log):
        # Most tests found all that they import: what single ones print is about themselves.
        return Cause.NETWORK_REFUSED if _NETWORK.search(log) else Cause.TESTS_FAILED
    return next((cause for pattern, cause in _ORDER if pattern.search(log)), Cause.FAILED)


def failed_pytest_ids(log: str) -> tuple[str, ...]:
    """Return the tests that pytest's summary names as failed or broken, each once."""
    return tuple(dict.fromkeys(found["test"] for found in _FAILED_TEST_OF_PYTEST.finditer(log)))


def telling_line(log: str) -> str:
    """Return the last line of a log that names an error, or else the last line that is not empty."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or ["(empty)"])[-1]
