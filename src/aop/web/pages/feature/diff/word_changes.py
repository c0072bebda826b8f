"""Word changes: the parts in which two versions of one line differ."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TypeAlias

MOST_WORDS = 200
"""Lines with more words between their first and last difference are not compared."""
LEAST_ALIKE = 0.4
"""Lines that have less in common are two lines, not two versions of one."""

Part: TypeAlias = tuple[int, int]

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def word_changes(old: str, new: str) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Return the parts of the old and of the new line that the other does not have."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    shared = min(len(before), len(after))
    head = next((at for at in range(shared) if before[at] != after[at]), shared)
    tail = next((at for at in range(shared - head) if before[-1 - at] != after[-1 - at]), shared - head)
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    if not (removed or added) or max(len(removed), len(added)) > MOST_WORDS:
        return (), ()
    matcher = SequenceMatcher(None, removed, added, autojunk=False)
    alike = sum(map(len, before[:head])) + sum(map(len, before[len(before) - tail :]))
    alike += sum(
        len(word) for block in matcher.get_matching_blocks() for word in removed[block.a : block.a + block.size]
    )
    if 2 * alike < LEAST_ALIKE * (len(old) + len(new)):
        return (), ()
    start = sum(map(len, before[:head]))
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        tuple(_part(removed, first, last, start) for _, first, last, _, _ in codes if first < last),
        tuple(_part(added, first, last, start) for _, _, _, first, last in codes if first < last),
    )


def _part(words: list[str], first: int, last: int, start: int) -> Part:
    begin = start + sum(map(len, words[:first]))
    return begin, begin + sum(map(len, words[first:last]))
