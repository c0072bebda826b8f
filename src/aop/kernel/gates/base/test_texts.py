"""Texts of tests: one test cut out of its file, in any language."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

LONGEST_TEXT = 4_000
_LEAST_LIKE = 0.8
_PARTS = re.compile(r"\.|::| > ")
_ABOVE = ("@", "#[")
"""How a decorator or an attribute begins, which belongs to the test below it."""
_CLOSES = ("}", ")", "]", "end")


def text_of_test(source: str, test: str) -> str:
    """Return the lines of a test, by its name in a report; empty if it cannot be found."""
    lines = source.splitlines()
    for name in _spellings(test):
        found = re.compile(
            rf"(?:\b(?:def|fn|func|fun|void|class|function)\s+{re.escape(name)}\b)|(?:[\"'`]{re.escape(name)}[\"'`])"
        )
        first = next((number for number, line in enumerate(lines) if found.search(line)), None)
        if first is not None:
            return "\n".join(_block(lines, first))[:LONGEST_TEXT]
    return ""


def is_like(old: str, new: str) -> bool:
    """Tell whether one test is the other under a new name, with few changes: the first lines are not compared."""
    matcher = SequenceMatcher(None, old.partition("\n")[2] or old, new.partition("\n")[2] or new)
    return matcher.quick_ratio() >= _LEAST_LIKE and matcher.ratio() >= _LEAST_LIKE


def _spellings(test: str) -> list[str]:
    """Return what a test may be called in its file: its name may itself have dots, and parameters come last."""
    names = []
    for spelled in (test, test.partition("[")[0]):
        parts = list(_PARTS.finditer(spelled))
        names += [spelled[each.end() :] for each in reversed(parts)]
    return [name for name in dict.fromkeys(names) if name]


def _block(lines: list[str], first: int) -> list[str]:
    """Return a line with all that is indented below it, what closes it, and the decorators above it."""
    depth = _indent(lines[first])
    last = first + 1
    while last < len(lines) and (not lines[last].strip() or _indent(lines[last]) > depth):
        last += 1
    if last < len(lines) and _indent(lines[last]) == depth and lines[last].strip().startswith(_CLOSES):
        last += 1
    while first and _indent(lines[first - 1]) == depth and lines[first - 1].strip().startswith(_ABOVE):
        first -= 1
    block = lines[first:last]
    while block and not block[-1].strip():
        block.pop()
    return block


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
