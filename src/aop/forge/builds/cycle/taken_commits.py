"""Taken commits: commits of people on the branch of a build become part of it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import BuildCommitsConflict, MergeConflict
from aop.core.ids import CommitId, TreeId
from aop.core.text.counts import count
from aop.forge.builds.cycle.branch_rule import check_branch
from aop.forge.builds.cycle.commits import branch_tip, publish_branch, unchanged_cycle
from aop.forge.builds.cycle.lookup import the_living_cycle
from aop.forge.builds.cycle.start import refuse_contracts_folder
from aop.forge.builds.documents import BuildCycle
from aop.kernel.features.lifecycle import store_feature
from aop.kernel.features.tree.tree_history import TAKEN
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gates.steps import reset_verdicts
from aop.kernel.gateway.calls import Call, Kernel, Outcome, feature_named
from aop.kernel.merges.branch_moves import BranchMove, commit_with_move
from aop.kernel.ports.git import ConflictedPaths, LoggedCommit, Proposal
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Transaction

MOST_COMMITS = 10_000


class TakenCommits(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    head: str
    """The commit of its branch."""
    tree: str
    """Its files: those of the commits, with its own work that is not committed yet."""
    commits: tuple[str, ...]
    """The commits that were taken in, oldest first; empty if there were none."""


def take_commits(call: Call, build_id: str) -> Outcome:
    """Take the commits of people into a build, those at the remote too; its gates have to pass again (FORGE-199).

    A push that a killed process did not come to is made up for.
    Raises: BuildEnded, BuildBranchMoved, BuildCommitsConflict, ForgeFolderTracked, WorktreeBusy.
    """
    kernel = call.kernel
    with kernel.record.read() as view:
        name = the_living_cycle(view, build_id, call.principal).build_id
    with held_worktree(kernel, name):
        with kernel.record.read() as view:
            cycle, state = the_living_cycle(view, name, call.principal), feature_named(view, name)
        here = branch_tip(kernel, cycle)
        tip = _newest_tip(kernel, cycle, here)
        commits = kernel.git.objects.log(cycle.head, tip, limit=MOST_COMMITS)
        tree = _tree_with(kernel, cycle, state, tip)
        refuse_contracts_folder(kernel, tree, tip)
        kernel.send_work(replace(state, tree=tree))

        def decide(tx: Transaction) -> Outcome:
            seen = unchanged_cycle(tx, cycle)
            if tip != cycle.head:
                _store(call, tx, cycle, replace(seen, tree=tree, branch_commit=tip), commits)
            listed = tuple(each.commit for each in commits)
            return TakenCommits(build_id=name, head=tip, tree=tree, commits=listed)

        move = BranchMove(branch=cycle.branch, old=here, new=tip)
        answer = call.commit(decide) if tip == here else commit_with_move(call, move, decide)
    if tip != cycle.published:
        publish_branch(call, name)
    return answer


def _newest_tip(kernel: Kernel, cycle: BuildCycle, here: CommitId) -> CommitId:
    """Return the commit of the branch at the remote if it adds to the one that is here, else that one."""
    check_branch(kernel, cycle.branch)
    there = None if kernel.remotes is None else kernel.remotes.latest(cycle.branch, here)
    return here if there is None or there.state != "newer" or there.commit is None else there.commit


def _tree_with(kernel: Kernel, cycle: BuildCycle, state: FeatureState, tip: CommitId) -> TreeId:
    """Return the tree of the commits, with the work of the build that is not committed yet merged into it."""
    objects = kernel.git.objects
    if tip == cycle.head:
        return state.tree
    if state.tree == objects.tree_of(cycle.head):
        return objects.tree_of(tip)
    try:
        merged = kernel.git.merges.merge(tip, Proposal(commit=cycle.head, tree=state.tree))
    except MergeConflict as refusal:
        raise _conflict(cycle, ()) from refusal
    if isinstance(merged, ConflictedPaths):
        raise _conflict(cycle, merged.paths)
    return merged.tree


def _conflict(cycle: BuildCycle, paths: tuple[str, ...]) -> BuildCommitsConflict:
    files = count(len(paths), "file")
    return BuildCommitsConflict(
        f"The commits of people on `{cycle.branch}` and the work of the build that is not committed yet conflict in"
        f" {files}.",
        build_id=cycle.build_id,
        paths=list(paths[:100]),
    )


def _store(
    call: Call, tx: Transaction, cycle: BuildCycle, after: FeatureState, commits: tuple[LoggedCommit, ...]
) -> None:
    before, now = feature_named(tx, cycle.build_id), call.kernel.now()
    tx.put(revise(cycle, head=after.branch_commit, updated_at=now), cycle.build_id)
    stored = store_feature(tx, before, replace(after, gates=reset_verdicts(after.gates)), now=now)
    tx.append(
        call.event(
            TAKEN,
            stored.feature_id,
            build_id=cycle.build_id,
            tree=stored.tree,
            before=before.tree,
            files=len(call.kernel.git.objects.changes(before.tree, stored.tree)),
            commits=[each.commit for each in commits],
        )
    )
    tx.mark_unshown("worktree", stored.feature_id)
