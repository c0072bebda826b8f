"""Phases: the contract that cuts a build into steps, `## Phase N — Name`, from 0."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from aop.core.text.counts import count
from aop.forge.contracts.shapes.markdown import items_of, sections_of
from aop.forge.contracts.shapes.problems import Problems, quoted
from aop.forge.contracts.types import BuildMode

FULL_PHASES = range(6, 13)
MINI_PHASES = range(2, 3)
PARTS = ("Objective", "Deliverables", "Schema coverage", "Exit criteria")

_TITLE = re.compile(r"Phase (0|[1-9][0-9]{0,2}) — (\S.*)")
_NEARLY = re.compile(r"phase\b", re.IGNORECASE)
_LABEL = re.compile(rf"(?:#{{3,4}} +|[-*] +)?\**({'|'.join(PARTS)})\s*:?\**\s*:?\s*(.*)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_NONE = frozenset({"none", "no tables", "n/a", "-", "—"})


class Phase(Struct, frozen=True, kw_only=True):
    """One phase of a build."""

    number: int
    name: str
    line: int
    objective: str
    deliverables: tuple[str, ...]
    schema_coverage: tuple[str, ...]
    """The tables that the phase makes or changes."""
    exit_criteria: tuple[str, ...]


class Phases(Struct, frozen=True, kw_only=True):
    """The phases of a project, in order."""

    phases: tuple[Phase, ...]


def read_phases(text: str, mode: BuildMode, problems: Problems) -> Phases:
    """Read the phases; their number depends on the mode of the build."""
    lines = text.split("\n")
    found: list[Phase] = []
    end = 0
    for each in sections_of(text):
        if each.level == 2 and (title := _TITLE.fullmatch(each.title)):
            end = each.end
            found.append(_phase(int(title.group(1)), title.group(2), each.line, lines[each.line : end], problems))
        elif each.level in (2, 3) and _NEARLY.match(each.title) and each.line > end:
            problems.add(f"Line {each.line}: {quoted(each.title)} must read `## Phase N — Name`, with an em dash.")
    _check_numbers([phase.number for phase in found], mode, problems)
    if found:
        _check_ends(found, problems)
    return Phases(phases=tuple(found))


def _phase(number: int, name: str, line: int, lines: Sequence[str], problems: Problems) -> Phase:
    parts = _parts(lines)
    for part in PARTS:
        if not any(text.strip() for text in parts.get(part.casefold(), ())):
            problems.add(f"Phase {number} has no {part}.")
    return Phase(
        number=number,
        name=name,
        line=line,
        objective=" ".join(text.strip() for text in parts.get("objective", ())).strip(),
        deliverables=_entries(parts.get("deliverables", ())),
        schema_coverage=_tables(parts.get("schema coverage", ())),
        exit_criteria=_entries(parts.get("exit criteria", ())),
    )


def _parts(lines: Sequence[str]) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        label = _LABEL.fullmatch(line.strip())
        marked = label is not None and (line.lstrip().startswith("#") or "**" in line or label.group(0).endswith(":"))
        if label and (marked or ":" in line):
            current = parts.setdefault(label.group(1).casefold(), [])
            current.append(label.group(2))
        elif line.startswith("#"):
            current = []
        else:
            current.append(line)
    return parts


def _entries(lines: Sequence[str]) -> tuple[str, ...]:
    return items_of(lines) or tuple(line.strip() for line in lines if line.strip())


def _tables(lines: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    for entry in (part for line in _entries(lines) for part in re.split(r"[,;]", line)):
        bare = entry.strip().strip(".").replace("`", "").replace("*", "").strip()
        match = _NAME.match(bare)
        if match and bare.casefold() not in _NONE and not bare.casefold().startswith("none"):
            names.append(match.group())
    return tuple(dict.fromkeys(names))


def _check_numbers(numbers: Sequence[int], mode: BuildMode, problems: Problems) -> None:
    allowed = MINI_PHASES if mode == "mini" else FULL_PHASES
    for number in sorted({each for each in numbers if numbers.count(each) > 1}):
        problems.add(f"Phase {number} is there {count(numbers.count(number), 'time')}.")
    for number in range(max(numbers, default=0) + 1)[:1000]:
        if numbers and number not in numbers:
            problems.add(f"Phase {number} is missing.")
    if list(numbers) != sorted(numbers):
        problems.add("The phases are not in order.")
    if len(numbers) not in allowed:
        wanted = "exactly 2" if mode == "mini" else f"{allowed[0]} to {allowed[-1]}"
        problems.add(f"It has {count(len(numbers), 'phase')}; a {mode} build has {wanted}.")


def _check_ends(phases: Sequence[Phase], problems: Problems) -> None:
    first, last = phases[0], phases[-1]
    if first.number == 0 and "genesis" not in first.name.casefold():
        problems.add(f"Phase 0 is called `Genesis`, not {quoted(first.name)}.")
    if not any("README.md" in each for each in last.deliverables):
        problems.add(f"The deliverables of the last phase, {last.number}, lack `README.md`.")
