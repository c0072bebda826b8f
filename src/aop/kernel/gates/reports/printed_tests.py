"""Printed tests: the outcomes in what `go test -json` and `cargo test` print.

AOP takes the output from the process itself, so that no code can rewrite what was printed before. A test or a binary
that began and did not end is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from aop.kernel.gates.reports.measurements import ReportedTest, TestReport

Outcome = Literal["passed", "failures", "errors", "skipped"]
_LONGEST_LINE = 1024 * 1024


class _GoEvent(Struct, frozen=True):
    Action: str = ""
    Package: str = ""
    Test: str = ""
    Output: str = ""


_GO_OUTCOMES: Mapping[str, Outcome] = {"pass": "passed", "fail": "failures", "skip": "skipped"}
_GO_LISTED = re.compile(r"(?:Test|Fuzz|Example)\w*")


def cases_in_go(output: bytes) -> list[ReportedTest]:
    """Return every test in the output of `go test -json`, with the path of its package before its name."""
    cases, running, red = [], dict[str, int](), dict[str, bool]()
    for event in _go_events(output):
        if event.Test.startswith("Benchmark"):
            continue
        name = f"{event.Package}.{event.Test}" if event.Test else event.Package
        outcome = _GO_OUTCOMES.get(event.Action)
        if event.Test and event.Action == "run":
            running[name] = running.get(name, 0) + 1
        elif event.Test and outcome is not None:
            running[name] = running.get(name, 0) - 1
            cases.append(_case(name, outcome))
            red[event.Package] = red.get(event.Package, False) or outcome == "failures"
        elif outcome == "failures" and not red.get(name):
            cases.append(_case(name, "errors", "The package failed, and none of its tests did."))
    unended = [name for name, left in running.items() if left > 0]
    return cases + [_case(name, "errors", "The test did not end.") for name in unended]


def listed_by_go(output: bytes) -> tuple[str, ...] | None:
    """Return the tests that `go test -list . -json` names; None if it names none."""
    lines = [(event.Package, event.Output.strip()) for event in _go_events(output) if event.Action == "output"]
    return tuple(f"{package}.{line}" for package, line in lines if _GO_LISTED.fullmatch(line)) or None


def _go_events(output: bytes) -> Iterator[_GoEvent]:
    decoder = msgspec.json.Decoder(_GoEvent)
    for line in output.splitlines():
        if line.startswith(b"{") and len(line) <= _LONGEST_LINE:
            try:
                yield decoder.decode(line)
            except msgspec.MsgspecError:
                continue


_TARGET = re.compile(r"\s*(?:Running (?:unittests )?(?P<path>\S+) \((?P<binary>.+)\)|Doc-tests (?P<crate>\S+))")
_BEGIN = re.compile(r"running (?P<count>\d+) tests?")
_CARGO_TEST = re.compile(
    r"test (?P<name>.+?)(?: - (?:should panic|compile fail|compile))? \.\.\. (?P<outcome>ok|FAILED|ignored)\b.*"
)
_CARGO_LISTED = re.compile(r"(?P<name>.+): test")
_CARGO_OUTCOMES: Mapping[str, Outcome] = {"ok": "passed", "FAILED": "failures", "ignored": "skipped"}
_LINE_NUMBER = re.compile(r" \(line \d+\)")
_HASH = re.compile(r"-[0-9a-f]{16}(?:\.exe)?$")


def cases_in_cargo(output: bytes) -> list[ReportedTest]:
    """Return every test in the output of `cargo test`, with its binary and its file before its name."""
    cases, target, left, is_told = list[ReportedTest](), "", 0, False
    for line in _lines(output):
        if found := _TARGET.fullmatch(line):
            cases += _unended(target, left)
            target, left, is_told = _target(found), 0, False
        elif found := _BEGIN.fullmatch(line):
            cases += _unended(target, left)
            left, is_told = int(found["count"]), False
        elif line == "failures:":
            # What failed tests printed follows, which can look like anything.
            is_told = True
        elif line.startswith("test result: "):
            cases += _unended(target, left)
            left, is_told = 0, False
        elif not is_told and (found := _CARGO_TEST.fullmatch(line)):
            left -= 1
            cases.append(_case(_cargo_name(target, found["name"]), _CARGO_OUTCOMES[found["outcome"]]))
    return cases + _unended(target, left)


def listed_by_cargo(output: bytes) -> tuple[str, ...] | None:
    """Return the tests that `cargo test -- --list` names; None if it names none."""
    names, target = [], ""
    for line in _lines(output):
        if found := _TARGET.fullmatch(line):
            target = _target(found)
        elif found := _CARGO_LISTED.fullmatch(line):
            names.append(_cargo_name(target, found["name"]))
    return tuple(names) or None


def _unended(target: str, left: int) -> list[ReportedTest]:
    """Return the error of a binary that ended before its tests, or that printed more than it announced."""
    why = f"{abs(left)} tests {'did not end' if left > 0 else 'were printed that it had not announced'}."
    return [_case(target or "cargo", "errors", why)] if left else []


def _target(found: re.Match[str]) -> str:
    if found["crate"]:
        return f"{found['crate']}.doc"
    binary = _HASH.sub("", found["binary"].replace("\\", "/").rpartition("/")[2])
    return f"{binary}.{found['path'].removesuffix('.rs').replace('/', '.')}"


def _cargo_name(target: str, name: str) -> str:
    """Return a test with dots between its parts; a test in a comment is named by its line, which moves."""
    return f"{target}.{_LINE_NUMBER.sub('', name).replace('::', '.')}"


def _lines(output: bytes) -> Iterator[str]:
    for line in output.splitlines():
        if len(line) <= _LONGEST_LINE:
            yield line.decode(errors="replace")


def _case(name: str, outcome: Outcome, reason: str = "") -> ReportedTest:
    return ReportedTest(name=name, passed=outcome == "passed", ran=outcome != "skipped", outcome=outcome, reason=reason)


PRINTED: Mapping[str, Callable[[bytes], list[ReportedTest]]] = {
    "go_test_json": cases_in_go,
    "cargo_test": cases_in_cargo,
}
"""The reader of each kind of output."""
LISTED: Mapping[str, Callable[[bytes], tuple[str, ...] | None]] = {
    "go_test_json": listed_by_go,
    "cargo_test": listed_by_cargo,
}
"""The reader of the listing that the same program prints."""


def report_on(cases: Iterable[ReportedTest]) -> TestReport:
    """Count the tests of some cases."""
    outcomes = [case.outcome for case in cases]
    return TestReport(
        tests=len(outcomes),
        failures=outcomes.count("failures"),
        errors=outcomes.count("errors"),
        skipped=outcomes.count("skipped"),
    )
