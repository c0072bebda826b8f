"""Tool `report.dashboard`: all features at once."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import ClassVar, Literal

import msgspec
from msgspec import Struct

from aop.core.ids import CommitId, FeatureId, OperationId, TreeId
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.record.documents.base import Document
from aop.kernel.record.documents.features import TERMINAL, Collisions, FeatureState, HeldLocks, SetAside, Status
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.questions import Question, question_at
from aop.kernel.record.documents.runs import NewestRun, Pause, ProviderWait, RunMetadata
from aop.kernel.record.documents.usage import FeatureUsage, OpenTurn, Spending
from aop.kernel.record.port import Snapshot
from aop.kernel.record.spending import spent_in, spent_on, total_of
from aop.kernel.tools.report.standings import (
    GatesInProgress,
    Situation,
    TurnInProgress,
    features_in_reason,
    standing_of,
)


# `gc=False`: rows hold no cycles, and the collector need not search a thousand of them.
class DashboardRow(Struct, frozen=True, kw_only=True, gc=False):
    feature_id: str
    status: Status
    status_reason: str
    gates: Mapping[str, Verdict]
    locks: tuple[str, ...]
    blocked_by: tuple[str, ...]
    spent: Spending
    """The cost of the turns on this feature."""
    asks: tuple[str, ...]
    """The questions of the feature that a person has not answered."""
    out_of_time: tuple[str, ...]
    """Open questions past their time limit; the next supervisor continues with their defaults."""
    conflicts: tuple[str, ...] = ()
    """The files in which it conflicts with the base branch as it is now."""
    paused: bool
    """Whether it is paused, alone or with all others."""
    question: str = ""
    """The text of the oldest question that a person has not answered; empty without one."""
    changed_at: str
    """When the feature last changed, in UTC."""
    at_work: TurnInProgress | None
    """The turn in progress; null if none is."""
    gates_at_work: GatesInProgress | None = None
    """The gate run in progress; null if none is."""
    waits: str
    """The reason why it does not move, for a person to read; empty if nothing holds it."""
    next_command: str
    """The command with which a person moves it; empty if none is needed."""


class Dashboard(Struct, frozen=True, kw_only=True):
    features: tuple[DashboardRow, ...]
    counts: Mapping[str, int]
    """How many features have each status."""
    spent: Spending
    """The cost of the turns on all of them."""
    runs: Mapping[str, Spending]
    """The cost of each run that worked on a feature which is neither merged nor failed."""
    checkout: str
    """A warning while the checkout shows older files than the base branch that it is on; empty otherwise."""
    newest_run: RunMetadata | None
    """The order of the newest run; null before the first, and for a caller that does not reach all features."""


class _Feature(Document, frozen=True, kw_only=True, gc=False):
    """The part of a `FeatureState` that a row shows: decoding the rest would double the time."""

    kind: ClassVar[str] = FeatureState.kind

    feature_id: FeatureId
    status: Status
    status_reason: str = ""
    last_updated: str
    gates: Mapping[str, Verdict]
    locks: HeldLocks = HeldLocks()
    collisions: Collisions = Collisions()
    waits_for: tuple[FeatureId, ...] = ()
    base_commit: CommitId
    tree: TreeId
    set_aside: SetAside | None = None


def dashboard(call: Call, _arguments: Arguments) -> Outcome:
    """Return one row for each feature that the caller may reach, and the count of each status."""
    with call.kernel.record.read() as view:
        states = [state for state in view.all(_Feature) if call.principal.reaches(state.feature_id)]
        newest = view.get(NewestRun, NewestRun.key) if call.principal.features is None else None
        usages = {usage.feature_id: usage for usage in view.all(FeatureUsage)}
        conflicts = _conflicts(call.kernel, view, states)
        facts = _RowFacts(view, states, usages, conflicts, now=call.kernel.clock.now())
        gates = _gates_in_progress(view, call.kernel.locks.is_running)
    counts = dict.fromkeys((status.value for status in Status), 0)
    for state in states:
        counts[state.status] += 1
    going = [usage for usage in usages.values() if usage.feature_id in facts.going]
    rows = tuple(facts.row(state, gates.get(state.feature_id)) for state in states)
    return Dashboard(
        features=rows,
        counts=counts,
        spent=total_of(row.spent for row in rows),
        runs={run: spent_in(run, usages.values()) for run in sorted({run for usage in going for run in usage.runs})},
        checkout=call.kernel.git.checkout_behind(call.kernel.config().policy.worktree.base_branch) or "",
        newest_run=newest.facts if newest else None,
    )


def rows_of_record(
    view: Snapshot, now: datetime, is_running: Callable[[OperationId], bool]
) -> tuple[DashboardRow, ...]:
    """Return the rows of all features without a checkout: conflicts are those that the record has."""
    states = list(view.all(_Feature))
    usages = {usage.feature_id: usage for usage in view.all(FeatureUsage)}
    facts = _RowFacts(view, states, usages, _set_aside(states), now=now)
    gates = _gates_in_progress(view, is_running)
    return tuple(facts.row(state, gates.get(state.feature_id)) for state in states)


class _RowFacts:
    """The facts of rows that are stored outside the feature, by feature."""

    def __init__(
        self,
        view: Snapshot,
        states: Iterable[_Feature],
        usages: Mapping[FeatureId, FeatureUsage],
        conflicts: Mapping[FeatureId, tuple[str, ...]],
        *,
        now: datetime,
    ) -> None:
        self.going = {str(state.feature_id) for state in states if state.status not in TERMINAL}
        """The features that are neither merged nor failed."""
        self._usages = usages
        self._rests = {rest.feature_id for rest in view.all(Pause)}
        self._turns = {turn.feature_id: TurnInProgress.of(turn) for turn in view.all(OpenTurn)}
        self._conflicts = conflicts
        self._provider_waits = {name: wait.reason(now) for wait in view.all(ProviderWait) for name in wait.features}
        self._asks: dict[FeatureId, list[Question]] = {}
        self._out_of_time: dict[FeatureId, list[Question]] = {}
        for each in view.all(Question):
            if not each.is_open:
                continue
            side = self._asks if question_at(each, now).is_open else self._out_of_time
            for name in (each.feature_id, *each.features):
                side.setdefault(name, []).append(each)

    def row(self, state: _Feature, gates: GatesInProgress | None) -> DashboardRow:
        """Return the row of a feature."""
        name, situation = state.feature_id, self._situation(state)
        standing = standing_of(situation)
        return DashboardRow(
            feature_id=name,
            status=state.status,
            status_reason=state.status_reason,
            gates=state.gates,
            locks=state.locks.held,
            blocked_by=situation.blocked_by,
            spent=spent_on(self._usages.get(name)),
            asks=tuple(question.question_id for question in situation.asks),
            out_of_time=tuple(question.question_id for question in situation.out_of_time),
            conflicts=situation.conflicts,
            paused=bool(situation.pause),
            changed_at=state.last_updated,
            at_work=self._turns.get(name),
            gates_at_work=gates,
            question=next((each.text for each in (*situation.asks, *situation.out_of_time)), ""),
            waits=standing.waits,
            next_command=standing.command,
        )

    def _named_in_reason(self, state: _Feature) -> tuple[str, ...]:
        is_named = state.status is Status.BLOCKED and "`" in state.status_reason
        return features_in_reason(state.status_reason, self.going - {state.feature_id}) if is_named else ()

    def _situation(self, state: _Feature) -> Situation:
        name = state.feature_id
        pause: Literal["", "feature", "all"] = (
            "all" if None in self._rests else "feature" if name in self._rests else ""
        )
        return Situation(
            feature_id=name,
            status=state.status,
            reason=state.status_reason,
            blocked_by=_blocking_features(state) or self._named_in_reason(state),
            asks=tuple(self._asks.get(name, ())),
            out_of_time=tuple(self._out_of_time.get(name, ())),
            conflicts=self._conflicts.get(name, ()),
            pause="" if state.status in TERMINAL else pause,
            provider_wait=self._provider_waits.get(name, ""),
        )


def _gates_in_progress(view: Snapshot, is_running: Callable[[OperationId], bool]) -> dict[str, GatesInProgress]:
    """Return the gate runs whose process is alive, by feature."""
    pending, found = view.pending_operations(), dict[str, GatesInProgress]()
    if not pending:
        return found
    # Most calls find nothing at work, and `aop status` is typed often.
    from aop.kernel.gates.progress import GATES_RUN, Progress

    for each in pending:
        if each.tool == GATES_RUN and each.intent is not None and is_running(each.operation_id):
            run = msgspec.convert(each.intent, Progress)
            step = run.lines[-1].removeprefix(f"{run.feature_id}: ") if run.lines else f"{run.mode} gates"
            found[run.feature_id] = GatesInProgress(mode=run.mode, step=step, since=run.since)
    return found


def _conflicts(kernel: Kernel, view: Snapshot, states: Iterable[_Feature]) -> dict[FeatureId, tuple[str, ...]]:
    """Return the files in conflict with the base branch, of the features that are set aside or behind it."""
    going = [state for state in states if state.status not in TERMINAL]
    found = _set_aside(going)
    head = kernel.git.branches.head(kernel.config().policy.worktree.base_branch)
    behind = [state for state in going if state.base_commit != head and state.feature_id not in found]
    if head is None or not behind:
        return found
    # Most calls find every feature on the base branch, and pay for nothing of this.
    from aop.kernel.merges.trial_merges import FeatureTip, TriedMerge, conflicts_with_base

    tips = [FeatureTip(feature_id=state.feature_id, base=state.base_commit, tree=state.tree) for state in behind]
    known = {tried.between: tried for tried in view.all(TriedMerge)}
    tried = conflicts_with_base(kernel.git, tips, head, known)
    return {**found, **{name: tuple(each.path for each in paths) for name, paths in tried.items()}}


def _set_aside(states: Iterable[_Feature]) -> dict[FeatureId, tuple[str, ...]]:
    """Return the files in conflict that the record has, of the features whose changes were set aside."""
    return {
        state.feature_id: state.set_aside.paths
        for state in states
        if state.set_aside is not None and state.status not in TERMINAL
    }


def _blocking_features(state: _Feature) -> tuple[str, ...]:
    collisions = state.collisions
    met = (*collisions.files, *collisions.areas, *collisions.contracts)
    if not met and not state.waits_for:
        return ()
    return tuple(sorted({*state.waits_for, *(str(each["feature_id"]) for each in met if "feature_id" in each)}))


TOOLS = (
    Tool(
        name="report.dashboard",
        summary="List all features with their status, gates, locks and what blocks them.",
        arguments=Arguments,
        output=Dashboard,
        roles=READERS,
        run=dashboard,
    ),
)
