"""Tool `repo.take_edits`: a person's edits in a worktree, judged as any patch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Struct

from aop.core.errors import (
    AreaNotAllowed,
    EditsChanged,
    InvalidPatch,
    NothingToTake,
    PlanRequired,
    ProtectedPath,
    UnplannedFile,
    WorktreeBusy,
)
from aop.core.structs import copy_fields
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.features.lifecycle import back_to_building, require_status
from aop.kernel.features.tree.tree_history import TAKEN
from aop.kernel.features.trees import ChangedFile, changed_files
from aop.kernel.features.work_requests import request_work
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, feature_named
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.patches.checks import judge_plan
from aop.kernel.patches.proposals import PatchTarget, judged_patch, store_patch, target_of, warnings_of
from aop.kernel.plans.checks import bounds_of
from aop.kernel.plans.waiting_queue import release_for_status
from aop.kernel.ports.git import TreeChange
from aop.kernel.record.documents.features import Status
from aop.kernel.record.port import Transaction

EDITED = partial(back_to_building, reason="A person edited it.")


class TakeEditsArguments(ChangeArguments, frozen=True, kw_only=True):
    dry_run: bool = True
    """Only judge the edits and show them."""
    tree: str | None = None
    """The tree that a dry run showed; if the files have changed since, nothing is taken."""


class TakenEdits(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    tree: str
    """The tree with the edits."""
    before: str
    """The tree without them."""
    taken: bool
    """False for a dry run."""
    changed_files: tuple[ChangedFile, ...]
    """The files that the edits change."""
    diff_stat: str
    """The same, as `git diff --stat` shows it."""
    warnings: tuple[str, ...]
    """Points to check, although the edits are allowed."""


def take_edits(call: Call, arguments: TakeEditsArguments) -> Outcome:
    """Judge a person's edits in the worktree as a patch, and make them the feature's tree."""
    kernel = call.kernel
    with held_worktree(kernel, arguments.feature_id):
        target = target_of(kernel, arguments)
        _refuse_untimely(kernel, target)
        edits = _edits(kernel, target, arguments)
        patch = judged_patch(kernel, target, edits, kernel.config(), by_person=True)
        if not arguments.dry_run:
            kernel.send_work(patch.after)

        def decide(tx: Transaction) -> Outcome:
            if not arguments.dry_run:
                stored = store_patch(tx, call, arguments, patch, EDITED)
                trees = {"tree": stored.tree, "before": target.state.tree}
                tx.append(call.event(TAKEN, stored.feature_id, **trees, files=len(patch.proposal.changes)))
                release_for_status(tx, call, stored)
                request_work(tx, call, stored.feature_id, again=True)
            stat = kernel.git.objects.diff_stat(target.state.tree, patch.proposal.tree)
            return copy_fields(
                TakenEdits,
                feature_named(tx, arguments.feature_id),
                tree=patch.proposal.tree,
                before=target.state.tree,
                taken=not arguments.dry_run,
                changed_files=changed_files(patch.proposal.changes),
                diff_stat=kernel.redact.mask_secrets(stat),
                warnings=warnings_of(kernel, patch),
            )

        return call.commit(decide)


def _refuse_untimely(kernel: Kernel, target: PatchTarget) -> None:
    state = target.state
    if target.accepted is None:
        raise PlanRequired(f"The feature `{state.feature_id}` has no accepted plan.", feature_id=state.feature_id)
    require_status(state, Status.BUILDING, Status.QA, Status.READY_TO_MERGE, Status.BLOCKED, to="take edits")
    # Raises where a blocked feature may not continue.
    EDITED(state)
    with kernel.record.read() as view:
        is_behind = any(each.kind == "worktree" and each.key == state.feature_id for each in view.unshown())
    if is_behind:
        raise WorktreeBusy(f"The worktree of `{state.feature_id}` does not show its newest tree yet.")


def _edits(kernel: Kernel, target: PatchTarget, arguments: TakeEditsArguments) -> bytes:
    """Return the edits of the worktree as a patch. Raises: NothingToTake, EditsChanged, and as a patch is judged."""
    state, objects = target.state, kernel.git.objects
    tree = kernel.git.worktrees.edited_tree(state.feature_id, state.tree)
    if tree == state.tree:
        raise NothingToTake(f"The worktree of `{state.feature_id}` holds no edits.", worktree=state.worktree_path)
    if arguments.tree not in (None, tree):
        raise EditsChanged(f"The edits in the worktree of `{state.feature_id}` changed since they were shown.")
    changes = objects.changes(state.tree, tree)
    _refuse_forbidden(kernel, target, changes)
    diff = objects.diff(state.tree, tree, binary=True)
    _refuse_too_large(kernel, changes, len(diff))
    return diff


def _refuse_too_large(kernel: Kernel, changes: Sequence[TreeChange], size: int) -> None:
    """Refuse edits that no patch can carry, and name their largest file. Raises: InvalidPatch."""
    most, objects = kernel.config().policy.patch_policy.max_patch_bytes, kernel.git.objects
    if size <= most:
        return
    sizes = {change.path: objects.blob_size(change.new.oid) for change in changes if change.new is not None}
    largest = max(sizes, key=lambda path: sizes[path], default="")
    raise InvalidPatch(
        f"The edits are a patch of {size} bytes, and one has at most {most} (`patch_policy.max_patch_bytes`). The"
        f" largest file is {_names(kernel, [largest])}. The edits are still in the worktree.",
        hint="Take this file back, or raise the limit in policy.yaml.",
        path=largest,
        reason="too_large",
    )


def _refuse_forbidden(kernel: Kernel, target: PatchTarget, changes: Sequence[TreeChange]) -> None:
    """Refuse edits with all guarded and all unplanned paths named. Raises: ProtectedPath, UnplannedFile."""
    policy = kernel.config().policy
    territory = guarded_areas_of(policy, target.opened)
    guarded = [change.path for change in changes if territory.guard_of(change.path)]
    if guarded:
        raise ProtectedPath(
            f"No feature may change {_names(kernel, guarded)}. The edits are still in the worktree.",
            hint="Take these edits back; the others can be taken then.",
            paths=guarded,
        )
    unplanned = [change.path for change in changes if not _is_planned(target, change, kernel)]
    if unplanned:
        raise UnplannedFile(
            f"The plan does not name {_names(kernel, unplanned)}. The edits are still in the worktree.",
            hint="Take these edits back, or have the files planned: ask for them with `feature.request_changes`.",
            paths=unplanned,
        )


def _is_planned(target: PatchTarget, change: TreeChange, kernel: Kernel) -> bool:
    if target.accepted is None:
        return True
    policy = kernel.config().policy
    entry = kernel.git.objects.entry(target.base_tree, change.path)
    rules, bounds = policy.patch_policy, bounds_of(target.accepted.plan, policy)
    # Judged against the base: a file that the feature created counts as created.
    against_base = msgspec.structs.replace(change, old=entry)
    if against_base.old is None and against_base.new is None:
        return True
    try:
        judge_plan((against_base,), bounds, areas=rules.enforce_allowed_areas, files=rules.enforce_plan)
    except (AreaNotAllowed, UnplannedFile):
        return False
    return True


def _names(kernel: Kernel, paths: Sequence[str]) -> str:
    return " and ".join(f"`{kernel.redact.mask_secrets(path)}`" for path in paths)


TOOLS = (
    Tool(
        name="repo.take_edits",
        summary="Take a person's edits in the feature's worktree as a patch, if every changed path is allowed.",
        arguments=TakeEditsArguments,
        output=TakenEdits,
        roles=COORDINATORS,
        run=take_edits,
        mutates=True,
        person_only=True,
    ),
)
