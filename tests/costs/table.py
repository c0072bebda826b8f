"""The table of expected counts: how a count is judged by it, and how it is written."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

TABLE = Path(__file__).with_name("counts.toml")
EXACT = ("processes", "fsyncs", "statements", "round_trips")
"""The same on every machine."""
LIMITED = ("files", "modules", "bytes")
"""They differ a little from one Python, git or machine to another: the table has the most that is allowed."""
NO_REASON = "why?"
_ROOM_PERCENT = 10
"""A new limit is so much above the count."""
_TOO_MUCH_ROOM = 1.5
_LINE = re.compile(r"(\w+) = \d+(.*)")


def key_of(measure: str) -> str:
    """Return the name of a measure in the table."""
    return measure if measure in EXACT else f"{measure}_at_most"


def expected() -> Mapping[str, Mapping[str, int]]:
    """Return the counts of each row; what is not listed is 0."""
    return tomllib.loads(TABLE.read_text())


def complaints(row: str, counts: Mapping[str, int], listed: Mapping[str, int]) -> Iterator[str]:
    """Yield what the table does not say of the counts, and what to do about it."""
    for measure, count in counts.items():
        key = key_of(measure)
        known = listed.get(key, 0)
        write = f'set `{key} = {accepted(measure, count, 0)}` below ["{row}"] in tests/costs/counts.toml'
        if count > known:
            rise = f"rose by {count - known}, from {known} to {count}"
            above = f"{count}, {count - known} above the limit of {known}"
            said = rise if measure in EXACT else above
            yield f"`{row}`: {measure} {said}. If it is worth that, {write}, with the reason."
        elif accepted(measure, count, known) < known:
            yield f"`{row}`: {measure} fell by {known - count}, from {known} to {count}. Keep it there: {write}."


def accepted(measure: str, count: int, known: int) -> int:
    """Return what the table shall say of a count: of one that differs between machines, a limit with some room."""
    if measure in EXACT:
        return count
    if count <= known <= count * _TOO_MUCH_ROOM:
        return known
    step = 1000 if measure == "bytes" else 1
    return math.ceil(count * (100 + _ROOM_PERCENT) / 100 / step) * step


def rewritten(text: str, row: str, counts: Mapping[str, int]) -> str:
    """Return the table with other counts for a row; its reasons stay, and a new line asks for one."""
    head = f'["{row}"]\n'
    before, found, rest = text.partition(head)
    body, separator, after = rest.partition("\n[")
    reasons = {line[1]: line[2] for line in map(_LINE.match, body.splitlines()) if line}
    listed = tomllib.loads(body)
    lines = [
        f"{key} = {number}{reasons.get(key) or f'  # {NO_REASON}'}\n"
        for measure, count in counts.items()
        for key in [key_of(measure)]
        if (number := accepted(measure, count, listed.get(key, 0)))
    ]
    if not found:
        before = f"{text.rstrip()}\n\n"
    ending = f"\n{separator.lstrip()}{after}" if separator else ""
    return f"{before}{head}{''.join(lines)}{ending}"
