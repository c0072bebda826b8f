"""Comment view: the words for comments and their fates, for page and terminal."""

from __future__ import annotations

from collections.abc import Mapping

from aop.core.text.visible import visible_name
from aop.kernel.features.requests.change_requests import ChangeRequest
from aop.kernel.tools.feature.comments import PlacedComment

STANDINGS: Mapping[str, str] = {
    "draft": "draft, not sent",
    "waiting": "sent; the agent has not answered yet",
    "open": "the worker said nothing about it",
    "done": "the worker says: done",
    "declined": "the worker declines",
}
FATES: Mapping[str, str] = {
    "unchanged": "AOP sees: unchanged",
    "changed": "AOP sees: changed",
    "gone": "AOP sees: gone",
    "unknown": "AOP cannot compare: the tree is no longer in the repository",
}


def subject_of_comment(comment: ChangeRequest) -> str:
    """Return the part of the feature that a comment is about."""
    if comment.kind == "rejection":
        return "the approach"
    if comment.clause:
        return f"{comment.clause} of the plan"
    if not comment.file:
        return "the whole feature"
    lines = comment.lines
    at = "" if not lines else f", lines {lines}" if "-" in lines else f", line {lines}"
    return f"{visible_name(comment.file)}{at}{' of the base' if comment.side == 'old' else ''}"


def standing_text(each: PlacedComment) -> str:
    """Return what became of a comment by the worker's word, with its reason."""
    words = each.comment.words
    has_word = each.standing in ("done", "declined")
    return (
        f"{STANDINGS[each.standing]}: {words[-1].reason}" if has_word and words[-1].reason else STANDINGS[each.standing]
    )


def fate_text(each: PlacedComment) -> str:
    """Return what AOP sees of the lines or the clause; empty for a comment on the whole."""
    place, comment = each.place, each.comment
    if place.fate is None:
        return ""
    moved = f", now at {place.lines}" if place.lines not in ("", comment.lines) else ""
    return f"{FATES[place.fate]}{moved}{', outdated' if place.outdated else ''}"
