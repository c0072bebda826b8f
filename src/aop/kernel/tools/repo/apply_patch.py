"""`repo.apply_patch`: judge the tree that a patch makes, not its text, and move the feature to that tree."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import PlanRequired, VersionConflict
from aop.core.ids import TreeId
from aop.kernel.config.guarded_areas import territory_of
from aop.kernel.config.in_force import Config
from aop.kernel.features.lifecycle import must_be, store
from aop.kernel.features.opened_paths import opened_paths
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gates.qa_index import next_index, required_steps
from aop.kernel.gates.steps import unproven
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import PATCHERS
from aop.kernel.locks.leases import now_by
from aop.kernel.patches.apply import applied
from aop.kernel.patches.checks import (
    is_thin,
    judge_bytes,
    judge_link,
    judge_plan,
    judge_territory,
    judge_tree_change,
    must_agree,
    porcelain,
    refuse_case_twins,
    refuse_nested_repositories,
    refuse_secrets,
    removed_secrets,
    rules_of,
)
from aop.kernel.patches.parser import Patch, parse_patch
from aop.kernel.plans.checks import bounds_of
from aop.kernel.plans.needed_locks import check_unbroken, locks_for_paths, locks_for_plan, relying_on
from aop.kernel.ports.git import FileMode, TreeChange
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.port import Transaction
from aop.kernel.tools.repo.read import ChangedFile, changed_files


class ApplyPatch(ChangeArguments, frozen=True, kw_only=True):
    unified_diff: Annotated[str, Meta(min_length=1)]


class AppliedPatch(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    tree: str
    status: str
    """`git status --porcelain` of the whole feature against the commit that it was cut from."""
    changed_files: tuple[ChangedFile, ...]
    """What this patch changed."""
    warnings: tuple[str, ...]


class PatchTarget(Struct, frozen=True, kw_only=True):
    """The feature that a patch is for, as it is now."""

    state: FeatureState
    accepted: AcceptedPlan | None
    base_tree: TreeId
    opened: frozenset[str] = frozenset()
    """The guarded paths that a person opened for it."""


class PatchedTree(Struct, frozen=True, kw_only=True):
    """A patch, and the tree that it makes of the feature."""

    patch: Patch
    tree: TreeId
    changes: tuple[TreeChange, ...]
    """Against the feature's tree before."""
    whole: tuple[TreeChange, ...]
    """Against the commit that the feature was cut from."""


def apply_patch(call: Call, arguments: ApplyPatch) -> Outcome:
    """Move the feature to the tree that the patch makes, if policy and plan allow every path of it."""
    kernel, config = call.kernel, call.kernel.config()
    with held_worktree(kernel, arguments.feature_id):
        target = _target(kernel, arguments)
        _refuse_untimely(target, config)
        proposal = proposal_for(kernel, target, arguments.unified_diff, config)
        judge_proposal(kernel, target, proposal, config)
        needed = _needed_locks(target, proposal, config)
        with kernel.record.read() as view:
            check_unbroken(view, target.state, needed, now_by(kernel.clock))
        whole_diff = kernel.git.objects.diff(target.base_tree, proposal.tree, context_lines=0)
        tests = required_steps(target.state, target.accepted.plan if target.accepted else None, config)

        def decide(tx: Transaction) -> Outcome:
            state = the_feature(tx, arguments)
            _refuse_overtaken(tx, target, state)
            fenced = relying_on(state, check_unbroken(tx, state, needed, now_by(kernel.clock)))
            after = msgspec.structs.replace(fenced, tree=proposal.tree, gates=unproven(state.gates))
            stored = store(tx, state, after, now=kernel.now())
            # Read here: QA may have marked what it found since the patch came.
            known = tx.get(QaIndex, stored.feature_id)
            tx.put(next_index(known, stored, whole_diff, steps=tests), stored.feature_id)
            tx.mark_unshown("worktree", stored.feature_id)
            tx.append(
                call.event(
                    "patch_applied",
                    stored.feature_id,
                    tree=proposal.tree,
                    before=target.state.tree,
                    files=len(proposal.changes),
                )
            )
            return AppliedPatch(
                feature_id=stored.feature_id,
                version=stored.version,
                tree=proposal.tree,
                status=porcelain(proposal.whole),
                changed_files=changed_files(proposal.changes),
                warnings=(*_thin_changes(proposal.patch), *removed_secrets(proposal.patch, kernel.redact)),
            )

        return call.commit(decide)


