"""Actions: what the state machine asks for; each ends in the event that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from aop.core.errors import BranchExists, Refusal
from aop.gated.machine import state
from aop.gated.machine.position import plan_of
from aop.gated.machine.state import Brief, Event, Judge
from aop.gated.machine.step import step
from aop.gated.session.base_branch import latest_base
from aop.gated.session.frozen_tests import is_as_frozen
from aop.gated.session.merge import check_merge, check_plan_mark
from aop.gated.session.red_steps import keep_red_step
from aop.gated.session.review import review_work
from aop.gated.session.session import Session
from aop.gated.session.verification import preflight_profile, run_preflight, run_test_command, run_without_fix
from aop.kernel.features.lifecycle import NOT_RUN
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.merges.branch_moves import BranchMove
from aop.kernel.merges.merge import refuse_secret_message
from aop.kernel.record.documents.features import FeatureState, Status


def run_to_answer(session: Session, event: Event) -> Brief | Judge:
    """Run the machine from an event to its answer. Raises: refusals of machine and actions; nothing is stored."""
    while True:
        before = session.workflow
        after, action = step(before, event, session.rules)
        if isinstance(action, Refusal):
            raise action
        session.learn(workflow=after)
        if before.pending_analysis is not None and after.plan != before.plan:
            keep_red_step(session, before.pending_analysis)
        if isinstance(action, Brief | Judge):
            return action
        event = PERFORM[type(action)](session, action)


def _make_branch(session: Session, action: state.MakeBranch) -> state.BranchMade:
    """Create the branch at the current base branch; an existing branch is never reused (C-04)."""
    git, kernel = session.kernel.git, session.kernel
    taken = git.branches.head(action.branch)
    if taken is not None:
        raise BranchExists(
            f"The branch `{action.branch}` already exists, and this workflow did not create it.",
            hint="A person must rename or delete that branch; then call `get_task` again.",
            branch=action.branch,
            head=taken,
        )
    latest = latest_base(kernel)
    session.notes += latest.notes
    base = latest.commit
    tree = git.objects.tree_of(base)
    new = FeatureState(
        version=1 if session.state is None else session.state.version,
        feature_id=session.name,
        branch=action.branch,
        worktree_path=git.worktrees.path(session.name).relative_to(kernel.files.root).as_posix(),
        status=Status.BUILDING,
        gate_profile=preflight_profile(session.config),
        gates=NOT_RUN,
        title=plan_of(session.workflow).pr_title,
        last_updated=kernel.now(),
        base_commit=base,
        tree=tree,
    )
    session.state = new
    session.learn(base_commit=base, head=base, tree=tree, draft=None, red_tree=None, unfixed=None, reds=())
    session.move = BranchMove(branch=action.branch, old=None, new=base)
    return state.BranchMade(branch=action.branch)


def _commit(session: Session, action: state.Commit) -> state.Committed:
    known = session.known
    refuse_secret_message(action.message, session.kernel.redact)
    made = session.kernel.git.objects.commit(known.tree, [known.head], action.message, when=session.kernel.clock.now())
    session.advance_to(made)
    return state.Committed(commit=made)


def _revert(session: Session, _action: state.Revert) -> state.Reverted:
    """Go back to the last commit and remove untracked files, except the two files of the workflow (C-19)."""
    git, known = session.kernel.git, session.known
    tree = git.objects.tree_of(known.head)
    git.worktrees.discard_strays(session.name, known.tree)
    feature = session.the_state()
    session.state = replace(feature, tree=tree, gates=reset_verdicts(feature.gates))
    session.learn(tree=tree, red_tree=None, reds=tuple(red for red in known.reds if red.head != known.head))
    held = {
        path: frozen
        for path, frozen in known.workflow.frozen_tests.items()
        if is_as_frozen(git.objects.entry(tree, path), frozen)
    }
    return state.Reverted(frozen=held)


def _drop_draft(session: Session, _action: state.DropDraft) -> state.DraftDropped:
    session.learn(draft=None)
    return state.DraftDropped()


def _squash(session: Session, action: state.Squash) -> state.Squashed:
    """Replace all checkpoints by one commit."""
    known, git = session.known, session.kernel.git
    if action.commit_hash is not None and action.commit_hash != known.head:
        problem = f"`{action.commit_hash[:64]}` is not the tip of the branch; only the server makes commits here."
        return state.Squashed(commits=0, tip=known.head, problem=problem)
    if known.tree == git.objects.tree_of(known.base_commit):
        return state.Squashed(commits=0, tip=known.head)
    refuse_secret_message(action.message, session.kernel.redact)
    made = git.objects.commit(known.tree, [known.base_commit], action.message, when=session.kernel.clock.now())
    session.advance_to(made)
    return state.Squashed(commits=1, tip=made)


PERFORM: Mapping[type, Callable[[Session, Any], Event]] = {
    state.MakeBranch: _make_branch,
    state.RunCommand: run_test_command,
    state.RunPreflight: run_preflight,
    state.RunWithoutFix: run_without_fix,
    state.Commit: _commit,
    state.Revert: _revert,
    state.DropDraft: _drop_draft,
    state.Review: review_work,
    state.Squash: _squash,
    state.CheckPlan: check_plan_mark,
    state.Merge: check_merge,
}
