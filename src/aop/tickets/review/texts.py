"""Texts of the reviewer: comments on the ticket, notes on the merge request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from aop.core.text.counts import count
from aop.reviews.report import CodeReviewReport, Finding, Severity
from aop.tickets.comments import MARKER, has_marker, with_marker
from aop.tickets.mission.blocks import ReviewParams
from aop.tickets.ports import MergeRequest
from aop.tickets.review.answer import SUMMARY, CriterionState, MarkedFinding, PublishedReview, marked_findings

MOST_IN_NOTE = 50

_STATES = {CriterionState.MET: "met", CriterionState.NOT_MET: "not met", CriterionState.NOT_SHOWN: "not shown"}


class ReviewNote(Struct, frozen=True, kw_only=True):
    """A note to write, at a line of the new file or on the merge request as a whole."""

    text: str
    path: str | None = None
    line: int | None = None


def missing_notes(report: CodeReviewReport, known: Sequence[str], *, marker: str) -> list[ReviewNote]:
    """Return the notes of a report that are not written yet: findings with a line, and the summary."""
    wanted: dict[str, ReviewNote] = {}
    for finding in report.findings:
        if finding.line_number is not None:
            mark = f"finding/{fingerprint(finding)}"
            text = with_marker(finding_text(finding), mark)
            wanted.setdefault(mark, ReviewNote(text=text, path=finding.file_path, line=finding.line_number))
    wanted[marker] = ReviewNote(text=with_marker(summary_note(report), marker))
    return [note for mark, note in wanted.items() if not any(has_marker(body, mark) for body in known)]


def start_comment(params: ReviewParams) -> str:
    """Return the comment at the start."""
    return f"Review of {params.review_request_url} started."


def finding_text(finding: Finding) -> str:
    """Return a finding as text."""
    kind = f" ({finding.category})" if finding.category else ""
    return f"**{finding.severity}**{kind}: {finding.description}\nRecommendation: {finding.recommendation}"


def fingerprint(finding: Finding) -> str:
    """Return the fingerprint of a finding, which stays the same when its line moves."""
    if isinstance(finding, MarkedFinding):
        return finding.fingerprint
    return marked_findings([finding], {})[0].fingerprint


def counts(report: CodeReviewReport) -> str:
    """Return the number of findings by severity."""
    found = Counter(finding.severity for finding in report.findings)
    return ", ".join(f"{found[severity]} {severity}" for severity in Severity if found[severity]) or "no findings"


def summary_note(report: CodeReviewReport) -> str:
    """Return the summary of a review, with the findings that have no line."""
    loose = [finding for finding in report.findings if finding.line_number is None]
    omitted = len(loose) - MOST_IN_NOTE
    is_marked = isinstance(report, PublishedReview)
    parts = [
        f"**Review: {report.verdict}** ({counts(report)})",
        report.summary,
        *(_preamble(report) if isinstance(report, PublishedReview) else ()),
        *(
            f"`{each.file_path}`: {finding_text(each)}"
            + (f"\n{MARKER}: finding/{fingerprint(each)}" if is_marked else "")
            for each in loose[:MOST_IN_NOTE]
        ),
        *([f"{count(omitted, 'more finding')} about whole files omitted."] if omitted > 0 else []),
        *(["Next steps:\n" + "\n".join(f"- {step}" for step in report.next_steps)] if report.next_steps else []),
        *([f"{SUMMARY}: {report.number} {report.digest}"] if isinstance(report, PublishedReview) else []),
    ]
    return "\n\n".join(parts)


def whole_report(report: PublishedReview) -> str:
    """Return the complete review as one text, for when it cannot be published."""
    placed = [finding for finding in report.findings if finding.line_number is not None]
    found = [f"`{each.file_path}`, line {each.line_number}: {finding_text(each)}" for each in placed]
    note = [line for line in summary_note(report).split("\n") if not line.startswith((f"{MARKER}:", f"{SUMMARY}:"))]
    return "\n\n".join(["\n".join(note).strip(), *found])


def _preamble(report: PublishedReview) -> Iterator[str]:
    """Return the parts before the findings: unreviewed parts, acceptance criteria, earlier findings."""
    if report.unreviewed:
        yield "**Not reviewed:**\n" + "\n".join(f"- {each}" for each in report.unreviewed)
    if report.criteria:
        yield "Acceptance criteria:\n" + "\n".join(
            f"{number}. **{_STATES[each.state]}**: {each.text}" + (f" ({each.evidence})" if each.evidence else "")
            for number, each in enumerate(report.criteria, 1)
        )
    if report.carried_over or report.gone:
        still, gone = len(report.carried_over), report.gone
        yield f"Earlier findings, not repeated here: {still} still open, {gone} not found again."
    if report.dropped:
        yield f"Dropped {count(report.dropped, 'finding')} that the diff does not confirm."


APPROVED = "AOP approved the merge request at the reviewed commit."


def remains_text(step: str, *, is_published: bool) -> str:
    """Return the state that a failed review leaves."""
    if is_published:
        return "The review is published on the merge request."
    if step.endswith("publish_review"):
        return "A part of the review may be published on the merge request."
    return "Nothing was written to the merge request."


def not_approved(why: str) -> str:
    """Return why AOP did not approve a merge request."""
    return f"AOP did not approve the merge request: {why}"


def success_comment(merge_request: MergeRequest, report: PublishedReview, approval: str) -> str:
    """Return the comment at the end."""
    open_before, unread = len(report.carried_over), len(report.unreviewed)
    lines = [
        f"Review done: {merge_request.url}",
        f"Verdict: {report.verdict}; {counts(report)}.",
        *([approval] if approval else []),
        *([] if report.has_news else ["No news since the last review, so nothing was published."]),
        *([f"Still open from earlier reviews: {count(open_before, 'finding')}."] if open_before else []),
        *([f"Not reviewed: {count(unread, 'part')} of the diff, listed on the merge request."] if unread else []),
        *(f"{number}. {_STATES[each.state]}: {each.text}" for number, each in enumerate(report.criteria, 1)),
        report.summary,
    ]
    return "\n".join(lines)
