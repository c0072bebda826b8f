"""What a review still has to write where developers read it: each finding once, and one note on the whole."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from aop.reviews.report import CodeReviewReport
from aop.tickets.comments import is_marked, marked
from aop.tickets.review.texts import finding_text, fingerprint, summary_note


class ReviewNote(Struct, frozen=True, kw_only=True):
    """A note that is to be written: at a line of the new file, or on the whole."""

    text: str
    path: str | None = None
    line: int | None = None


def missing_notes(report: CodeReviewReport, known: Sequence[str], *, marker: str) -> list[ReviewNote]:
    """Return the notes of a report that are not among those that are known."""
    wanted: dict[str, ReviewNote] = {}
    for finding in report.findings:
        if finding.line_number is not None:
            mark = f"finding/{fingerprint(finding)}"
            text = marked(finding_text(finding), mark)
            wanted.setdefault(mark, ReviewNote(text=text, path=finding.file_path, line=finding.line_number))
    wanted[marker] = ReviewNote(text=marked(summary_note(report), marker))
    return [note for mark, note in wanted.items() if not any(is_marked(body, mark) for body in known)]
