"""Merge of one approved tree: prepared and proven aside, then one ref moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

import msgspec
from msgspec import Struct

from aop.core.errors import (
    ApprovalInvalid,
    BaseBranchUnusable,
    BaseMoved,
    EvidenceStale,
    MergeConflict,
    MergeNever,
    NothingToMerge,
    ProtectedPath,
    SecretDetected,
    StrategyNotAllowed,
    UnknownGateProfileOrMode,
    UserApprovalRequired,
)
from aop.core.ids import ApprovalId, CommitId, TreeId
from aop.core.redaction.redactor import Redactor
from aop.core.text.counts import count
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.config.policy import MergeStrategy
from aop.kernel.features.lifecycle import require_status
from aop.kernel.gates.base.base_tests import with_base_tests
from aop.kernel.gates.base.baselines import tests_on_base
from aop.kernel.gates.execution.gate_plans import GatePlan
from aop.kernel.gates.gate_runs import (
    execute_gates,
    plan_gates,
    refuse_escaped_profile,
    subjects_by_mode,
)
from aop.kernel.gates.reports.test_comparison import TestNames
from aop.kernel.gates.steps import missing_proof
from aop.kernel.gateway.calls import Call, Kernel
from aop.kernel.locks.leases import read_clock
from aop.kernel.merges.approval_signatures import check_signature
from aop.kernel.merges.approval_tokens import read_approval_token
from aop.kernel.merges.branch_moves import BranchMove, move_branch, own_head
from aop.kernel.merges.conflicts import conflict_facts
from aop.kernel.plans.checks import bounds_of
from aop.kernel.plans.needed_locks import check_unbroken, locks_for_paths, locks_for_plan
from aop.kernel.ports.git import ConflictedPaths, FileMode, GitObjects, Proposal
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import GateRun, Subject
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.port import Snapshot

LONGEST_MESSAGE = 10_000
FORGED_TRAILER = re.compile(r"\s*((signed-off|co-authored|reviewed|acked|tested)-by|aop-[a-z]+)\s*:", re.IGNORECASE)


class PreparedMerge(Struct, frozen=True, kw_only=True):
    """A merge that exists as git objects; no branch has moved yet."""

    feature_commit: CommitId
    merge_commit: CommitId
    base_branch: str
    base: CommitId
    strategy: MergeStrategy
    approval_id: ApprovalId | None


class MergeReadiness(Struct, frozen=True, kw_only=True):
    """A feature that may be merged as it is now."""

    state: FeatureState
    plan: Plan | None
    base: CommitId
    approval: Approval | None
    locks: tuple[str, ...]
    """The locks that it must still hold when the branch moves."""


def proven_runs(view: Snapshot, state: FeatureState, config: Config) -> dict[str, GateRun]:
    """Return the passed, current runs of every required mode. Raises: EvidenceStale."""
    accepted = view.get(AcceptedPlan, state.feature_id)
    subjects = subjects_by_mode(state, accepted.plan if accepted else None, config)
    runs: dict[str, GateRun | None] = {
        mode: view.get(GateRun, state.evidence.latest_by_mode[mode]) if mode in state.evidence.latest_by_mode else None
        for mode in config.policy.required_modes
    }
    problems = missing_proof(config.policy.required_modes, runs, subjects)
    if problems:
        raise EvidenceStale(
            f"The feature `{state.feature_id}` is not proven: {'; '.join(problems)}.", problems=problems
        )
    return {mode: run for mode, run in runs.items() if run is not None}


def base_head(kernel: Kernel, config: Config) -> CommitId:
    """Return the head of the base branch. Raises: BaseBranchUnusable."""
    branch = config.policy.worktree.base_branch
    head = kernel.git.branches.head(branch)
    if head is None:
        raise BaseBranchUnusable(f"The base branch `{branch}` has no commit.", base_branch=branch)
    return head


def refuse_merge_of_build(state: FeatureState) -> None:
    """Refuse to approve or merge a build, whatever its gates and the policy say (C-01). Raises: MergeNever."""
    if state.is_build:
        raise MergeNever(
            f"`{state.feature_id}` is a build, and a build is never merged by AOP.",
            feature_id=state.feature_id,
            branch=state.branch,
        )


def refuse_empty(kernel: Kernel, state: FeatureState) -> None:
    """Refuse a feature that changes nothing: passed gates prove nothing about its plan then. Raises: NothingToMerge."""
    if state.tree == kernel.git.objects.tree_of(state.base_commit):
        raise NothingToMerge(f"The feature `{state.feature_id}` changes no file.", feature_id=state.feature_id)


def check_approvable(kernel: Kernel, view: Snapshot, state: FeatureState) -> tuple[dict[str, GateRun], CommitId]:
    """Check everything that an approval needs; return the proving runs and the head of the base branch."""
    config = kernel.config()
    require_status(state, Status.READY_TO_MERGE, to="be approved")
    refuse_empty(kernel, state)
    return proven_runs(view, state, config), base_head(kernel, config)


def check_ready(
    kernel: Kernel, view: Snapshot, state: FeatureState, token: str | None, strategy: MergeStrategy
) -> MergeReadiness:
    """Check everything that a merge needs, before anything is written; each check has its refusal."""
    config = kernel.config()
    require_status(state, Status.READY_TO_MERGE, to="be merged")
    refuse_empty(kernel, state)
    if strategy not in config.policy.merge_policy.allowed_strategies:
        allowed = list(config.policy.merge_policy.allowed_strategies)
        raise StrategyNotAllowed(f"The policy does not allow the strategy `{strategy}`.", allowed=allowed)
    accepted = view.get(AcceptedPlan, state.feature_id)
    locks = check_locks(kernel, view, state)
    proven_runs(view, state, config)
    base = base_head(kernel, config)
    approval = _approval_for(kernel, view, state, token)
    if approval is not None:
        _refuse_void(approval, state, config, base=base)
        check_signature(kernel, approval)
    return MergeReadiness(
        state=state, plan=accepted.plan if accepted else None, base=base, approval=approval, locks=locks
    )


def check_locks(kernel: Kernel, view: Snapshot, state: FeatureState) -> tuple[str, ...]:
    """Return the locks that a merge needs (AOP-224), or refuse. Raises: LockNotHeld, StaleLockReclaimed."""
    policy, accepted = kernel.config().policy, view.get(AcceptedPlan, state.feature_id)
    changes = kernel.git.objects.changes(kernel.git.objects.tree_of(state.base_commit), state.tree)
    needed = {*locks_for_paths([change.path for change in changes], policy)}
    if accepted is not None:
        needed.update(locks_for_plan(accepted.plan, bounds_of(accepted.plan, policy), policy))
    return tuple(check_unbroken(view, state, needed, read_clock(kernel.clock)))


def _approval_for(kernel: Kernel, view: Snapshot, state: FeatureState, token: str | None) -> Approval | None:
    if not token:
        if kernel.config().policy.merge_policy.require_user_approval:
            raise UserApprovalRequired(
                f"The approval token for `{state.feature_id}` is missing.", feature_id=state.feature_id
            )
        return None
    try:
        claims = read_approval_token(token, kernel.signer)
    except ApprovalInvalid as invalid:
        invalid.facts["feature_id"] = state.feature_id
        raise
    approval = view.get(Approval, claims.approval_id)
    if approval is None or approval.feature_id != state.feature_id:
        raise ApprovalInvalid(
            f"The approval is not for `{state.feature_id}` in this repository.", feature_id=state.feature_id
        )
    return approval


def unapproved_features(kernel: Kernel, view: Snapshot) -> Iterator[FeatureState]:
    """Yield the features that are ready to merge but have no valid approval."""
    config = kernel.config()
    if not config.policy.merge_policy.require_user_approval:
        return
    base = kernel.git.branches.head(config.policy.worktree.base_branch)
    ready = [state for state in view.all(FeatureState) if state.status is Status.READY_TO_MERGE]
    approvals = list(view.all(Approval)) if ready else []
    for state in ready:
        given = [each for each in approvals if each.feature_id == state.feature_id]
        if all(void_reasons(each, state, config, base=base) for each in given):
            yield state


def void_reasons(approval: Approval, state: FeatureState, config: Config, *, base: CommitId | None) -> list[str]:
    """Return why an approval is void for the feature now; empty if it is valid."""
    latest = {mode: state.evidence.latest_by_mode.get(mode) for mode in config.policy.required_modes}
    void = {
        "it was used already": approval.spent_by is not None,
        "the feature was sent back after it": bool(approval.withdrawn),
        "the feature was changed after it": approval.tree != state.tree,
        "the base branch moved after it": approval.base != base,
        "the gates ran again after it": dict(approval.gate_runs) != latest,
        "the configuration was changed after it": approval.config_hash != config.hash,
    }
    return [reason for reason, holds in void.items() if holds]


def _refuse_void(approval: Approval, state: FeatureState, config: Config, *, base: CommitId) -> None:
    reasons = void_reasons(approval, state, config, base=base)
    if reasons:
        raise ApprovalInvalid(
            f"The approval of `{state.feature_id}` is void: {', '.join(reasons)}.",
            feature_id=state.feature_id,
            reasons=list(reasons),
        )


def prepare_merge(call: Call, ready: MergeReadiness, strategy: MergeStrategy, message: str) -> PreparedMerge:
    """Write the commits of a merge; no ref points to them yet. Raises: MergeConflict, ProtectedPath, SecretDetected."""
    git, state = call.kernel.git, ready.state
    refuse_secret_message(message, call.kernel.redact)
    when = _commit_time(call.kernel, ready.approval)
    text = commit_message(message, state, ready.approval)
    feature_commit = commit_on_branch(git.objects, state)
    feature_commit = feature_commit or git.objects.commit(state.tree, [state.base_commit], text, when=when)
    merged = git.merges.merge(ready.base, Proposal(commit=feature_commit))
    if isinstance(merged, ConflictedPaths):
        raise merge_conflict(git.objects, merged, state)
    refuse_submodules(git.objects, ready.base, merged.tree)
    # A feature is one tree and so one commit: squash and rebase are the same.
    parents, merge_text = [ready.base], text
    if strategy is MergeStrategy.MERGE_COMMIT:
        heading = "" if state.title else f"Merge feature {state.feature_id}\n\n"
        parents, merge_text = [ready.base, feature_commit], f"{heading}{text}"
    return PreparedMerge(
        feature_commit=feature_commit,
        merge_commit=git.objects.commit(merged.tree, parents, merge_text, when=when),
        base_branch=call.kernel.config().policy.worktree.base_branch,
        base=ready.base,
        strategy=strategy,
        approval_id=ready.approval.approval_id if ready.approval else None,
    )


def commit_on_branch(objects: GitObjects, state: FeatureState) -> CommitId | None:
    """Return AOP's commit on the feature's branch, if it still has the feature's tree."""
    made = state.branch_commit
    return made if made is not None and objects.tree_of(made) == state.tree else None


