"""Tool `repo.apply_patch`: judges the tree that a patch makes, not its text."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import PlanRequired
from aop.core.structs import copy_fields
from aop.kernel.config.in_force import Config
from aop.kernel.features.lifecycle import require_status
from aop.kernel.features.trees import ChangedFile, changed_files
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool
from aop.kernel.gateway.role_sets import PATCHERS
from aop.kernel.patches.checks import porcelain
from aop.kernel.patches.proposals import PatchTarget, judged_patch, store_patch, target_of, warnings_of
from aop.kernel.record.documents.features import Status
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
        target, config = target_of(kernel, arguments), kernel.config()
        _refuse_untimely(target, config)
        patch = judged_patch(kernel, target, arguments.unified_diff, config)
        kernel.send_work(patch.after)

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


def _refuse_untimely(target: PatchTarget, config: Config) -> None:
    state = target.state
    if target.accepted is None and config.policy.patch_policy.enforce_plan:
        raise PlanRequired(f"The feature `{state.feature_id}` has no accepted plan.", feature_id=state.feature_id)
    unplanned = (Status.PLANNING,) if target.accepted is None else ()
    require_status(state, *unplanned, Status.BUILDING, Status.QA, to="be patched")


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
