"""Proposals: the tree that a patch would make, its checks, and storing it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec
from msgspec import Struct

from aop.core.errors import VersionConflict
from aop.core.ids import TreeId
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.config.in_force import Config
from aop.kernel.features.lifecycle import store_changed
from aop.kernel.features.opened_paths import opened_paths
from aop.kernel.features.requests.change_requests import close_requests
from aop.kernel.gates.guards.command_guards import command_guard
from aop.kernel.gates.guards.project_settings import refuse_test_settings
from aop.kernel.gates.qa_index import renew_index
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, the_feature
from aop.kernel.locks.leases import read_clock
from aop.kernel.patches import checks
from aop.kernel.patches.parser import Patch, parse_patch
from aop.kernel.patches.patched_trees import patched_tree
from aop.kernel.plans.checks import bounds_of
from aop.kernel.plans.needed_locks import check_unbroken, locks_for_paths, locks_for_plan, with_fences
from aop.kernel.ports.git import FileMode, GitObjects, TreeChange
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Transaction


class PatchTarget(Struct, frozen=True, kw_only=True):
    """The feature that a patch is for, as it is now."""

    state: FeatureState
    accepted: AcceptedPlan | None
    base_tree: TreeId
    opened: frozenset[str] = frozenset()
    """The guarded paths that a person opened for it."""


class PatchedTree(Struct, frozen=True, kw_only=True):
    """A patch, and the tree that results from it."""

    patch: Patch
    tree: TreeId
    changes: tuple[TreeChange, ...]
    """Against the feature's tree before."""
    whole: tuple[TreeChange, ...]
    """Against the commit that the feature was cut from."""


class JudgedPatch(Struct, frozen=True, kw_only=True):
    """A patch that policy and plan allow, with what storing it needs."""

    target: PatchTarget
    proposal: PatchedTree
    locks: tuple[str, ...]
    whole_diff: bytes
    config: Config
    """The configuration by which it was judged."""

    @property
    def after(self) -> FeatureState:
        """Return the feature with the tree that the patch makes."""
        return msgspec.structs.replace(self.target.state, tree=self.proposal.tree)


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


def judged_patch(
    kernel: Kernel, target: PatchTarget, text: str | bytes, config: Config, *, by_person: bool = False
) -> JudgedPatch:
    """Write the tree that a patch makes, and judge it; each rule has its refusal. A person's may be binary."""
    proposal = proposal_for(kernel, target, text, config, by_person=by_person)
    judge_proposal(kernel, target, proposal, config)
    needed = _needed_locks(target, proposal, config)
    with kernel.record.read() as view:
        check_unbroken(view, target.state, needed, read_clock(kernel.clock))
    whole_diff = kernel.git.objects.diff(target.base_tree, proposal.tree, context_lines=0)
    return JudgedPatch(target=target, proposal=proposal, locks=needed, whole_diff=whole_diff, config=config)


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
    stored = store_changed(tx, call, state, after)
    renew_index(tx, stored, patch.whole_diff, target.accepted.plan if target.accepted else None, patch.config)
    tx.mark_unshown("worktree", stored.feature_id)
    close_requests(tx, call, stored.feature_id, "changes")
    return stored


def warnings_of(kernel: Kernel, patch: JudgedPatch) -> tuple[str, ...]:
    """Return the points that a person should check, although the patch was accepted."""
    text = patch.proposal.patch
    return (*_thin_changes(text), *checks.removed_secrets(text, kernel.redact))


def proposal_for(
    kernel: Kernel, target: PatchTarget, text: str | bytes, config: Config, *, by_person: bool = False
) -> PatchedTree:
    """Return the tree that a patch would make of a feature; refuse a bad patch, a secret or a guarded path."""
    git, rules = kernel.git, config.policy.patch_policy
    read = checks.rules_of(rules)
    # The policy is about bytes of agents, which nobody has seen.
    read = msgspec.structs.replace(read, allow_binary=read.allow_binary or by_person)
    patch = parse_patch(text.encode() if isinstance(text, str) else text, read)
    checks.refuse_secrets(patch, kernel.redact)
    # Before any file is read: a refusal that shows the nearest lines must not show those of a guarded file.
    named = sorted(path for file in patch.files for path in file.paths)
    checks.judge_territory(named, guarded_areas_of(config.policy, target.opened))
    tree = patched_tree(git.objects, target.state.tree, patch, rules.placement)
    return PatchedTree(
        patch=patch,
        tree=tree,
        changes=git.objects.changes(target.state.tree, tree),
        whole=git.objects.changes(target.base_tree, tree),
    )


def judge_proposal(kernel: Kernel, target: PatchTarget, proposal: PatchedTree, config: Config) -> None:
    """Refuse a tree that policy or plan do not allow."""
    checks.refuse_disagreement(proposal.patch, proposal.changes)
    judge_tree(kernel, proposal.tree, proposal.changes, config, target.opened, base=target.base_tree)
    _judge_bytes(kernel, proposal)
    if target.accepted is None:
        return
    rules = config.policy.patch_policy
    touched = {change.path for change in proposal.changes}
    # Judged against the base: a file that the feature created counts as created in every later patch.
    planned = tuple(change for change in proposal.whole if change.path in touched)
    bounds = bounds_of(target.accepted.plan, config.policy)
    checks.judge_plan(planned, bounds, areas=rules.enforce_allowed_areas, files=rules.enforce_plan)


def judge_tree(
    kernel: Kernel,
    tree: TreeId,
    changes: tuple[TreeChange, ...],
    config: Config,
    opened: frozenset[str],
    *,
    base: TreeId | None = None,
) -> None:
    """Refuse a tree whose changes policy does not allow, however they came about; settings are those of the base."""
    rules, territory = config.policy.patch_policy, guarded_areas_of(config.policy, opened)
    names_in = cache(lambda folder: kernel.git.objects.names(tree, folder))
    checks.judge_tree_change(changes, rules)
    checks.refuse_case_twins(changes, names_in)
    checks.refuse_nested_repositories(changes, names_in, territory)
    checks.judge_territory([change.path for change in changes], territory)
    guard = command_guard(config, kernel.git.objects, base)
    checks.judge_commands([change.path for change in changes], territory, guard)
    refuse_test_settings(kernel.git.objects, changes, territory, base)
    if not config.policy.path_rules.allow_symlink_traversal:
        _judge_links(kernel.git.objects, tree, changes)


def _judge_links(objects: GitObjects, tree: TreeId, changes: tuple[TreeChange, ...]) -> None:
    def is_link(path: str) -> bool:
        entry = objects.entry(tree, path)
        return entry is not None and entry.mode is FileMode.SYMLINK

    for change in changes:
        if change.new is not None and change.new.mode is FileMode.SYMLINK:
            checks.judge_link(change.path, objects.blob(change.new.oid), is_link)


def _judge_bytes(kernel: Kernel, proposal: PatchedTree) -> None:
    """Check the content of binary files, which the policy must allow."""
    packed = {file.new_path for file in proposal.patch.files if file.is_binary}
    for change in proposal.changes:
        if change.new is not None and change.path in packed:
            checks.judge_bytes(change.path, kernel.git.objects.blob(change.new.oid), kernel.redact)


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
    return tuple(
        f"`{file.new_path}` changes only white space or comments." for file in patch.files if checks.is_thin(file)
    )
