"""Notes of a review that are not written yet: findings and a summary."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from aop.reviews.report import CodeReviewReport
from aop.tickets.comments import has_marker, with_marker
from aop.tickets.review.texts import finding_text, fingerprint, summary_note


class ReviewNote(Struct, frozen=True, kw_only=True):
    """A note to write, at a line of the new file or on the merge request as a whole."""

    text: str
    path: str | None = None
    line: int | None = None


def missing_notes(report: CodeReviewReport, known: Sequence[str], *, marker: str) -> list[ReviewNote]:
    """Return the notes of a report that are not written yet."""
    wanted: dict[str, ReviewNote] = {}
    for finding in report.findings:
        if finding.line_number is not None:
            mark = f"finding/{fingerprint(finding)}"
            text = with_marker(finding_text(finding), mark)
            wanted.setdefault(mark, ReviewNote(text=text, path=finding.file_path, line=finding.line_number))
    wanted[marker] = ReviewNote(text=with_marker(summary_note(report), marker))
    return [note for mark, note in wanted.items() if not any(has_marker(body, mark) for body in known)]
