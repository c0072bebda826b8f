"""Verdict on the reports of a gate run; a missing report is a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.errors import CoverageBelowMinimum, FileNotFound, GateFailed, Json, UnsupportedParser
from aop.kernel.config.gates import CoverageParser, Mode, ParserType, Profile, TestsParser
from aop.kernel.config.policy import Policy
from aop.kernel.gates.reports.canaries import Canary, WithoutCanaries, take_out_canaries
from aop.kernel.gates.reports.coverage import LARGEST_REPORT, PARSERS, judge_coverage, parse_report
from aop.kernel.gates.reports.listed_tests import listing_difference
from aop.kernel.gates.reports.measurements import Report, ReportedTest, TestReport, UnreadableReport
from aop.kernel.gates.reports.named_tests import fates_of_tests
from aop.kernel.gates.reports.printed_tests import PRINTED, report_on
from aop.kernel.gates.reports.test_comparison import (
    Excuses,
    TestNames,
    compare_tests,
    names_of,
    removal_text,
)
from aop.kernel.gates.reports.xml import cases_in_junit
from aop.kernel.ports.files import Files
from aop.kernel.record.documents.gate_runs import TestBaseline

WRONG_CANARIES = (
    "AOP's own tests, one that must pass and one that must fail, are not in the report as they ran: the runner, a"
    " plugin or the code under test changes outcomes or writes the report itself, so the run proves nothing."
)
UNLISTED = "The runner lists its tests on the base, but not here, so nothing shows whether the report has them all."
MOST_REPORT_FILES = 5_000
UNKNOWN_BASE = "The gates left no test report on the base, so nothing shows whether tests are missing now."


class Reports(Struct, frozen=True, kw_only=True):
    """The reports that one mode of a profile must leave."""

    coverage: CoverageParser | None = None
    tests: TestsParser | None = None
    canaries: tuple[Canary, ...] = ()
    """The tests of AOP's own in the test report."""
    printed: bytes | None = None
    """The output of the step whose output is the test report; None if it did not run."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Return their paths, as patterns from the root of the checkout."""
        named = (self.coverage.path if self.coverage else None, self.tests.path if self.tests else None)
        return tuple(path for path in named if path)


class ReportVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on the steps or the reports of a run."""

    coverage: Mapping[str, Json] = {}
    tests: Mapping[str, Json] = {}
    names: TestNames | None = None
    """The tests of the report by name; None without one."""
    cases: tuple[ReportedTest, ...] = ()
    """The tests of the report, each with its outcome."""
    failure_code: str = ""
    failure: str = ""
    findings: tuple[str, ...] = ()


def reports_of(profile_name: str, profile: Profile, mode: Mode, policy: Policy) -> Reports:
    """Return the reports that a mode must leave (AOP-272). Raises: UnsupportedParser."""
    coverage, tests = profile.parsers.coverage, profile.parsers.tests
    usable = _usable_parser(profile_name, profile, coverage, policy) if coverage and mode in coverage.modes else None
    return Reports(coverage=usable, tests=tests if tests and mode in tests.modes else None)


def _usable_parser(
    profile_name: str, profile: Profile, parser: CoverageParser, policy: Policy
) -> CoverageParser | None:
    if parser.type is ParserType.NONE:
        return None
    usable = PARSERS.keys() if profile.capabilities is None else PARSERS.keys() & set(profile.capabilities)
    if parser.type in usable:
        return parser
    if policy.testing.coverage.skip_unsupported_parser:
        return None
    raise UnsupportedParser(
        f"The gate profile `{profile_name}` has no parser `{parser.type}`; it has: {', '.join(sorted(usable))}.",
        parser=parser.type,
        parsers=sorted(usable),
    )


def remove_old_reports(files: Files, reports: Reports, checkout: Path) -> None:
    """Remove reports of earlier runs, which would be taken for those of this one."""
    for pattern in reports.paths:
        for path in files.matching(_from_root(files, checkout, pattern), limit=MOST_REPORT_FILES):
            files.remove(path)


def judge_reports(
    files: Files,
    reports: Reports,
    checkout: Path,
    *,
    profile: Profile,
    policy: Policy,
    baseline: TestBaseline | None,
    excuses: Excuses,
    named_tests: Sequence[str] = (),
) -> ReportVerdict:
    """Read every report that the mode must leave, and judge it."""
    outcome = ReportVerdict()
    try:
        if reports.tests is not None:
            summed, cases = _test_report(files, reports.tests, checkout, reports.printed)
            found = take_out_canaries(summed, cases, reports.canaries)
            outcome = msgspec.structs.replace(_verdict_on_tests(found.report), cases=found.cases)
            outcome = _compared(outcome, names_of(found.cases, checkout), baseline, excuses, policy)
            outcome = _with_canaries(outcome, found, baseline)
            if named_tests:
                fates: Json = dict(fates_of_tests(named_tests, found.cases))
                outcome = msgspec.structs.replace(outcome, tests={**outcome.tests, "named": fates})
        if reports.coverage is not None and not outcome.failure_code:
            report = _coverage_report(files, reports.coverage, checkout)
            outcome = _with_coverage(outcome, report, profile, policy)
    except (FileNotFound, UnreadableReport) as error:
        return ReportVerdict(failure_code=GateFailed.code, failure=str(error))
    return outcome


def _with_canaries(outcome: ReportVerdict, found: WithoutCanaries, baseline: TestBaseline | None) -> ReportVerdict:
    """Add whether the canaries answered; where they do on the base, they must here."""
    tests = {**outcome.tests, "canaries": found.answered}
    if found.answered or baseline is None or not baseline.canaries or outcome.failure_code:
        return msgspec.structs.replace(outcome, tests=tests)
    return msgspec.structs.replace(outcome, tests=tests, failure_code=GateFailed.code, failure=WRONG_CANARIES)


def with_listing(outcome: ReportVerdict, listed: Sequence[str] | None, baseline: TestBaseline | None) -> ReportVerdict:
    """Add whether the report has the tests that the runner lists; where it does on the base, it must here."""
    difference = UNLISTED if listed is None else listing_difference(listed, outcome.cases).text
    tests = {**outcome.tests, "listed": not difference}
    if not difference or baseline is None or not baseline.listed or outcome.failure_code:
        return msgspec.structs.replace(outcome, tests=tests)
    return msgspec.structs.replace(outcome, tests=tests, failure_code=GateFailed.code, failure=difference)


def _compared(
    outcome: ReportVerdict,
    names: TestNames,
    baseline: TestBaseline | None,
    excuses: Excuses,
    policy: Policy,
) -> ReportVerdict:
    """Add the comparison with the base: each of its tests passes, or the plan names it."""
    tests = {**outcome.tests, "ran_on_base": baseline.ran if baseline else None}
    outcome = msgspec.structs.replace(outcome, tests=tests, names=names)
    if baseline is None or baseline.ran is None:
        return msgspec.structs.replace(outcome, findings=(*outcome.findings, UNKNOWN_BASE))
    comparison, removed = compare_tests(names, baseline)
    tests["comparison"] = msgspec.to_builtins(comparison)
    unnamed = excuses.unnamed(removed)
    if outcome.failure_code or not unnamed:
        return msgspec.structs.replace(outcome, tests=tests)
    if policy.testing.allow_fewer_tests:
        return msgspec.structs.replace(outcome, tests=tests, findings=(*outcome.findings, removal_text(unnamed)))
    return msgspec.structs.replace(outcome, tests=tests, failure_code=GateFailed.code, failure=removal_text(unnamed))


def _test_report(
    files: Files, parser: TestsParser, checkout: Path, printed: bytes | None
) -> tuple[TestReport, list[ReportedTest]]:
    """Return the sums of a test report, and its tests by name. Raises: UnreadableReport, FileNotFound."""
    if parser.type != "junit_xml":
        return _printed_report(parser, printed)
    paths = files.matching(_from_root(files, checkout, parser.path), limit=MOST_REPORT_FILES)
    if not paths:
        raise UnreadableReport(f"No step wrote the report `{parser.path}`.")
    reports = [_parse(files, ParserType.JUNIT_XML, path, parser.path) for path in paths]
    counted = [msgspec.structs.asdict(report) for report in reports if isinstance(report, TestReport)]
    summed = TestReport(**{name: sum(each[name] for each in counted) for name in TestReport.__struct_fields__})
    return summed, [case for path in paths for case in cases_in_junit(files.read(path, limit=LARGEST_REPORT) or b"")]


def _printed_report(parser: TestsParser, output: bytes | None) -> tuple[TestReport, list[ReportedTest]]:
    if output is None:
        raise UnreadableReport(f"No step `{parser.step}` ran, whose output is the report of the tests.")
    if len(output) > LARGEST_REPORT:
        raise UnreadableReport(f"The step `{parser.step}` printed more than {LARGEST_REPORT} bytes.")
    cases = PRINTED[parser.type](output)
    return report_on(cases), cases


def _coverage_report(files: Files, parser: CoverageParser, checkout: Path) -> Report | None:
    path = parser.path or ""
    if not files.matching(_from_root(files, checkout, path), limit=1):
        if parser.optional:
            return None
        raise UnreadableReport(f"No step wrote the report `{path}`.")
    return _parse(files, parser.plugin or parser.type, _from_root(files, checkout, path), path)


def _parse(files: Files, parser: str, path: str, shown: str) -> Report:
    try:
        return parse_report(parser, files.read(path, limit=LARGEST_REPORT) or b"")
    except UnreadableReport as error:
        raise UnreadableReport(f"The report `{shown}` cannot be read: {error}") from error


def _with_coverage(outcome: ReportVerdict, report: Report | None, profile: Profile, policy: Policy) -> ReportVerdict:
    if report is None:
        return outcome
    if isinstance(report, TestReport):
        return _verdict_on_tests(report)
    verdict = judge_coverage(report, profile.thresholds, policy.testing.coverage)
    outcome = msgspec.structs.replace(outcome, coverage=msgspec.to_builtins(verdict.figures))
    if verdict.problems:
        why = " ".join(verdict.problems)
        return msgspec.structs.replace(outcome, failure_code=CoverageBelowMinimum.code, failure=why)
    return outcome


def _verdict_on_tests(report: TestReport) -> ReportVerdict:
    ran = report.tests - report.skipped
    tests: dict[str, Json] = {**msgspec.to_builtins(report), "ran": ran, "ran_on_base": None}
    if report.failures or report.errors:
        why = f"The report counts {report.failures} failed tests and {report.errors} errors."
        return ReportVerdict(tests=tests, failure_code=GateFailed.code, failure=why)
    if ran < 1:
        return ReportVerdict(tests=tests, failure_code=GateFailed.code, failure="The report counts no test that ran.")
    return ReportVerdict(tests=tests)


def _from_root(files: Files, checkout: Path, path: str) -> str:
    return (checkout / path).relative_to(files.root).as_posix()
