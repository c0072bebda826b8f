"""Every text that the reviewer writes where people read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from aop.reviews.report import CodeReviewReport, Finding, Severity
from aop.tickets.comments import MARKER
from aop.tickets.mission.blocks import ReviewParams
from aop.tickets.ports import MergeRequest
from aop.tickets.review.answer import SUMMARY, CriterionState, MarkedFinding, PublishedReview, marked_findings

MOST_IN_NOTE = 50

_STATES = {
    CriterionState.MET: "met",
    CriterionState.NOT_MET: "not met",
    CriterionState.NOT_SHOWN: "not shown",
}


def started(params: ReviewParams) -> str:
    """Say that the work begins."""
    return f"Review of {params.review_request_url} started."


def finding_text(finding: Finding) -> str:
    """Return what a thread or a part of the note says."""
    kind = f" ({finding.category})" if finding.category else ""
    return f"**{finding.severity}**{kind}: {finding.description}\nRecommendation: {finding.recommendation}"


def fingerprint(finding: Finding) -> str:
    """Return what the same finding has in each review, wherever its line has moved."""
    if isinstance(finding, MarkedFinding):
        return finding.fingerprint
    return marked_findings([finding], {})[0].fingerprint


def counts(report: CodeReviewReport) -> str:
    """Return how many findings there are of each severity."""
    found = Counter(finding.severity for finding in report.findings)
    return ", ".join(f"{found[severity]} {severity}" for severity in Severity if found[severity]) or "no findings"


def summary_note(report: CodeReviewReport) -> str:
    """Return the note that sums up a review, with the findings that no line can be shown for."""
    loose = [finding for finding in report.findings if finding.line_number is None]
    further = len(loose) - MOST_IN_NOTE
    told = isinstance(report, PublishedReview)
    parts = [
        f"**Review: {report.verdict}** ({counts(report)})",
        report.summary,
        *(_before(report) if isinstance(report, PublishedReview) else ()),
        *(
            f"`{each.file_path}`: {finding_text(each)}" + (f"\n{_mark(each)}" if told else "")
            for each in loose[:MOST_IN_NOTE]
        ),
        *([f"{further} further findings about whole files are left out here."] if further > 0 else []),
        *(["Next steps:\n" + "\n".join(f"- {step}" for step in report.next_steps)] if report.next_steps else []),
        *([f"{SUMMARY}: {report.number} {report.digest}"] if isinstance(report, PublishedReview) else []),
    ]
    return "\n\n".join(parts)


def whole_report(report: PublishedReview) -> str:
    """Return everything that a review found, for where it cannot be published."""
    placed = [finding for finding in report.findings if finding.line_number is not None]
    found = [f"`{each.file_path}`, line {each.line_number}: {finding_text(each)}" for each in placed]
    told = [line for line in summary_note(report).split("\n") if not line.startswith((f"{MARKER}:", f"{SUMMARY}:"))]
    return "\n\n".join(["\n".join(told).strip(), *found])


def _mark(finding: Finding) -> str:
    return f"{MARKER}: finding/{fingerprint(finding)}"


def _before(report: PublishedReview) -> Iterator[str]:
    """Return what stands before the findings: what was not looked at, the criteria, and what became of earlier ones."""
    if report.unreviewed:
        yield "**Not reviewed:**\n" + "\n".join(f"- {each}" for each in report.unreviewed)
    if report.criteria:
        yield "Acceptance criteria:\n" + "\n".join(
            f"{number}. **{_STATES[each.state]}**: {each.text}" + (f" ({each.evidence})" if each.evidence else "")
            for number, each in enumerate(report.criteria, 1)
        )
    if report.carried_over or report.gone:
        still, gone = len(report.carried_over), report.gone
        yield f"Earlier findings, which are not repeated: {still} still open, {gone} not found again."
    if report.dropped:
        yield f"{report.dropped} findings were dropped, since the diff does not bear them out."


APPROVED = "The merge request is approved, as it was when the review began."


def left_behind(step: str, *, is_published: bool) -> str:
    """Say what is there after a failure."""
    if is_published:
        return "The review, written to the merge request."
    if step.endswith("publish_review"):
        return "A part of the review may be written to the merge request."
    return "Nothing was written to the merge request."


def not_approved(why: str) -> str:
    """Say that a merge request stays without AOP's approval."""
    return f"The merge request is not approved: {why}"


def succeeded(merge_request: MergeRequest, report: PublishedReview, approval: str) -> str:
    """Say what came of it."""
    lines = [
        f"Review done: {merge_request.url}",
        f"Verdict: {report.verdict}; {counts(report)}.",
        *([approval] if approval else []),
        *([] if report.has_news else ["Nothing is new since the last review, so nothing was written there."]),
        *([f"{len(report.carried_over)} findings of earlier reviews are still open."] if report.carried_over else []),
        *(
            [f"Not reviewed: {len(report.unreviewed)} parts of the diff; the merge request names them."]
            if report.unreviewed
            else []
        ),
        *(f"{number}. {_STATES[each.state]}: {each.text}" for number, each in enumerate(report.criteria, 1)),
        report.summary,
    ]
    return "\n".join(lines)