def work_of(state: FeatureState) -> Proposal:
    """Return a feature's work as it is merged."""
    return Proposal(commit=state.base_commit, tree=state.tree)


def merge_conflict(objects: GitObjects, merged: ConflictedPaths, state: FeatureState) -> MergeConflict:
    """Return the refusal of a merge with conflicts, with the conflicts as data."""
    return MergeConflict(
        f"`{state.feature_id}` conflicts with the base branch in {count(len(merged.paths), 'file')}.",
        feature_id=state.feature_id,
        paths=list(merged.paths),
        conflicts=conflict_facts(objects, merged),
    )


def refuse_submodules(objects: GitObjects, base: CommitId, merged: TreeId) -> None:
    """Refuse a merge that changes a submodule, which no patch of a feature can do. Raises: ProtectedPath."""
    changes = objects.changes(objects.tree_of(base), merged)
    links = [
        change.path
        for change in changes
        if any(entry is not None and entry.mode is FileMode.GITLINK for entry in (change.old, change.new))
    ]
    if links:
        raise ProtectedPath(f"The merge would change the submodule `{links[0]}`.", path=links[0], paths=links)


def _commit_time(kernel: Kernel, approval: Approval | None) -> datetime:
    """Return the time of the approval, so that a repeated merge makes the same commits."""
    return kernel.clock.now() if approval is None else datetime.fromisoformat(approval.approved_at)


