"""Turn parts: the logs of agents' turns, some whole lines at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from aop.kernel.ports.files import FilePart, Files
from aop.kernel.tools.report.turn_lines import turn_line_text

LOGS = ".aop/logs"
"""A folder for each feature, and in it the log of the newest turn of each role."""
MOST_ROLES = 50

LineKind = Literal["says", "calls", "answers", "prints"]


class ToldLine(Struct, frozen=True, kw_only=True):
    """One line of a log in words."""

    kind: LineKind
    text: str


class _Event(Struct, frozen=True, kw_only=True):
    type: str = ""


_KINDS: Mapping[str, LineKind] = {"replied": "says", "called": "calls", "observed": "answers"}


class LogPart(Struct, frozen=True, kw_only=True):
    """Whole lines of a log, with the byte at which each begins."""

    lines: tuple[tuple[int, str], ...]
    begin: int
    """The byte at which the first of them begins; what is before it is not read."""
    size: int
    """The size of the whole log."""


def roles_with_logs(files: Files, feature_id: str) -> tuple[str, ...]:
    """Return the roles that took a turn of a feature."""
    paths = files.below(f"{LOGS}/{feature_id}", limit=MOST_ROLES)
    return tuple(path.rpartition("/")[2].removesuffix(".log") for path in paths if path.endswith(".log"))


def part_of_log(files: Files, feature_id: str, role: str, *, before: int | None, limit: int) -> LogPart:
    """Return the last lines of a log, or the last before a byte of it; no more than so many bytes are read."""
    path = f"{LOGS}/{feature_id}/{role}.log"
    if before is None:
        return _whole_lines(files.read_part(path, offset=None, limit=limit))
    begin = max(0, before - limit)
    return _whole_lines(files.read_part(path, offset=begin, limit=max(1, before - begin)))


def _whole_lines(part: FilePart) -> LogPart:
    begin, data = part.offset, part.content
    if begin:
        # The rest of a line that is not read whole: half of a secret would not be recognised.
        cut = data.find(b"\n") + 1 or len(data)
        begin, data = begin + cut, data[cut:]
    lines, at = list[tuple[int, str]](), begin
    for line in data.split(b"\n"):
        lines.append((at, line.decode(errors="replace").rstrip("\r")))
        at += len(line) + 1
    return LogPart(lines=tuple(lines), begin=begin, size=part.size)


def told_line(line: str) -> ToldLine:
    """Return a line in words, and what kind of words it is."""
    try:
        event = msgspec.json.decode(line, type=_Event)
    except (msgspec.DecodeError, RecursionError):
        return ToldLine(kind="prints", text=line)
    return ToldLine(kind=_KINDS.get(event.type, "prints"), text=turn_line_text(line))
