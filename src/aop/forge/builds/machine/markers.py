"""Markers: PLAN, TASK DONE, SIGN-OFF and STOP, each alone on a line of a reply.

A marker that is indented, quoted, in a code block or in a block of data is text about a marker, and says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, get_args

from aop.core.text.counts import count
from aop.forge.builds.documents import Evidence, PlanTask, SignedOff, StopCode
from aop.forge.builds.machine.events import Event, Flaw, Planned, Stopped, TaskDone

STOP_CODES: tuple[StopCode, ...] = get_args(StopCode)
MOST_TASKS = 200
LONGEST_TASK = 500
LONGEST_REASON = 1000
LONGEST_MARKER = LONGEST_REASON + 100

PLAN = "=== PLAN ==="
END_PLAN = "=== END PLAN ==="
SIGN_OFF = "=== PHASE SIGN-OFF: PASS ==="
END_SIGN_OFF = "=== END PHASE SIGN-OFF ==="

_MARKER = re.compile(r"=== (PLAN|END PLAN|TASK DONE: .*|PHASE SIGN-OFF: .*|END PHASE SIGN-OFF|STOP\b.*) ===")
_CODE_BLOCK = re.compile(r"(`{3,}|~{3,})")
_DATA_BLOCK = re.compile(r"<(/?)data-")
_TASK_NUMBER = re.compile(r"[1-9][0-9]{0,3}")
_TASK = re.compile(r"(?:[-*] +)?(?:\[[ xX]\] +)?(?:(?:task|Task|TASK) +)?([1-9][0-9]{0,3})[.):] +(\S.*)")
_STOP = re.compile(r"STOP[: ] *([A-Z_]+)(?:: *(.*))?")
_PHASE = re.compile(r"phase: *([0-9]{1,3})\b.*", re.IGNORECASE)
_TESTS = re.compile(r"tests: *(\S.*)", re.IGNORECASE)
_DELIVERABLES = re.compile(r"deliverables: *(.*)", re.IGNORECASE)
_DELIVERABLE = re.compile(r"(?:[-*] +)?([1-9][0-9]{0,3})[.):] *(.*)")
_NO_TEST = re.compile(r"[;,(]? *no tests?: *([^)]*)\)?$", re.IGNORECASE)
_PATH_SEPARATOR = re.compile(r"[,;]| tests?: *", re.IGNORECASE)

Line: TypeAlias = tuple[str, bool]
"""A line, and whether it speaks: False if it is quoted, indented or in a block."""


def events_in(text: str) -> tuple[Event, ...]:
    """Return what a reply says, in its order."""
    lines = list(_lines(text))
    found: list[Event] = []
    at = 0
    while at < len(lines):
        name = _marker_at(lines, at)
        at += 1
        if name is None:
            continue
        head = name.partition(":")[0]
        if head in _BLOCKS:
            end, read = _BLOCKS[head]
            block, at = _block(lines, at, end)
            found.append(
                Flaw(problem=f"`=== {name} ===` has no `=== {end} ===`.") if block is None else read(name, block)
            )
        elif head == "TASK DONE":
            found.append(_task_done(name))
        elif head.startswith("STOP"):
            found.append(_stopped(name, [line for line, _ in lines[at:]]))
        else:
            found.append(Flaw(problem=f"`=== {name} ===` has no beginning."))
    return tuple(found)


def hidden_markers(text: str) -> int:
    """Return the number of markers that do not count because they are quoted, indented or in a block."""
    bare = (line.strip(" \t>*`\"'") for line, speaks in _lines(text) if not speaks or not line.startswith("==="))
    return sum(len(line) <= LONGEST_MARKER and _MARKER.fullmatch(line) is not None for line in bare)


def _lines(text: str) -> Iterator[Line]:
    fence, in_data = "", False
    for line in text.splitlines():
        stripped = line.strip()
        mark = _CODE_BLOCK.match(stripped)
        if mark and not fence:
            fence = mark.group(1)
        elif fence:
            fence = "" if stripped.startswith(fence) and not stripped.strip(fence[0]) else fence
        elif data := _DATA_BLOCK.match(stripped):
            in_data = not data.group(1)
        else:
            yield line.rstrip(), not in_data and line[:1] == stripped[:1]
            continue
        yield line.rstrip(), False


def _marker_at(lines: Sequence[Line], at: int) -> str | None:
    line, speaks = lines[at]
    match = _MARKER.fullmatch(line) if speaks and len(line) <= LONGEST_MARKER else None
    return match.group(1) if match else None


def _block(lines: Sequence[Line], start: int, end: str) -> tuple[list[str] | None, int]:
    """Return the lines up to an end marker and the place after it; None and the start if there is no such marker."""
    for at in range(start, len(lines)):
        marker = _marker_at(lines, at)
        if marker == end:
            return [line for line, _ in lines[start:at]], at + 1
        if marker is not None:
            break
    return None, start


def _planned(_name: str, block: Sequence[str]) -> Event:
    tasks: dict[int, str] = {}
    for line in block:
        match = _TASK.fullmatch(line.strip())
        # Lines below a task that are numbered themselves are part of it.
        if match is None or line[:1].isspace():
            continue
        number = int(match.group(1))
        if number in tasks:
            return Flaw(problem=f"The plan has two tasks {number}.")
        tasks[number] = match.group(2)[:LONGEST_TASK]
    if not tasks:
        return Flaw(problem="The plan has no numbered task, such as `1. Write the store and its test`.")
    if len(tasks) > MOST_TASKS:
        return Flaw(problem=f"The plan has {count(len(tasks), 'task')}; {MOST_TASKS} are the most.")
    return Planned(tasks=tuple(PlanTask(number=number, text=text) for number, text in tasks.items()))


def _signed_off(name: str, block: Sequence[str]) -> Event:
    result = name.partition(":")[2].strip()
    if result != "PASS":
        return Flaw(problem=f"`PHASE SIGN-OFF: {result[:40]}` is none; the only sign-off is `{SIGN_OFF}`.")
    phase, tests = _first(_PHASE, block), _first(_TESTS, block)
    if phase is None:
        return Flaw(problem="The sign-off has no line `Phase: N`.")
    return SignedOff(phase=int(phase), tests=tests or "", evidence=tuple(_evidence(block)))


def _evidence(block: Sequence[str]) -> Iterator[Evidence]:
    below = False
    for line in (" ".join(each.split()) for each in block):
        if _PHASE.fullmatch(line) or _TESTS.fullmatch(line):
            below = False
        elif match := _DELIVERABLES.fullmatch(line):
            below = True
        elif below and (match := _DELIVERABLE.fullmatch(line)):
            yield _evidence_of(int(match.group(1)), match.group(2))


def _evidence_of(number: int, text: str) -> Evidence:
    reason = _NO_TEST.search(text)
    told = text[: reason.start()] if reason else text
    paths = (part.strip().strip("`()") for part in _PATH_SEPARATOR.split(told))
    return Evidence(
        deliverable=number,
        paths=tuple(dict.fromkeys(path for path in paths if path)),
        no_test_because=reason.group(1).strip()[:LONGEST_REASON] if reason else "",
    )


def _task_done(name: str) -> Event:
    number = name.partition(":")[2].strip()
    if _TASK_NUMBER.fullmatch(number) is None:
        return Flaw(problem=f"`=== {name[:80]} ===` names no task; write its number, as in `=== TASK DONE: 1 ===`.")
    return TaskDone(number=int(number))


def _stopped(name: str, below: Sequence[str]) -> Event:
    match = _STOP.fullmatch(name)
    code = next((each for each in STOP_CODES if match and match.group(1) == each), None)
    if match is None or code is None:
        return Flaw(problem=f"`=== {name[:80]} ===` has no code; the codes are {', '.join(STOP_CODES)}.")
    reason = match.group(2) or " ".join(" ".join(below).split())
    return Stopped(code=code, reason=reason[:LONGEST_REASON])


def _first(pattern: re.Pattern[str], block: Sequence[str]) -> str | None:
    return next((match.group(1) for line in block if (match := pattern.fullmatch(line.strip()))), None)


_BLOCKS: dict[str, tuple[str, Callable[[str, Sequence[str]], Event]]] = {
    "PLAN": ("END PLAN", _planned),
    "PHASE SIGN-OFF": ("END PHASE SIGN-OFF", _signed_off),
}