def refuse_secret_message(message: str, redact: Redactor) -> None:
    """Refuse a commit message that holds a secret: it would stay in the history. Raises: SecretDetected."""
    rules = sorted({finding.rule for finding in redact.secrets_in(message)})
    if rules:
        raise SecretDetected(
            f"The commit message holds what looks like a secret ({', '.join(rules)}).",
            hint="Write the message without it.",
            rules=rules,
        )


def commit_message(message: str, state: FeatureState, approval: Approval | None) -> str:
    """Return the message with AOP's trailers, and without forged ones."""
    printable = "".join(char for char in message.replace("\r\n", "\n") if char in "\n\t" or char.isprintable())
    lines = [line for line in printable[:LONGEST_MESSAGE].split("\n") if not FORGED_TRAILER.match(line)]
    body = "\n".join(lines).strip() or state.title or f"Add feature {state.feature_id}"
    trailers = [f"AOP-Feature: {state.feature_id}", f"AOP-Tree: {state.tree}"]
    if approval is not None:
        trailers.append(f"AOP-Approval: {approval.approval_id}")
        trailers += [f"AOP-Signer: {approval.signer}"] if approval.signer else []
    return f"{body}\n\n" + "\n".join(trailers) + "\n"


class MergedBaseline(Struct, frozen=True, kw_only=True):
    """The tests that ran on a merged tree, for the next feature to be compared with."""

    definition: str
    names: TestNames


