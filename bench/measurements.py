"""What a measurement is, and how the time of two things is taken fairly: in turns, on the same machine, as medians."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Literal, TypeAlias

from msgspec import Struct


class Budget(Struct, frozen=True):
    """What a measurement may come to."""

    kind: Literal["times", "over", "at most", "at least", "share"]
    """Ours divided by the floor, minus it, or alone; the last two are for what should be much: alone, or divided."""
    limit: float


class Measurement(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    unit: Literal["ms", "MB", "/s", "kB", "requests", "x"] = "ms"
    ours: float
    floor: float | None = None
    floor_name: str = ""
    """What is measured beside ours, such as `git apply`."""
    budget: Budget | None = None

    @property
    def result(self) -> float:
        """Return what the budget limits."""
        if self.floor is None or self.budget is None or self.budget.kind in ("at most", "at least"):
            return self.ours
        return self.ours - self.floor if self.budget.kind == "over" else self.ours / self.floor

    @property
    def is_within(self) -> bool | None:
        """Tell whether the budget is kept; None without one."""
        if self.budget is None:
            return None
        if self.budget.kind in ("at least", "share"):
            return self.result >= self.budget.limit
        return self.result <= self.budget.limit


class Skipped(Struct, frozen=True):
    """Something that this machine cannot measure."""

    reason: str


class Failed(Struct, frozen=True):
    """A case that ended with an error."""

    error: str
    """How it ended, and the last lines that it printed."""


Outcome: TypeAlias = Measurement | Skipped | Failed

Act: TypeAlias = Callable[[int], object]
"""Does it once; the number is different each time."""


def in_turns(
    ours: Act,
    floor: Act,
    *,
    turns: int,
    before: Act = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Return the median milliseconds of both. What disturbs one disturbs the other; one turn before is not counted.

    `before` prepares each turn, and is not measured. With `time.process_time` as its clock, it measures the processor
    time of this process.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(turns + 1):
        before(number)
        for act, times in zip((ours, floor), taken, strict=True):
            times.append(_milliseconds(act, number, clock))
    return median(taken[0][1:]), median(taken[1][1:])


def after_each(prepare: Act, act: Act, *, turns: int) -> float:
    """Return the median milliseconds of what follows a preparation each time; one turn before is not counted."""
    taken = []
    for number in range(turns + 1):
        prepare(number)
        taken.append(_milliseconds(act, number, time.perf_counter))
    return median(taken[1:])


def _milliseconds(act: Act, number: int, clock: Callable[[], float]) -> float:
    began = clock()
    act(number)
    return (clock() - began) * 1000
