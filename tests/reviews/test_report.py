"""Review reports: valid findings, and blocking ones first."""

from __future__ import annotations

import msgspec
import pytest

from aop.reviews.report import (
    CheckedReport,
    CodeReviewReport,
    Finding,
    ReviewVerdict,
    Severity,
    blocking_findings,
    check_report,
)

CHANGED = {"src/a.py": frozenset({1, 2, 3})}


def finding(path: str = "src/a.py", line: int | None = 2, severity: Severity = Severity.MINOR) -> Finding:
    return Finding(
        file_path=path, line_number=line, severity=severity, description="It is long.", recommendation="Cut it."
    )


def report(*findings: Finding, verdict: ReviewVerdict = ReviewVerdict.APPROVE) -> CodeReviewReport:
    return CodeReviewReport(verdict=verdict, summary="Fine.", findings=findings)


@pytest.mark.req("REV-48")
def test_a_report_with_a_critical_finding_approves_nothing() -> None:
    critical = report(finding(severity=Severity.CRITICAL))
    assert check_report(critical, CHANGED).report.verdict is ReviewVerdict.REQUEST_CHANGES


def test_a_critical_finding_about_a_file_that_was_not_changed_decides_nothing() -> None:
    invented = report(finding("src/other.py", severity=Severity.CRITICAL))
    assert check_report(invented, CHANGED).report == report()


@pytest.mark.req("REV-49")
def test_findings_that_the_diff_does_not_bear_out_are_dropped_or_lose_their_line() -> None:
    good, astray, invented = finding(), finding(line=9), finding("src/other.py")
    assert check_report(report(good, astray, invented), CHANGED) == CheckedReport(
        report=report(good, finding(line=None)), dropped=(invented,), unanchored=(astray,)
    )


@pytest.mark.parametrize("path", ["b/src/a.py", "./src/a.py", "/src/a.py", "a/src/a.py"])
def test_a_file_is_known_however_a_model_spells_its_path(path: str) -> None:
    assert check_report(report(finding(path)), CHANGED).report == report(finding())


@pytest.mark.parametrize(
    ("severity", "kept"),
    [
        (Severity.CRITICAL, []),
        (Severity.MINOR, ["MAJOR", "MINOR"]),
        (Severity.INFO, ["MAJOR", "MINOR", "INFO"]),
    ],
)
def test_what_blocks_is_at_or_above_a_severity_and_the_worst_comes_first(severity: Severity, kept: list[str]) -> None:
    found = report(finding(severity=Severity.INFO), finding(severity=Severity.MINOR), finding(severity=Severity.MAJOR))
    assert [each.severity for each in blocking_findings(found, severity)] == kept


@pytest.mark.req("REV-47")
def test_a_report_is_read_strictly() -> None:
    whole = msgspec.json.encode(report(finding()))
    assert msgspec.json.decode(whole, type=CodeReviewReport) == report(finding())
    for bad in (whole.replace(b"APPROVE", b"LGTM"), whole.replace(b'"summary"', b'"sum"'), b'{"verdict":"APPROVE"}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(bad, type=CodeReviewReport)
