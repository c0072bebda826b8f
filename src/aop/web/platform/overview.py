"""Overview of a platform: what its records and queues have, within a reach."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from aop.kernel.features.questions import QuestionFacts, question_facts
from aop.kernel.gateway.tokens import Reach
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Status
from aop.kernel.record.documents.questions import Question, question_at
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.platforms import Fleet, Records, RecordStanding
from aop.kernel.record.port import Snapshot
from aop.kernel.record.spending import total_of
from aop.kernel.tools.report.dashboard import DashboardRow, rows_of_record

STANDINGS_SECONDS = 0.4
"""So long all streams share one look at the numbers of the records."""
BUSY_SECONDS = 2.0
"""After so long a record with work under way is read again: its gates go on, and its questions run out of time."""


class RepositoryFacts(Struct, frozen=True, kw_only=True):
    """What the record of one repository has, as far as no checkout is needed for it."""

    standing: RecordStanding
    rows: tuple[DashboardRow, ...]
    titles: dict[str, str]
    """The titles of features that have one."""
    approved: frozenset[str]
    """The features whose present tree a person approved; whether the base moved since then, only a checkout tells."""
    questions: tuple[QuestionFacts, ...]
    """The open questions."""
    spent: Spending

    @property
    def name(self) -> str:
        """Return the name of the repository."""
        return self.standing.name

    def count(self, status: Status) -> int:
        """Return how many features have a status."""
        return sum(row.status is status for row in self.rows)

    @property
    def is_busy(self) -> bool:
        """Tell whether time alone may change what is shown."""
        return bool(self.questions) or any(row.status not in TERMINAL for row in self.rows)


class _Known(Struct, frozen=True, kw_only=True):
    facts: RepositoryFacts
    read_at: float


class Overview:
    """What a platform has; a record is read again only after it changed, or while it is at work."""

    def __init__(
        self,
        records: Records,
        fleet: Callable[[Reach], Fleet],
        tickets: Callable[[], Sequence[Mapping[str, Any]]],
        now: Callable[[], datetime],
        seconds: Callable[[], float],
    ) -> None:
        """Read records and queues; `seconds` is a clock that only goes forward."""
        self.fleet = fleet
        """Returns the queues and workers, as far as a reach goes."""
        self.tickets = tickets
        """Returns the runs of tickets of all workers, newest first."""
        self.now = now
        self._records = records
        self._seconds = seconds
        self._guard = threading.Lock()
        self._known: dict[int, _Known] = {}
        self._looked: tuple[float, tuple[RecordStanding, ...]] | None = None

    def number(self, reach: Reach) -> int:
        """Return a number that grows with every change of a journal within the reach."""
        with self._guard:
            if self._looked is None or self._seconds() - self._looked[0] > STANDINGS_SECONDS:
                self._looked = (self._seconds(), self._records.standings())
            standings = self._looked[1]
        return sum(each.seq for each in standings if reach.opens(each.name))

    def repositories(self, reach: Reach) -> tuple[RepositoryFacts, ...]:
        """Return the repositories within the reach, by name."""
        with self._guard:
            standings = [each for each in self._records.standings() if each.is_active and reach.opens(each.name)]
            stale = [each for each in standings if self._is_stale(each)]
            if stale:
                with self._records.read() as view_of:
                    for each in stale:
                        facts = self._read(each, view_of(each.number))
                        self._known[each.number] = _Known(facts=facts, read_at=self._seconds())
            return tuple(self._known[each.number].facts for each in standings)

    def _is_stale(self, standing: RecordStanding) -> bool:
        known = self._known.get(standing.number)
        if known is None or known.facts.standing != standing:
            return True
        return known.facts.is_busy and self._seconds() - known.read_at > BUSY_SECONDS

    def _read(self, standing: RecordStanding, view: Snapshot) -> RepositoryFacts:
        now = self.now()
        rows = rows_of_record(view, now, lambda operation: self._records.is_running(standing.number, operation))
        states = list(view.all(FeatureState))
        questions = (question_at(each, now) for each in view.all(Question) if each.is_open)
        return RepositoryFacts(
            standing=standing,
            rows=rows,
            titles={state.feature_id: state.title for state in states if state.title},
            approved=frozenset(_approved(states, list(view.all(Approval)))),
            questions=tuple(question_facts(each) for each in questions if each.is_open),
            spent=total_of(row.spent for row in rows),
        )


def _approved(states: Sequence[FeatureState], approvals: Sequence[Approval]) -> Iterator[str]:
    trees = {state.feature_id: state.tree for state in states if state.status is Status.READY_TO_MERGE}
    for each in approvals:
        if each.spent_by is None and not each.withdrawn and trees.get(each.feature_id) == each.tree:
            yield each.feature_id
