"""Phase windows: one phase of the phases contract, and the next one."""

from __future__ import annotations

import re

from msgspec import Struct

from aop.core.errors import UnknownPhase

_HEADING = re.compile(r"^## Phase (\d{1,4})\b", re.MULTILINE)


class PhaseWindow(Struct, frozen=True, kw_only=True):
    """A phase, the next one if there is one, and the number of the last."""

    content: str
    last_phase: int


def window_of(phases: str, number: int) -> PhaseWindow:
    """Return a phase and the next one, split at `## Phase` (FORGE-035). Raises: UnknownPhase."""
    starts = [(int(match[1]), match.start()) for match in _HEADING.finditer(phases)]
    if not starts:
        raise UnknownPhase("The phases contract has no `## Phase` heading.", phases=[])
    numbers = [each for each, _ in starts]
    if number not in numbers:
        raise UnknownPhase(f"There is no phase {number}; the phases are 0 to {numbers[-1]}.", phases=numbers)
    place = numbers.index(number)
    end = starts[place + 2][1] if place + 2 < len(starts) else len(phases)
    return PhaseWindow(content=phases[starts[place][1] : end].rstrip() + "\n", last_phase=numbers[-1])
