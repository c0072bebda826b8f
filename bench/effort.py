"""How much is measured: all of it, or a little of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from bench.measurements import Measurement


class Effort(Struct, frozen=True, kw_only=True):
    """Sizes and numbers of turns."""

    folder: Path
    """Where the repositories of one case are made; it does not exist yet."""
    turns: int
    slow_turns: int
    """For what may take a second."""
    files: tuple[int, ...]
    """How many a repository has."""
    features_present: tuple[int, ...]
    operations: int
    """How many a feature has behind it that is called old."""
    flood_bytes: int
    seconds: float
    """How long many clients call at once."""
    features_run: tuple[int, ...]
    """How many features one `aop run` brings on their way."""


def full(folder: Path) -> Effort:
    """Return the effort that the budgets are meant for."""
    return Effort(
        folder=folder,
        turns=25,
        slow_turns=7,
        files=(20, 20_000),
        features_present=(5, 50, 200),
        operations=1000,
        flood_bytes=2 * 1024**3,
        seconds=5.0,
        features_run=(5, 20, 50),
    )


def quick(folder: Path) -> Effort:
    """Return an effort of well under a minute; its figures are rough."""
    return Effort(
        folder=folder,
        turns=7,
        slow_turns=3,
        files=(20, 2_000),
        features_present=(5,),
        operations=100,
        flood_bytes=128 * 1024**2,
        seconds=1.5,
        features_run=(5,),
    )


Case: TypeAlias = Callable[[Effort], Iterator[Measurement]]
