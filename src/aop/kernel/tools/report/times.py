"""Tool `report.times`: time by status, gate durations, and features by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from statistics import median

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.features import TERMINAL, Status
from aop.kernel.record.documents.gate_runs import GateRun, Verdict
from aop.kernel.record.status_history import STATUS_EVENTS, StatusStep, status_steps


class FeatureTimes(Struct, frozen=True, kw_only=True):
    """The time that one feature spent in each status."""

    feature_id: str
    seconds: Mapping[str, float]
    """By status; the one that it has now counts until now."""
    total: float
    """From its beginning to its end, or to now."""


class GateTimes(Struct, frozen=True, kw_only=True):
    """The durations of the gate runs of one mode, or of one step."""

    mode: str
    step: str
    """The step; empty for whole runs."""
    runs: int
    """The number of runs."""
    failed: int
    """The number of those that did not pass."""
    median_seconds: float
    """Half of them took longer."""
    longest_seconds: float
    """The longest one."""
    total_seconds: float
    """All of them together."""


class DayCount(Struct, frozen=True, kw_only=True):
    """The features at the end of a day."""

    day: str
    """The day of UTC."""
    begun: int
    """The number of features that were begun so far."""
    merged: int
    """The number of features that were merged so far."""


class Times(Struct, frozen=True, kw_only=True):
    statuses: Mapping[str, float]
    """The seconds that all features together spent in each status."""
    features: tuple[FeatureTimes, ...]
    """By feature."""
    gates: tuple[GateTimes, ...]
    """Whole runs by mode, each followed by its steps."""
    days: tuple[DayCount, ...]
    """Each day of UTC on which a feature was begun or merged."""


def times(call: Call, _arguments: Arguments) -> Outcome:
    """Sum up the times of the features that the caller may reach."""
    reaches, now = call.principal.reaches, call.kernel.clock.now()
    with call.kernel.record.read() as view:
        steps = [each for each in status_steps(view.journal(kinds=tuple(STATUS_EVENTS))) if reaches(each.feature_id)]
        runs = [each for each in view.all(GateRun) if reaches(each.feature_id)]
    features = tuple(_feature_times(name, own, now) for name, own in sorted(_by_feature(steps).items()))
    together: Counter[str] = Counter()
    for each in features:
        together.update(each.seconds)
    return Times(
        statuses={status: round(together[status], 1) for status in Status if status in together},
        features=features,
        gates=tuple(_gate_times(runs)),
        days=_days(steps),
    )


def _by_feature(steps: Iterable[StatusStep]) -> dict[FeatureId, list[StatusStep]]:
    found: dict[FeatureId, list[StatusStep]] = {}
    for step in steps:
        found.setdefault(step.feature_id, []).append(step)
    return found


def _feature_times(name: FeatureId, steps: Sequence[StatusStep], now: datetime) -> FeatureTimes:
    spent: dict[str, float] = {}
    moments = [*(datetime.fromisoformat(step.at) for step in steps), now]
    for step, begin, end in zip(steps, moments, moments[1:], strict=False):
        if step.status is not None and step.status not in TERMINAL:
            spent[step.status] = round(spent.get(step.status, 0.0) + max(0.0, (end - begin).total_seconds()), 1)
    return FeatureTimes(feature_id=name, seconds=spent, total=round(sum(spent.values()), 1))


def _gate_times(runs: Sequence[GateRun]) -> Iterable[GateTimes]:
    for mode in sorted({run.mode for run in runs}):
        own = [run for run in runs if run.mode == mode]
        yield _durations(mode, "", [(_seconds(run), run.verdict is Verdict.PASS) for run in own])
        steps = [step for run in own for step in run.steps]
        for name in dict.fromkeys(step.name for step in steps):
            ended = [(step.seconds, step.outcome == "passed") for step in steps if step.name == name]
            yield _durations(mode, name, ended)


def _seconds(run: GateRun) -> float:
    return (datetime.fromisoformat(run.finished_at) - datetime.fromisoformat(run.started_at)).total_seconds()


def _durations(mode: str, step: str, ended: Sequence[tuple[float, bool]]) -> GateTimes:
    seconds = [each for each, _ in ended]
    return GateTimes(
        mode=mode,
        step=step,
        runs=len(ended),
        failed=sum(not passed for _, passed in ended),
        median_seconds=round(median(seconds), 2),
        longest_seconds=round(max(seconds), 2),
        total_seconds=round(sum(seconds), 2),
    )


def _days(steps: Sequence[StatusStep]) -> tuple[DayCount, ...]:
    begun = Counter(each.at[:10] for each in _by_first(steps))
    merged = Counter(each.at[:10] for each in steps if each.status is Status.MERGED)
    days = sorted({*begun, *merged})
    so_far = zip(accumulate(begun[day] for day in days), accumulate(merged[day] for day in days), strict=True)
    return tuple(DayCount(day=day, begun=one, merged=two) for day, (one, two) in zip(days, so_far, strict=True))


def _by_first(steps: Sequence[StatusStep]) -> Iterable[StatusStep]:
    first: dict[FeatureId, StatusStep] = {}
    for step in steps:
        first.setdefault(step.feature_id, step)
    return first.values()


TOOLS = (
    Tool(
        name="report.times",
        summary="Sum up how long features were in each status and how long gates took, and count features by day.",
        arguments=Arguments,
        output=Times,
        roles=COORDINATORS,
        run=times,
    ),
)
