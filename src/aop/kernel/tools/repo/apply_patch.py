"""Tool `repo.apply_patch`: judges the tree that a patch makes, not its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import PlanRequired, VersionConflict
from aop.core.structs import copy_fields
from aop.kernel.config.in_force import Config
from aop.kernel.features.change_requests import close_requests
from aop.kernel.features.lifecycle import change_status, require_status, store_feature
from aop.kernel.features.opened_paths import opened_paths
from aop.kernel.features.trees import ChangedFile, changed_files
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gates.qa_index import renew_index
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import PATCHERS
from aop.kernel.locks.leases import read_clock
from aop.kernel.patches.checks import is_thin, porcelain, removed_secrets
from aop.kernel.patches.parser import Patch
from aop.kernel.patches.proposals import PatchedTree, PatchTarget, judge_proposal, proposal_for
from aop.kernel.plans.checks import bounds_of
from aop.kernel.plans.needed_locks import check_unbroken, locks_for_paths, locks_for_plan, with_fences
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Transaction


class ApplyPatchArguments(ChangeArguments, frozen=True, kw_only=True):
    unified_diff: Annotated[str, Meta(min_length=1)]


class ApplyPatchResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    tree: str
    status: str
    """`git status --porcelain` of the whole feature against the commit that it was cut from."""
    changed_files: tuple[ChangedFile, ...]
    """The files that this patch changed."""
    warnings: tuple[str, ...]


def apply_patch(call: Call, arguments: ApplyPatchArguments) -> Outcome:
    """Apply a patch to the feature, if policy and plan allow every path of the resulting tree."""
    kernel = call.kernel
    with held_worktree(kernel, arguments.feature_id):
        target = target_of(kernel, arguments)
        _refuse_untimely(target, kernel.config())
        patch = judged_patch(kernel, target, arguments.unified_diff)

        def decide(tx: Transaction) -> Outcome:
            stored = store_patch(tx, call, arguments, patch, lambda state: state)
            trees = {"tree": stored.tree, "before": target.state.tree}
            tx.append(call.event("patch_applied", stored.feature_id, **trees, files=len(patch.proposal.changes)))
            return copy_fields(
                ApplyPatchResult,
                stored,
                status=porcelain(patch.proposal.whole),
                changed_files=changed_files(patch.proposal.changes),
                warnings=warnings_of(kernel, patch),
            )

        return call.commit(decide)


class JudgedPatch(Struct, frozen=True, kw_only=True):
    """A patch that policy and plan allow, with what storing it needs."""

    target: PatchTarget
    proposal: PatchedTree
    locks: tuple[str, ...]
    whole_diff: bytes


def judged_patch(kernel: Kernel, target: PatchTarget, text: str) -> JudgedPatch:
    """Write the tree that a patch makes, and judge it; each rule has its refusal."""
    config = kernel.config()
    proposal = proposal_for(kernel, target, text, config)
    judge_proposal(kernel, target, proposal, config)
    needed = _needed_locks(target, proposal, config)
    with kernel.record.read() as view:
        check_unbroken(view, target.state, needed, read_clock(kernel.clock))
    whole_diff = kernel.git.objects.diff(target.base_tree, proposal.tree, context_lines=0)
    return JudgedPatch(target=target, proposal=proposal, locks=needed, whole_diff=whole_diff)


def store_patch(
    tx: Transaction,
    call: Call,
    arguments: ChangeArguments,
    patch: JudgedPatch,
    with_new_status: Callable[[FeatureState], FeatureState],
) -> FeatureState:
    """Store a judged patch as the feature's tree, unless the feature changed since. Raises: VersionConflict."""
    kernel, target = call.kernel, patch.target
    state = the_feature(tx, arguments)
    _refuse_changed_target(tx, target, state)
    fenced = with_fences(state, check_unbroken(tx, state, patch.locks, read_clock(kernel.clock)))
    gates = reset_verdicts(state.gates)
    after = with_new_status(msgspec.structs.replace(fenced, tree=patch.proposal.tree, gates=gates, set_aside=None))
    if after.status is state.status:
        stored = store_feature(tx, state, after, now=kernel.now())
    else:
        stored = change_status(tx, call, state, after)
    renew_index(tx, stored, patch.whole_diff, target.accepted.plan if target.accepted else None, kernel.config())
    tx.mark_unshown("worktree", stored.feature_id)
    close_requests(tx, call, stored.feature_id, "changes")
    return stored


def warnings_of(kernel: Kernel, patch: JudgedPatch) -> tuple[str, ...]:
    """Return the points that a person should check, although the patch was accepted."""
    text = patch.proposal.patch
    return (*_thin_changes(text), *removed_secrets(text, kernel.redact))


def target_of(kernel: Kernel, arguments: ChangeArguments) -> PatchTarget:
    """Return the feature that a patch is for, as it is now. Raises: UnknownFeature, VersionConflict."""
    with kernel.record.read() as view:
        state = the_feature(view, arguments)
        return PatchTarget(
            state=state,
            accepted=view.get(AcceptedPlan, state.feature_id),
            base_tree=kernel.git.objects.tree_of(state.base_commit),
            opened=opened_paths(view, state.feature_id),
        )


def _refuse_untimely(target: PatchTarget, config: Config) -> None:
    state = target.state
    if target.accepted is None and config.policy.patch_policy.enforce_plan:
        raise PlanRequired(f"The feature `{state.feature_id}` has no accepted plan.", feature_id=state.feature_id)
    unplanned = (Status.PLANNING,) if target.accepted is None else ()
    require_status(state, *unplanned, Status.BUILDING, Status.QA, to="be patched")


def _needed_locks(target: PatchTarget, proposal: PatchedTree, config: Config) -> tuple[str, ...]:
    needed = locks_for_paths([change.path for change in proposal.changes], config.policy)
    if target.accepted is None:
        return needed
    plan = target.accepted.plan
    return (*needed, *locks_for_plan(plan, bounds_of(plan, config.policy), config.policy))


def _refuse_changed_target(tx: Transaction, target: PatchTarget, state: FeatureState) -> None:
    """Refuse a patch if tree, status or plan changed since it was judged; locks may change. Raises: VersionConflict."""
    judged = (target.state.tree, target.state.status, target.accepted)
    if judged != (state.tree, state.status, tx.get(AcceptedPlan, state.feature_id)):
        raise VersionConflict(f"The feature `{state.feature_id}`", expected=target.state.version, current=state.version)


def _thin_changes(patch: Patch) -> tuple[str, ...]:
    """Return a warning for each file in which only white space or comments change."""
    return tuple(f"`{file.new_path}` changes only white space or comments." for file in patch.files if is_thin(file))


TOOLS = (
    Tool(
        name="repo.apply_patch",
        summary="Apply a unified diff to the feature, if every path that it changes is allowed.",
        arguments=ApplyPatchArguments,
        output=ApplyPatchResult,
        roles=PATCHERS,
        run=apply_patch,
        mutates=True,
    ),
)
