"""Carries out what the state machine asks for; each action ends in the event that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from aop.core.errors import BranchExists, Refusal
from aop.gated.machine.state import (
    BranchMade,
    Brief,
    CheckPlan,
    Commit,
    Committed,
    DraftDropped,
    DropDraft,
    Event,
    Judge,
    MakeBranch,
    Merge,
    Revert,
    Reverted,
    Review,
    RunCommand,
    RunPreflight,
    RunWithoutFix,
    Squash,
    Squashed,
)
from aop.gated.machine.step import step
from aop.gated.session.base_branch import latest_base
from aop.gated.session.frozen_tests import is_as_frozen
from aop.gated.session.merge import looked_at_merge, marked_plan
from aop.gated.session.review import reviewed
from aop.gated.session.session import Sitting
from aop.gated.session.verification import preflight_profile, ran_command, ran_preflight, ran_without_fix
from aop.kernel.features.lifecycle import NOT_RUN
from aop.kernel.gates.steps import unproven
from aop.kernel.merges.branch_moves import BranchMove
from aop.kernel.merges.merge import refuse_secret_message
from aop.kernel.record.documents.features import FeatureState, Status


def carried_through(sitting: Sitting, event: Event) -> Brief | Judge:
    """Take an event to the answer that it ends in.

    Raises: whatever refusal the state machine or an action answers with; then nothing is stored.
    """
    while True:
        before = sitting.workflow
        after, action = step(before, event, sitting.rules)
        if isinstance(action, Refusal):
            raise action
        sitting.learn(workflow=after)
        if before.pending_analysis is not None and after.plan != before.plan:
            sitting.learn(red_tree=sitting.kernel.git.tree_of(sitting.known.head))
        if isinstance(action, Brief | Judge):
            return action
        event = PERFORM[type(action)](sitting, action)


def _made_branch(sitting: Sitting, action: MakeBranch) -> BranchMade:
    """Cut the branch from the base branch as it is now; a branch that somebody else made is never taken (C-04)."""
    git, kernel = sitting.kernel.git, sitting.kernel
    taken = git.branch_head(action.branch)
    if taken is not None:
        raise BranchExists(
            f"There is a branch `{action.branch}` already, and this workflow did not make it.",
            hint="A person renames or deletes that branch; then call `get_task` again.",
            branch=action.branch,
            head=taken,
        )
    base = latest_base(sitting)
    tree = git.tree_of(base)
    new = FeatureState(
        version=1 if sitting.state is None else sitting.state.version,
        feature_id=sitting.name,
        branch=action.branch,
        worktree_path=git.worktree_path(sitting.name).relative_to(kernel.files.root).as_posix(),
        status=Status.BUILDING,
        gate_profile=preflight_profile(sitting.config),
        gates=NOT_RUN,
        last_updated=kernel.now(),
        base_commit=base,
        tree=tree,
    )
    sitting.state = new
    sitting.learn(base_commit=base, head=base, tree=tree, draft=None)
    sitting.move = BranchMove(branch=action.branch, old=None, new=base)
    return BranchMade(branch=action.branch)


def _committed(sitting: Sitting, action: Commit) -> Committed:
    known = sitting.known
    refuse_secret_message(action.message, sitting.kernel.redact)
    made = sitting.kernel.git.commit(known.tree, [known.head], action.message, when=sitting.kernel.clock.now())
    sitting.advance_to(made)
    return Committed(commit=made)


def _reverted(sitting: Sitting, _action: Revert) -> Reverted:
    """Go back to the last commit; what lies about goes too, except the two files that show the workflow (C-19)."""
    git, known = sitting.kernel.git, sitting.known
    tree = git.tree_of(known.head)
    git.discard_strays(sitting.name, known.tree)
    state = sitting.the_state()
    sitting.state = replace(state, tree=tree, gates=unproven(state.gates))
    sitting.learn(tree=tree, red_tree=None)
    held = {
        path: frozen
        for path, frozen in known.workflow.frozen_tests.items()
        if is_as_frozen(git.entry(tree, path), frozen)
    }
    return Reverted(frozen=held)


def _dropped_draft(sitting: Sitting, _action: DropDraft) -> DraftDropped:
    sitting.learn(draft=None)
    return DraftDropped()


def _squashed(sitting: Sitting, action: Squash) -> Squashed:
    """Put one commit in the place of all checkpoints."""
    known, git = sitting.known, sitting.kernel.git
    if action.commit_hash is not None and action.commit_hash != known.head:
        problem = f"`{action.commit_hash[:64]}` is not the tip of the branch: here the server makes all commits."
        return Squashed(commits=0, tip=known.head, problem=problem)
    if known.tree == git.tree_of(known.base_commit):
        return Squashed(commits=0, tip=known.head)
    refuse_secret_message(action.message, sitting.kernel.redact)
    made = git.commit(known.tree, [known.base_commit], action.message, when=sitting.kernel.clock.now())
    sitting.advance_to(made)
    return Squashed(commits=1, tip=made)


PERFORM: Mapping[type, Callable[[Sitting, Any], Event]] = {
    MakeBranch: _made_branch,
    RunCommand: ran_command,
    RunPreflight: ran_preflight,
    RunWithoutFix: ran_without_fix,
    Commit: _committed,
    Revert: _reverted,
    DropDraft: _dropped_draft,
    Review: reviewed,
    Squash: _squashed,
    CheckPlan: marked_plan,
    Merge: looked_at_merge,
}
