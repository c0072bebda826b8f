"""Conflicts as text: each file, and the lines of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aop.core.text.counts import count
from aop.core.text.visible import visible, visible_name

KINDS: Mapping[str, str] = {
    "both_changed": "both changed the same lines",
    "both_added": "both added it, with different content",
    "changed_by_ours_deleted_by_theirs": "changed on the base branch, deleted by the feature",
    "deleted_by_ours_changed_by_theirs": "deleted on the base branch, changed by the feature",
    "names": "moved, or a file where the other has a folder",
}


def conflict_lines(conflicts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines that show conflicts: each file, what happened to it, and both texts of each place."""
    for file in conflicts:
        yield f"  {visible_name(file['path'])}: {KINDS.get(file['kind'], file['kind'])}"
        for hunk in file["hunks"]:
            yield "    on the base branch:"
            yield from _side(hunk["ours"])
            yield "    in the feature:"
            yield from _side(hunk["theirs"])
        if file["left_out_hunks"]:
            yield f"    and {count(file['left_out_hunks'], 'more place')}"


def _side(text: str) -> Iterator[str]:
    lines = text.removesuffix("\n").split("\n") if text else ["(no lines)"]
    return (f"      | {visible(line)}" for line in lines)
