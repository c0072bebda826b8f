"""Tools that show all features at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from aop.kernel.calls import Arguments, Call, Outcome, Tool
from aop.kernel.documents import TERMINAL, FeatureState, Status, Verdict
from aop.kernel.permissions import READERS
from aop.kernel.questions import Question, as_of
from aop.kernel.run_facts import NewestRun, RunMetadata
from aop.kernel.usage import FeatureUsage, Spending, spent_in, spent_on, together
from aop.kernel.wishes import Pause


class DashboardRow(Struct, frozen=True, kw_only=True):
    feature_id: str
    status: Status
    status_reason: str
    gates: Mapping[str, Verdict]
    locks: tuple[str, ...]
    blocked_by: tuple[str, ...]
    spent: Spending
    """What the turns on this feature cost."""
    asks: tuple[str, ...]
    """The questions of the feature that a person has not answered."""
    out_of_time: tuple[str, ...]
    """Those whose time is up since no supervisor runs; the next one goes on with what they state."""
    paused: bool
    """Whether it rests, by itself or with all others, until somebody takes that back."""


class Dashboard(Struct, frozen=True, kw_only=True):
    features: tuple[DashboardRow, ...]
    counts: Mapping[str, int]
    """How many features have each status."""
    spent: Spending
    """What the turns on all of them cost."""
    runs: Mapping[str, Spending]
    """What each run cost that brought one of them, as long as that one is neither merged nor failed."""
    newest_run: RunMetadata | None
    """What the last run began with; null before the first, and for a caller that does not reach all features."""


def dashboard(call: Call, _arguments: Arguments) -> Outcome:
    """Return one row for each feature that the caller may reach, and how many there are of each status."""
    with call.kernel.record.read() as view:
        states = [state for state in view.all(FeatureState) if call.principal.reaches(state.feature_id)]
        newest = view.get(NewestRun, NewestRun.key) if call.principal.features is None else None
        usages = {usage.feature_id: usage for usage in view.all(FeatureUsage)}
        questions = [each for each in view.all(Question) if each.is_open]
        rests = {rest.feature_id for rest in view.all(Pause)}
    counts = dict.fromkeys((status.value for status in Status), 0)
    for state in states:
        counts[state.status] += 1
    going = [
        usages[state.feature_id] for state in states if state.feature_id in usages and state.status not in TERMINAL
    ]
    now = call.kernel.clock.now()
    over = {each.question_id for each in questions if not as_of(each, now).is_open}
    rows = tuple(
        _row(
            state,
            spent_on(usages.get(state.feature_id)),
            [each.question_id for each in questions if each.feature_id == state.feature_id],
            over,
            paused=state.status not in TERMINAL and not rests.isdisjoint({None, state.feature_id}),
        )
        for state in states
    )
    return Dashboard(
        features=rows,
        counts=counts,
        spent=together(row.spent for row in rows),
        runs={run: spent_in(run, usages.values()) for run in sorted({run for usage in going for run in usage.runs})},
        newest_run=newest.facts if newest else None,
    )


def _row(
    state: FeatureState, spent: Spending, questions: Sequence[str], over: AbstractSet[str], *, paused: bool
) -> DashboardRow:
    collisions = state.collisions
    blocking = {
        str(each["feature_id"])
        for each in (*collisions.files, *collisions.areas, *collisions.contracts)
        if "feature_id" in each
    }
    return DashboardRow(
        feature_id=state.feature_id,
        status=state.status,
        status_reason=state.status_reason,
        gates=state.gates,
        locks=state.locks.held,
        blocked_by=tuple(sorted(blocking)),
        spent=spent,
        asks=tuple(each for each in questions if each not in over),
        out_of_time=tuple(each for each in questions if each in over),
        paused=paused,
    )


TOOLS = (
    Tool(
        name="report.dashboard",
        summary="Return every feature with its status, gates, locks and what blocks it.",
        arguments=Arguments,
        output=Dashboard,
        roles=READERS,
        run=dashboard,
    ),
)
