"""Tallies of a simulation: looks, takeovers, waits, and steps that ran in two places at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean, median

from bench.virtual.database import Gate


class Tallies:
    """What a simulation counts."""

    def __init__(self) -> None:
        self._looks: Counter[int] = Counter()
        self.takeovers: list[float] = []
        self.overlaps = 0
        self._waits: dict[int, list[float]] = defaultdict(list)
        """How long the gates of each repository waited for a place the first time."""
        self.features: dict[int, tuple[float, float]] = {}
        """When each feature began and ended."""

    def looked(self, now: float) -> None:
        self._looks[int(now)] += 1

    def begun(self, gate: Gate, now: float, database_back: float) -> None:
        """Note that a gate begins: for the first time, or where its worker was lost."""
        if gate.lost is not None:
            self.taken_over(now, gate.lost, database_back)
            gate.lost = None
        elif not gate.answers:
            self._waits[gate.repository].append(now - gate.queued)

    def taken_over(self, now: float, lost: float, database_back: float) -> None:
        """Note a takeover; nobody can take over while the database is away."""
        self.takeovers.append(now - max(lost, database_back))

    def overlapped(self) -> None:
        self.overlaps += 1

    @property
    def looks_per_second(self) -> int:
        """Return the most looks of all workers within a second."""
        return max(self._looks.values(), default=0)

    def last_to_first(self, *, without: int) -> float:
        """Return how long the last tenth of features took next to the first tenth."""
        took = [
            ended - began
            for feature, (began, ended) in sorted(self.features.items(), key=lambda item: item[1][0])
            if feature >= without
        ]
        tenth = max(1, len(took) // 10)
        return fmean(took[-tenth:]) / fmean(took[:tenth]) if took else 0.0

    def waits(self, *, without: int) -> tuple[float, float]:
        """Return the median wait of the median repository, and of the one that waits longest."""
        medians = [median(waits) for repository, waits in self._waits.items() if repository != without]
        return (median(medians), max(medians)) if medians else (0.0, 0.0)
