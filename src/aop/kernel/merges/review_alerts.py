"""Review alerts: guarded files and lowered coverage, which people see first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.config.policy import Policy
from aop.kernel.features.opened_paths import YES, PathAnswer
from aop.kernel.features.trees import ChangedFile
from aop.kernel.gates.guards.command_files import CommandGuard
from aop.kernel.gates.reports.coverage import Figure
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.port import Snapshot


class GuardedChange(Struct, frozen=True, kw_only=True):
    """A changed file that policy guards, that steers tests, git or worktrees, or that a gate runs."""

    path: str
    why: str
    """Why it is guarded, as the end of a sentence."""
    opened_by: str
    """The person who opened it for this feature; empty if nobody had to."""


class LoweredCoverage(Struct, frozen=True, kw_only=True):
    """Coverage that is lower than on the base."""

    name: str
    """Of lines, or of branches."""
    now: str
    """The measured coverage, in percent."""
    before: str
    """That of the base, as it was measured when that was merged."""


def guarded_changes(
    changes: tuple[ChangedFile, ...], answers: tuple[PathAnswer, ...], policy: Policy, commands: CommandGuard
) -> tuple[GuardedChange, ...]:
    """Return the changed files that are guarded unless a person or the policy says otherwise."""
    # What the policy permits by name is shown all the same.
    areas = msgspec.structs.replace(guarded_areas_of(policy), permitted=())
    opened = {each.path: each.answered_by for each in answers if each.answer == YES}
    found = []
    for each in changes:
        settings = "some of its settings steer the tests" if areas.holds_test_settings(each.path) else None
        why = areas.guard_of(each.path) or settings or commands.guard_of(each.path)
        if why is not None:
            found.append(GuardedChange(path=each.path, why=why, opened_by=opened.get(each.path, "")))
    return tuple(found)


def lowered_coverage(
    view: Snapshot, state: FeatureState, coverage: Mapping[str, Any], policy: Policy
) -> tuple[LoweredCoverage, ...]:
    """Return the figures of a run that are lower than those of the base."""
    found = _lowered(coverage, _coverage_of_base(view, state, policy) if coverage else {})
    return tuple(sorted(found, key=lambda each: each.name))


def _lowered(coverage: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[LoweredCoverage]:
    for name in coverage.keys() & base.keys():
        now, before = msgspec.convert(coverage[name], Figure), msgspec.convert(base[name], Figure)
        if before.total and _ratio(now) < _ratio(before):
            yield LoweredCoverage(name=name, now=now.percent or "0", before=before.percent or "0")


def _coverage_of_base(view: Snapshot, state: FeatureState, policy: Policy) -> Mapping[str, Any]:
    """Return the coverage that the merge of the feature's base commit measured; nothing if AOP did not merge it."""
    for other in view.all(FeatureState):
        merge = other.evidence.merge
        if merge is not None and merge.merge_commit == state.base_commit:
            run = view.get(GateRun, other.evidence.latest_by_mode.get(policy.required_merge_mode, ""))
            return {} if run is None else run.coverage
    return {}


def _ratio(figure: Figure) -> float:
    return figure.covered / figure.total if figure.total else 0.0
