"""Tool `feature.delete`: shown first, removed only when asked for."""

from __future__ import annotations

from msgspec import Struct

from aop.core.errors import BranchInUse, InvalidArguments, UnmergedWork
from aop.core.ids import CommitId, FeatureId
from aop.kernel.features.lifecycle import refuse_build, relist
from aop.kernel.features.opened_paths import Permits
from aop.kernel.features.requests.change_requests import ChangeRequests
from aop.kernel.features.tree.viewed_files import ViewedFiles
from aop.kernel.features.work_requests import leave_wait
from aop.kernel.features.worktree_extras import release_ports
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gateway.calls import Call, ChangeArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.gateway.show import MOST_FILES
from aop.kernel.locks.grants import leases_of, release_leases
from aop.kernel.locks.leases import read_clock
from aop.kernel.plans.prerequisites import AcceptedPrerequisite
from aop.kernel.plans.waiting_queue import admit_waiting_plans, leave_queue
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.documents.obligations import ObligationLedger
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.qa import QaIndex
from aop.kernel.record.documents.questions import Question, without_feature
from aop.kernel.record.port import Snapshot, Transaction
from aop.kernel.record.projections import folder_of, is_written_by_aop
from aop.kernel.record.proposals import forget_proposals
from aop.kernel.record.spending import forget_turns


class DeleteArguments(ChangeArguments, frozen=True, kw_only=True):
    dry_run: bool = True
    """Only show what would be removed."""
    worktree: bool = False
    """Remove the worktree too; its untracked files go to quarantine."""
    branch: bool = False
    """Remove the branch too; this needs `worktree`."""
    force: bool = False
    """Delete even if work that was never merged would be lost."""


class Deletion(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    deleted: bool
    """False for a dry run."""
    files: tuple[str, ...]
    """The files of AOP that are removed."""
    kept_files: tuple[str, ...]
    """Other files in the feature's folder, which stay: `spec.md` belongs to its author."""
    worktree_path: str | None
    """The worktree that is removed; null when it stays, or there is none."""
    branch: str | None
    """The branch that is removed; null when it stays, or there is none."""
    branch_head: str | None
    """The head of the branch: `git branch NAME COMMIT` restores it, as long as git keeps the commit."""
    unmerged: bool
    """Whether the feature holds work that the base branch does not have."""
    locks: tuple[str, ...]
    """The locks that are released."""


def delete(call: Call, arguments: DeleteArguments) -> Outcome:
    """Show what deleting a feature would remove, or delete it; its history stays in the journal."""
    if arguments.branch and not arguments.worktree:
        raise InvalidArguments(
            "The branch cannot go while the worktree is on it.", hint="Pass `worktree` together with `branch`."
        )
    with held_worktree(call.kernel, arguments.feature_id):

        def decide(tx: Transaction) -> Outcome:
            planned = _plan_deletion(call.kernel, tx, the_feature(tx, arguments), arguments)
            if not arguments.dry_run:
                _remove(tx, call, planned)
            return planned

        return call.commit(decide)


def _plan_deletion(kernel: Kernel, view: Snapshot, state: FeatureState, arguments: DeleteArguments) -> Deletion:
    """Return what would be removed and what stays. Raises: UnmergedWork, BranchInUse, NotForABuild."""
    refuse_build(state, "its branch and its record are never deleted")
    files = kernel.files.below(folder_of(state.feature_id), limit=MOST_FILES)
    head = kernel.git.branches.head(state.branch)
    unmerged = _is_unmerged(kernel, state, head)
    if arguments.branch:
        _refuse_used_branch(kernel, state)
    if arguments.worktree and unmerged and not (arguments.force or arguments.dry_run):
        raise UnmergedWork(
            f"The feature `{state.feature_id}` holds work that was never merged.",
            feature_id=state.feature_id,
            tree=state.tree,
            branch_head=head,
        )
    return Deletion(
        feature_id=state.feature_id,
        version=state.version,
        status=state.status,
        deleted=not arguments.dry_run,
        files=tuple(path for path in files if is_written_by_aop(path, state.feature_id)),
        kept_files=tuple(path for path in files if not is_written_by_aop(path, state.feature_id)),
        worktree_path=state.worktree_path if arguments.worktree else None,
        branch=state.branch if arguments.branch and head else None,
        branch_head=head,
        unmerged=unmerged,
        locks=tuple(sorted(leases_of(view, state.feature_id))),
    )


def _is_unmerged(kernel: Kernel, state: FeatureState, head: CommitId | None) -> bool:
    base = kernel.git.branches.head(kernel.config().policy.worktree.base_branch)
    merge = state.evidence.merge
    in_base = head is None or (base is not None and kernel.git.objects.is_ancestor(head, base))
    if state.status is Status.MERGED and merge is not None:
        return not in_base and head != merge.commit
    return not in_base or state.tree != kernel.git.objects.tree_of(state.base_commit)


def _refuse_used_branch(kernel: Kernel, state: FeatureState) -> None:
    users = kernel.git.worktrees.users_of(state.branch, besides=state.feature_id)
    if state.branch == kernel.config().policy.worktree.base_branch:
        raise BranchInUse(f"The branch `{state.branch}` is the base branch.", branch=state.branch)
    if users:
        raise BranchInUse(
            f"The branch `{state.branch}` is checked out in `{users[0]}`.", branch=state.branch, checkouts=list(users)
        )


def _remove(tx: Transaction, call: Call, planned: Deletion) -> None:
    """Remove a feature from the record, and mark its files for removal."""
    name = FeatureId(planned.feature_id)
    now = read_clock(call.kernel.clock)
    release_leases(tx, call, name, planned.locks, now)
    leave_queue(tx, name, now)
    tx.set_claims(name, ())
    relist(tx, name, None, now=now.at)
    for run in [run for run in tx.all(GateRun) if run.feature_id == name]:
        tx.remove(GateRun, run.run_id)
    for approval in [approval for approval in tx.all(Approval) if approval.feature_id == name]:
        tx.remove(Approval, approval.approval_id)
    forget_proposals(tx, name)
    per_feature = (
        FeatureState,
        AcceptedPlan,
        AcceptedPrerequisite,
        ChangeRequests,
        ObligationLedger,
        Permits,
        ViewedFiles,
    )
    for shape in (*per_feature, QaIndex):
        tx.remove(shape, name)
    release_ports(tx, name)
    leave_wait(tx, name)
    for question in [question for question in tx.all(Question) if question.concerns(name) and question.is_open]:
        tx.put(without_feature(question, name, now.at), question.question_id)
    forget_turns(tx, name)
    tx.mark_unshown("feature", name)
    if planned.worktree_path is not None:
        tx.mark_unshown("gone_worktree", name)
    if planned.branch is not None:
        tx.mark_unshown("gone_branch", f"{planned.branch}@{planned.branch_head}")
    tx.append(
        call.event(
            "feature_deleted",
            name,
            status=planned.status,
            worktree=planned.worktree_path is not None,
            branch=planned.branch is not None,
            branch_head=planned.branch_head,
            unmerged=planned.unmerged,
        )
    )
    admit_waiting_plans(tx, call)


TOOLS = (
    Tool(
        name="feature.delete",
        summary="Show what deleting a feature would remove, or delete it; worktree and branch only if asked for.",
        arguments=DeleteArguments,
        output=Deletion,
        roles=COORDINATORS,
        run=delete,
        mutates=True,
        person_only=True,
    ),
)
