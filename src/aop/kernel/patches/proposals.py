"""Proposals: the tree that a patch would make, and the checks it must pass."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from aop.core.ids import TreeId
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.config.in_force import Config
from aop.kernel.gateway.calls import Kernel
from aop.kernel.patches import checks
from aop.kernel.patches.parser import Patch, parse_patch
from aop.kernel.patches.patched_trees import patched_tree
from aop.kernel.plans.checks import bounds_of
from aop.kernel.ports.git import FileMode, TreeChange
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.plans import AcceptedPlan


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


def proposal_for(kernel: Kernel, target: PatchTarget, text: str, config: Config) -> PatchedTree:
    """Return the tree that a patch would make of a feature; refuse a bad patch, a secret or a guarded path."""
    git, rules = kernel.git, config.policy.patch_policy
    patch = parse_patch(text.encode(), checks.rules_of(rules))
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
    rules, territory = config.policy.patch_policy, guarded_areas_of(config.policy, target.opened)
    names_in = cache(lambda folder: kernel.git.objects.names(proposal.tree, folder))
    checks.refuse_disagreement(proposal.patch, proposal.changes)
    checks.judge_tree_change(proposal.changes, rules)
    checks.refuse_case_twins(proposal.changes, names_in)
    checks.refuse_nested_repositories(proposal.changes, names_in, territory)
    checks.judge_territory([change.path for change in proposal.changes], territory)
    _judge_links_and_bytes(kernel, proposal, config)
    if target.accepted is None:
        return
    touched = {change.path for change in proposal.changes}
    # Judged against the base: a file that the feature created counts as created in every later patch.
    planned = tuple(change for change in proposal.whole if change.path in touched)
    bounds = bounds_of(target.accepted.plan, config.policy)
    checks.judge_plan(planned, bounds, areas=rules.enforce_allowed_areas, files=rules.enforce_plan)


def _judge_links_and_bytes(kernel: Kernel, proposal: PatchedTree, config: Config) -> None:
    """Check the targets of links and the content of binary files, which the policy must allow."""
    git = kernel.git
    packed = {file.new_path for file in proposal.patch.files if file.is_binary}

    def is_link(path: str) -> bool:
        entry = git.objects.entry(proposal.tree, path)
        return entry is not None and entry.mode is FileMode.SYMLINK

    for change in proposal.changes:
        if change.new is None:
            continue
        if change.new.mode is FileMode.SYMLINK and not config.policy.path_rules.allow_symlink_traversal:
            checks.judge_link(change.path, git.objects.blob(change.new.oid), is_link)
        if change.path in packed:
            checks.judge_bytes(change.path, git.objects.blob(change.new.oid), kernel.redact)
