"""Merge: the end of a pull request, from the marked plan to the base branch."""

from __future__ import annotations

from msgspec.structs import replace

from aop.core.errors import MergeConflict
from aop.core.ids import TreeId
from aop.gated.machine.master_plan import is_done, mark_problem
from aop.gated.machine.position import plan_of
from aop.gated.machine.state import ApprovalAwaited, CheckPlan, Merge, MergeConflicted, Merged, PlanMarked
from aop.gated.session.base_branch import latest_base
from aop.gated.session.session import Session
from aop.gated.session.verification import run_mode
from aop.kernel.features.lifecycle import with_status
from aop.kernel.merges.merge import base_head
from aop.kernel.ports.git import ConflictedPaths, Proposal
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.gate_runs import Verdict


def check_plan_mark(session: Session, action: CheckPlan) -> PlanMarked:
    """Check the mark in the plan; then run all required gates and commit the mark (C-41)."""
    known, git = session.known, session.kernel.git
    problem = _mark_problem(session, action)
    if problem:
        return PlanMarked(is_marked=False, reason=problem)
    for mode in session.config.policy.required_modes:
        ran = run_mode(session, mode)
        if ran.run.verdict is not Verdict.PASS:
            # The mark names a commit that will not be merged.
            squashed = git.objects.tree_of(known.head)
            session.learn(tree=squashed)
            session.state = replace(session.the_state(), tree=squashed)
            reason = f"The `{mode}` gates did not pass:\n{ran.output}"
            return PlanMarked(is_marked=False, reason=reason, failed_mode=mode)
    text = f"docs: mark `{plan_of(known.workflow).pr_title}` as done\n"
    session.advance_to(git.objects.commit(known.tree, [known.head], text, when=session.kernel.clock.now()))
    session.state = with_status(with_status(session.the_state(), Status.QA), Status.READY_TO_MERGE)
    return PlanMarked(is_marked=True)


def _conflicted(session: Session, paths: tuple[str, ...]) -> MergeConflicted:
    """Let go of the branch: a person resolves the conflict in it, and deletes it."""
    kernel, name = session.kernel, session.name
    folder = kernel.git.worktrees.ensure_detached(name, session.known.head)
    return MergeConflicted(paths=paths, name=name, folder=folder.relative_to(kernel.files.root).as_posix())


def _mark_problem(session: Session, action: CheckPlan) -> str:
    git, known = session.kernel.git, session.known
    squashed = git.objects.tree_of(known.head)
    if [change.path for change in git.objects.changes(squashed, known.tree)] != [action.path]:
        return f"Change exactly one file: `{action.path}`."
    before, after = (_text(session, tree, action.path) for tree in (squashed, known.tree))
    return mark_problem(before, after, action.pr_title, action.commit_hash)


def _text(session: Session, tree: TreeId, path: str) -> str:
    entry = session.kernel.git.objects.entry(tree, path)
    return "" if entry is None else session.kernel.git.objects.blob(entry.oid).decode(errors="replace")


def check_merge(session: Session, action: Merge) -> Merged | ApprovalAwaited | MergeConflicted:
    """Check whether the kernel has merged the pull request, or whether it conflicts."""
    git, known, state = session.kernel.git, session.known, session.the_state()
    if state.status is Status.MERGED:
        base = base_head(session.kernel, session.config)
        git.worktrees.ensure_detached(session.name, base)
        git.worktrees.show_tree(session.name, git.objects.tree_of(base))
        git.branches.delete(action.branch, at=known.head)
        session.learn(base_commit=base, head=base, tree=git.objects.tree_of(base), red_tree=None, draft=None)
        return Merged(is_plan_done=is_done(_text(session, session.known.tree, known.master_plan)))
    latest = latest_base(session.kernel)
    session.notes += latest.notes
    try:
        merged = git.merges.merge(latest.commit, Proposal(commit=known.head))
    except MergeConflict:
        return _conflicted(session, ())
    if isinstance(merged, ConflictedPaths):
        return _conflicted(session, merged.paths)
    name, branch = session.name, session.config.policy.worktree.base_branch
    how = f"A person reviews it with `aop review {name}`, approves it with `aop approve {name}`, and merges it."
    first = f"`{branch}` and its remote have diverged: bring them together before the merge. "
    return ApprovalAwaited(reason=f"{first if latest.is_diverged else ''}{how}")
