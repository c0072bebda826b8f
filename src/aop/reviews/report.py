"""The one report of a code review, and what of it may be believed (C-12)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

MOST_FINDINGS = 500


class ReviewVerdict(StrEnum):
    """What the reviewer makes of the whole change."""

    APPROVE = "APPROVE"
    COMMENT = "COMMENT"
    REQUEST_CHANGES = "REQUEST_CHANGES"


class Severity(StrEnum):
    """How much a finding matters, the worst first."""

    CRITICAL = "CRITICAL"
    MAJOR = "MAJOR"
    MINOR = "MINOR"
    SUGGESTION = "SUGGESTION"
    INFO = "INFO"

    def is_at_least(self, other: Severity) -> bool:
        """Tell whether a finding of this severity matters as much as one of the other."""
        order = list(Severity)
        return order.index(self) <= order.index(other)


class Category(StrEnum):
    """What a finding is about."""

    CORRECTNESS = "Correctness"
    PLAN_ALIGNMENT = "PlanAlignmentViolation"
    ARCHITECTURE_ALIGNMENT = "ArchAlignmentViolation"
    EFFICIENCY = "Efficiency"
    READABILITY = "Readability"
    MAINTAINABILITY = "Maintainability"
    DESIGN_PATTERN = "DesignPattern"
    SECURITY = "Security"
    STANDARD = "Standard"
    POTENTIAL_BUG = "PotentialBug"
    DOCUMENTATION = "Documentation"


Words = Annotated[str, Meta(min_length=1, max_length=4_000)]


class Finding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that the reviewer found."""

    file_path: Annotated[str, Meta(max_length=4_000)]
    line_number: Annotated[int, Meta(ge=1)] | None = None
    """A line of the new file; null when the finding is about the file as a whole."""
    severity: Severity
    category: Category | None = None
    description: Words
    recommendation: Words


class CodeReviewReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a reviewer answers, whoever asked."""

    verdict: ReviewVerdict
    summary: Words
    findings: Annotated[tuple[Finding, ...], Meta(max_length=MOST_FINDINGS)] = ()
    next_steps: tuple[Words, ...] = ()


class CheckedReport(Struct, frozen=True, kw_only=True):
    """A report, held against the diff that it is about."""

    report: CodeReviewReport
    dropped: tuple[Finding, ...]
    """Findings about files that the diff does not touch."""
    unanchored: tuple[Finding, ...]
    """Findings whose line is not in the diff: in the report they are about the file."""


def check_report(report: CodeReviewReport, changed: Mapping[str, Set[int]]) -> CheckedReport:
    """Hold a report against the lines that a diff shows of each file (REV-48, REV-49).

    A finding about a file that was not changed is dropped, one about a line that is not shown becomes one about its
    file. A report with a critical finding approves nothing, whatever its verdict says.
    """
    kept: list[Finding] = []
    dropped: list[Finding] = []
    unanchored: list[Finding] = []
    for said in report.findings:
        finding = replace(said, file_path=_path_in_diff(said.file_path, changed))
        if finding.file_path not in changed:
            dropped.append(finding)
        elif finding.line_number is not None and finding.line_number not in changed[finding.file_path]:
            unanchored.append(finding)
            kept.append(replace(finding, line_number=None))
        else:
            kept.append(finding)
    is_critical = any(finding.severity is Severity.CRITICAL for finding in kept)
    verdict = ReviewVerdict.REQUEST_CHANGES if is_critical else report.verdict
    return CheckedReport(
        report=replace(report, verdict=verdict, findings=tuple(kept)),
        dropped=tuple(dropped),
        unanchored=tuple(unanchored),
    )


def _path_in_diff(path: str, changed: Mapping[str, Set[int]]) -> str:
    """Return a path as the diff has it: models write some with the `b/` of a diff's header, or from the root."""
    spelled = (path, *(path.removeprefix(prefix) for prefix in ("b/", "./", "/", "a/")))
    return next((each for each in spelled if each in changed), path)


def blocking_findings(report: CodeReviewReport, severity: Severity) -> tuple[Finding, ...]:
    """Return the findings that must be dealt with first: those at or above a severity, the worst first."""
    order = list(Severity)
    found = [finding for finding in report.findings if finding.severity.is_at_least(severity)]
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))
