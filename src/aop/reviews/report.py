"""Report of a code review, and the checks of its findings (C-12)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

MOST_FINDINGS = 500


class ReviewVerdict(StrEnum):
    """The reviewer's verdict on the whole change."""

    APPROVE = "APPROVE"
    COMMENT = "COMMENT"
    REQUEST_CHANGES = "REQUEST_CHANGES"


class Severity(StrEnum):
    """The severity of a finding, the worst first."""

    CRITICAL = "CRITICAL"
    MAJOR = "MAJOR"
    MINOR = "MINOR"
    SUGGESTION = "SUGGESTION"
    INFO = "INFO"

    def is_at_least(self, other: Severity) -> bool:
        """Tell whether this severity is as bad as another, or worse."""
        order = list(Severity)
        return order.index(self) <= order.index(other)


class Category(StrEnum):
    """The topic of a finding."""

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
    """One finding of the reviewer."""

    file_path: Annotated[str, Meta(max_length=4_000)]
    """The file."""
    line_number: Annotated[int, Meta(ge=1)] | None = None
    """A line of the new file; null if the finding is about the whole file."""
    severity: Severity
    category: Category | None = None
    """Its topic."""
    description: Words
    """The problem."""
    recommendation: Words
    """The repair that is proposed."""


class CodeReviewReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer of a reviewer."""

    verdict: ReviewVerdict
    summary: Words
    findings: Annotated[tuple[Finding, ...], Meta(max_length=MOST_FINDINGS)] = ()
    next_steps: tuple[Words, ...] = ()
    """Further work that is proposed."""


class CheckedReport(Struct, frozen=True, kw_only=True):
    """A report after comparison with its diff."""

    report: CodeReviewReport
    dropped: tuple[Finding, ...]
    """Findings about files that the diff does not touch."""
    unanchored: tuple[Finding, ...]
    """Findings whose line is not in the diff; in the report they are about the file."""


def check_report(report: CodeReviewReport, changed: Mapping[str, Set[int]]) -> CheckedReport:
    """Compare a report with the lines that a diff shows of each file (REV-48, REV-49).

    A finding about an unchanged file is dropped; one about a line that is not shown becomes one about its file. A
    critical finding turns every verdict into REQUEST_CHANGES.
    """
    kept: list[Finding] = []
    dropped: list[Finding] = []
    unanchored: list[Finding] = []
    for original in report.findings:
        finding = replace(original, file_path=_path_in_diff(original.file_path, changed))
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
    """Return a path as the diff has it: models sometimes add `b/`, `a/`, `./` or `/`."""
    spelled = (path, *(path.removeprefix(prefix) for prefix in ("b/", "./", "/", "a/")))
    return next((each for each in spelled if each in changed), path)


def blocking_findings(report: CodeReviewReport, severity: Severity) -> tuple[Finding, ...]:
    """Return the findings at or above a severity, the worst first."""
    order = list(Severity)
    found = [finding for finding in report.findings if finding.severity.is_at_least(severity)]
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))