def _target(kernel: Kernel, arguments: ApplyPatch) -> PatchTarget:
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
    must_be(state, *unplanned, Status.BUILDING, Status.QA, to="be patched")


def proposal_for(kernel: Kernel, target: PatchTarget, text: str, config: Config) -> PatchedTree:
    """Return the tree that a patch would make of a feature.

    Raises: a refusal of the patch, of a secret in it, or of a guarded path.
    """
    git, rules = kernel.git, config.policy.patch_policy
    patch = parse_patch(text.encode(), rules_of(rules))
    refuse_secrets(patch, kernel.redact)
    # Before any file is read: a refusal that shows the nearest lines must not show those of a guarded file.
    named = sorted(path for file in patch.files for path in file.paths)
    judge_territory(named, territory_of(config.policy, target.opened))
    tree = applied(git.objects, target.state.tree, patch, rules.placement)
    return PatchedTree(
        patch=patch,
        tree=tree,
        changes=git.objects.changes(target.state.tree, tree),
        whole=git.objects.changes(target.base_tree, tree),
    )


def judge_proposal(kernel: Kernel, target: PatchTarget, proposal: PatchedTree, config: Config) -> None:
    """Refuse a tree that policy or plan do not allow."""
    rules, territory = config.policy.patch_policy, territory_of(config.policy, target.opened)
    names_in = cache(lambda folder: kernel.git.objects.names(proposal.tree, folder))
    must_agree(proposal.patch, proposal.changes)
    judge_tree_change(proposal.changes, rules)
    refuse_case_twins(proposal.changes, names_in)
    refuse_nested_repositories(proposal.changes, names_in, territory)
    judge_territory([change.path for change in proposal.changes], territory)
    _judge_what_is_no_text(kernel, proposal, config)
    if target.accepted is None:
        return
    touched = {change.path for change in proposal.changes}
    # Judged against the base: a file that the feature made stays one that it creates, however often it is patched.
    planned = tuple(change for change in proposal.whole if change.path in touched)
    bounds = bounds_of(target.accepted.plan, config.policy)
    judge_plan(planned, bounds, areas=rules.enforce_allowed_areas, files=rules.enforce_plan)


def _judge_what_is_no_text(kernel: Kernel, proposal: PatchedTree, config: Config) -> None:
    """Look where links lead, and what bytes hold; both are there only if the policy allows them at all."""
    git = kernel.git
    packed = {file.new_path for file in proposal.patch.files if file.is_binary}

    def is_link(path: str) -> bool:
        entry = git.objects.entry(proposal.tree, path)
        return entry is not None and entry.mode is FileMode.SYMLINK

    for change in proposal.changes:
        if change.new is None:
            continue
        if change.new.mode is FileMode.SYMLINK and not config.policy.path_rules.allow_symlink_traversal:
            judge_link(change.path, git.objects.blob(change.new.oid), is_link)
        if change.path in packed:
            judge_bytes(change.path, git.objects.blob(change.new.oid), kernel.redact)


def _needed_locks(target: PatchTarget, proposal: PatchedTree, config: Config) -> tuple[str, ...]:
    needed = locks_for_paths([change.path for change in proposal.changes], config.policy)
    if target.accepted is None:
        return needed
    plan = target.accepted.plan
    return (*needed, *locks_for_plan(plan, bounds_of(plan, config.policy), config.policy))


def _refuse_overtaken(tx: Transaction, target: PatchTarget, state: FeatureState) -> None:
    """Refuse a patch that was judged by a plan or a status that changed meanwhile; locks may come and go.

    Raises: VersionConflict.
    """
    judged = (target.state.tree, target.state.status, target.accepted)
    if judged != (state.tree, state.status, tx.get(AcceptedPlan, state.feature_id)):
        raise VersionConflict(f"The feature `{state.feature_id}`", expected=target.state.version, current=state.version)


def _thin_changes(patch: Patch) -> tuple[str, ...]:
    """Name the files whose change is only white space or comments: a task is not done by those."""
    return tuple(f"`{file.new_path}` changes only white space or comments." for file in patch.files if is_thin(file))


TOOLS = (
    Tool(
        name="repo.apply_patch",
        summary="Apply a unified diff to the feature, if every path that it changes is allowed.",
        arguments=ApplyPatch,
        output=AppliedPatch,
        roles=PATCHERS,
        run=apply_patch,
        mutates=True,
    ),
)
