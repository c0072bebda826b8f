"""Tool `report.merges`: what can be merged now, in order, and why others wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from aop.core.errors import Refusal
from aop.kernel.config.in_force import Config
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.merges.base_moves import conflict_before_merge, conflict_paths
from aop.kernel.merges.merge import base_head, check_locks, proven_runs, refuse_empty, void_reasons
from aop.kernel.merges.trial_merges import FeatureTip, TriedMerge, try_merges
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import GateRun, Verdict
from aop.kernel.record.port import Snapshot

NEWEST_MERGES = 10
MergeStanding = Literal["approved", "unapproved", "unproven", "conflict"]
_ORDER: tuple[MergeStanding, ...] = ("approved", "unapproved", "unproven", "conflict")


class MergeRow(Struct, frozen=True, kw_only=True):
    """A feature that is ready to merge."""

    feature_id: str
    tree: str
    standing: MergeStanding
    """Whether it can be merged now, or what is missing first."""
    waits: str
    """Why it cannot be merged now; empty if it can."""
    approved_by: str
    """The person of the newest approval; empty if there is none."""
    approved_at: str
    """When, in UTC."""
    paths: tuple[str, ...]
    """The files that conflict with the base branch."""
    meets: tuple[str, ...]
    """The other features of this list with which it would conflict: merged after one of them, it has to be resolved."""
    gates: Mapping[str, Verdict]
    """The verdict of each gate on its tree."""
    merge_run: str
    """The newest run of the gates on the merged tree; empty before the first attempt to merge."""
    merge_verdict: str
    """Its verdict; empty without one."""
    merge_failure: str
    """Why it did not pass; empty if it did."""
    command: str
    """The next command of a person."""


class MergedRow(Struct, frozen=True, kw_only=True):
    """A feature that was merged."""

    feature_id: str
    merge_commit: str
    """The commit that the base branch was moved to."""
    merged_at: str
    """When, in UTC."""
    gates: Mapping[str, Verdict]
    """The verdicts at the merge; `merge` is that of the merged tree."""


class MergeOrder(Struct, frozen=True, kw_only=True):
    base_branch: str
    base: str
    """The head of the base branch, on which each was judged."""
    rows: tuple[MergeRow, ...]
    """The order: first what is approved, by the time of its approval; then what waits longest."""
    merged: tuple[MergedRow, ...]
    """The features that were merged last, the newest first."""


def merges(call: Call, _arguments: Arguments) -> Outcome:
    """Judge every ready feature on the base branch as it is now. Raises: BaseBranchUnusable."""
    kernel, config = call.kernel, call.kernel.config()
    with kernel.record.read() as view:
        states = [state for state in view.all(FeatureState) if call.principal.reaches(state.feature_id)]
        ready = [state for state in states if state.status is Status.READY_TO_MERGE]
        approvals = list(view.all(Approval)) if ready else []
        meets = _meetings(kernel, view, ready)
        rows = [_row(kernel, view, state, approvals, meets[state.feature_id]) for state in ready]
    since = {str(state.feature_id): state.last_updated for state in ready}
    rows.sort(key=lambda row: _place(row, since[row.feature_id]))
    return MergeOrder(
        base_branch=config.policy.worktree.base_branch,
        base=base_head(kernel, config),
        rows=tuple(rows),
        merged=_newest_merges(states),
    )


def _place(row: MergeRow, since: str) -> tuple[int, bool, str, str]:
    """Sort by standing; one that a person approved before the base branch moved keeps its place before the others."""
    return _ORDER.index(row.standing), not row.approved_at, row.approved_at or since, row.feature_id


def _row(
    kernel: Kernel, view: Snapshot, state: FeatureState, approvals: Sequence[Approval], meets: tuple[str, ...]
) -> MergeRow:
    config = kernel.config()
    given = max(
        (each for each in approvals if each.feature_id == state.feature_id),
        key=lambda each: (each.approved_at, each.approval_id),
        default=None,
    )
    conflict = conflict_before_merge(kernel, state)
    standing, waits = _standing(kernel, view, state, given)
    if conflict is not None:
        standing, waits = "conflict", conflict.message
    run_id = state.evidence.latest_by_mode.get(config.policy.required_merge_mode)
    run = view.get(GateRun, run_id) if run_id else None
    resolve = f"aop rebase {state.feature_id} --resolve"
    return MergeRow(
        feature_id=state.feature_id,
        tree=state.tree,
        standing=standing,
        waits=waits,
        approved_by=given.approved_by if given else "",
        approved_at=given.approved_at if given else "",
        paths=conflict_paths(conflict),
        meets=meets,
        gates=state.gates,
        merge_run=run.run_id if run else "",
        merge_verdict=run.verdict if run else "",
        merge_failure=run.failure if run else "",
        command=resolve if standing == "conflict" else f"aop merge {state.feature_id}",
    )


def _standing(kernel: Kernel, view: Snapshot, state: FeatureState, given: Approval | None) -> tuple[MergeStanding, str]:
    config = kernel.config()
    try:
        refuse_empty(kernel, state)
        check_locks(kernel, view, state)
        proven_runs(view, state, config)
    except Refusal as refusal:
        return "unproven", refusal.message
    return _approval_standing(kernel, state, given, config)


def _approval_standing(
    kernel: Kernel, state: FeatureState, given: Approval | None, config: Config
) -> tuple[MergeStanding, str]:
    if not config.policy.merge_policy.require_user_approval:
        return "approved", ""
    if given is None:
        return "unapproved", "Nobody has approved it yet."
    void = void_reasons(given, state, config, base=base_head(kernel, config))
    return ("unapproved", f"Approve it again: {', and '.join(void)}.") if void else ("approved", "")


def _meetings(kernel: Kernel, view: Snapshot, ready: Sequence[FeatureState]) -> dict[str, tuple[str, ...]]:
    """Return for each ready feature the others with which it would conflict."""
    found: dict[str, set[str]] = {state.feature_id: set() for state in ready}
    tips = [FeatureTip(feature_id=state.feature_id, base=state.base_commit, tree=state.tree) for state in ready]
    known = {tried.between: tried for tried in view.all(TriedMerge)}
    for question, _ in try_merges(kernel.git, tips, base_head(kernel, kernel.config()), known).conflicts:
        if question.ours is not None:
            found[question.ours.feature_id].add(question.theirs.feature_id)
            found[question.theirs.feature_id].add(question.ours.feature_id)
    return {name: tuple(sorted(others)) for name, others in found.items()}


def _newest_merges(states: Sequence[FeatureState]) -> tuple[MergedRow, ...]:
    merged = [(state, state.evidence.merge) for state in states if state.evidence.merge is not None]
    merged.sort(key=lambda each: (each[0].last_updated, each[0].feature_id), reverse=True)
    return tuple(
        MergedRow(
            feature_id=state.feature_id,
            merge_commit=proof.merge_commit,
            merged_at=state.last_updated,
            gates=proof.gates,
        )
        for state, proof in merged[:NEWEST_MERGES]
    )


TOOLS = (
    Tool(
        name="report.merges",
        summary="List the features that are ready to merge, in order, judged on the base branch as it is now.",
        arguments=Arguments,
        output=MergeOrder,
        roles=READERS,
        run=merges,
    ),
)
