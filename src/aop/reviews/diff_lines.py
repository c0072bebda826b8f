"""Lines of a diff: what it shows of each new file, to hold findings against."""

from __future__ import annotations

from collections.abc import Set

from aop.kernel.patches.lines import PatchRules
from aop.kernel.patches.parser import parse_patch

_READABLE = PatchRules(allow_copy=True, allow_binary=True, allow_symlinks=True, allow_quoted_names=True)


def shown_lines(diff: str) -> dict[str, Set[int]]:
    """Return the line numbers of each new file that a diff shows. Raises: InvalidPatch, PathOutOfBounds."""
    return {
        str(file.new_path or file.old_path): {
            line for hunk in file.hunks for line in range(hunk.new_start, hunk.new_start + hunk.new_count)
        }
        for file in parse_patch(diff.encode("utf-8", "surrogatepass"), _READABLE).files
    }


def line_texts(diff: str) -> dict[tuple[str, int], str]:
    """Return the text of each line of the new files that a diff shows. Raises: InvalidPatch, PathOutOfBounds."""
    shown: dict[tuple[str, int], str] = {}
    for file in parse_patch(diff.encode("utf-8", "surrogatepass"), _READABLE).files:
        for hunk in file.hunks:
            there = [line for line in hunk.lines if line[:1] in (b" ", b"+")]
            for at, line in enumerate(there, hunk.new_start):
                shown[str(file.new_path or file.old_path), at] = line[1:].decode("utf-8", "replace")
    return shown