def run_merge_gates(
    call: Call, ready: MergeReadiness, prepared: PreparedMerge
) -> tuple[GateRun, MergedBaseline | None]:
    """Run the merge gates on the merged tree, in a scratch checkout. Raises: UnknownGateProfileOrMode, NoGateSteps."""
    plan = _merge_gate_plan(call, ready, prepared)
    baseline = tests_on_base(call, plan)
    with call.kernel.git.worktrees.scratch(prepared.merge_commit) as checkout:
        executed = execute_gates(call, plan, checkout, baseline=baseline)
    tests = None
    if executed.names is not None:
        tests = MergedBaseline(definition=plan.own_definition, names=executed.names)
    return with_base_tests(call, plan, executed.run, baseline), tests


def _merge_gate_plan(call: Call, ready: MergeReadiness, prepared: PreparedMerge) -> GatePlan:
    config = call.kernel.config()
    mode = config.policy.required_merge_mode
    plan = None
    with suppress(*((UnknownGateProfileOrMode,) if config.policy.merge_mode_optional else ())):
        plan = plan_gates(ready.state, ready.plan, mode, config)
    if plan is None:
        # The policy allows a profile without this mode; the merged tree is then proven by the full gates.
        plan = plan_gates(ready.state, ready.plan, Mode.FULL, config)
    merged = call.kernel.git.objects.tree_of(prepared.merge_commit)
    refuse_escaped_profile(call.kernel, ready.state, config, base=prepared.base, tree=merged)
    subject = Subject(tree=merged, base_commit=prepared.base, definition=plan.subject.definition)
    return msgspec.structs.replace(plan, mode=mode, subject=subject)


def move_branches(kernel: Kernel, state: FeatureState, prepared: PreparedMerge) -> None:
    """Move the feature's branch and the base branch, or neither. Raises: FeatureBranchMoved, BaseMoved."""
    git = kernel.git
    head = own_head(kernel, state)
    move_branch(kernel, BranchMove(branch=state.branch, old=head, new=prepared.feature_commit))
    if not git.branches.move(prepared.base_branch, to=prepared.merge_commit, old=prepared.base):
        git.branches.move(state.branch, to=head, old=prepared.feature_commit)
        raise BaseMoved(
            f"The base branch `{prepared.base_branch}` moved while the merge was prepared.", expected=prepared.base
        )
