"""Every text that the reviewer writes where people read it."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from aop.reviews.report import CodeReviewReport, Finding, Severity
from aop.tickets.missions import ReviewParams
from aop.tickets.ports import MergeRequest


def started(params: ReviewParams) -> str:
    """Say that the work begins."""
    return f"Review of {params.review_request_url} started."


def finding_text(finding: Finding) -> str:
    """Return what a thread or a part of the note says."""
    kind = f" ({finding.category})" if finding.category else ""
    return f"**{finding.severity}**{kind}: {finding.description}\nRecommendation: {finding.recommendation}"


def fingerprint(finding: Finding) -> str:
    """Return what the same finding has in each review, wherever its line has moved."""
    said = "\0".join([finding.file_path, finding.category or "", finding.description])
    return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def counts(report: CodeReviewReport) -> str:
    """Return how many findings there are of each severity."""
    found = Counter(finding.severity for finding in report.findings)
    return ", ".join(f"{found[severity]} {severity}" for severity in Severity if found[severity]) or "no findings"


def summary_note(report: CodeReviewReport) -> str:
    """Return the note that sums up a review, with the findings that no line can be shown for."""
    loose = [finding for finding in report.findings if finding.line_number is None]
    parts = [
        f"**Review: {report.verdict}** ({counts(report)})",
        report.summary,
        *(f"`{finding.file_path}`: {finding_text(finding)}" for finding in loose),
        *(["Next steps:\n" + "\n".join(f"- {step}" for step in report.next_steps)] if report.next_steps else []),
    ]
    return "\n\n".join(parts)


def succeeded(merge_request: MergeRequest, report: CodeReviewReport) -> str:
    """Say what came of it."""
    return f"Review done: {merge_request.url}\nVerdict: {report.verdict}; {counts(report)}.\n{report.summary}"
