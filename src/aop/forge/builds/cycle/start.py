"""Start of a cycle: a build gets its branch and its worktree, or nothing."""

from __future__ import annotations

from msgspec import Struct

from aop.core.errors import (
    BaseBranchUnusable,
    BranchExists,
    BuildActive,
    BuildEnded,
    BuildFeatureExists,
    ForgeFolderTracked,
    InvalidArguments,
    ScanLocked,
    VersionConflict,
)
from aop.core.ids import CommitId, FeatureId, TreeId, feature_id
from aop.forge.builds.cycle.branch_rule import check_branch
from aop.forge.builds.cycle.commits import publish_branch
from aop.forge.builds.cycle.cycle_facts import cycle_facts
from aop.forge.builds.cycle.lookup import LIVING, cycles_of
from aop.forge.builds.documents import BuildCycle, Crew, PhaseProgress, branch_of
from aop.forge.builds.workspace.projection import SHOWN_FOLDER
from aop.forge.contracts.shapes.phases import read_phases
from aop.forge.contracts.shapes.problems import Problems
from aop.forge.contracts.types import ContractType
from aop.forge.projects.batches import contract_in, pinned_batch, the_newest_batch
from aop.forge.projects.documents import ForgeBuild, ForgeProject, ScoutRun
from aop.forge.projects.owners import the_build, the_project
from aop.forge.scan.ports import scanner_of
from aop.forge.tools.pin import next_build_id, pin_contracts
from aop.kernel.features.lifecycle import NOT_RUN, relist
from aop.kernel.features.worktree_extras import allocate_ports, place_extras
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gateway.calls import Call, Kernel, Outcome
from aop.kernel.merges.branch_moves import BranchMove, commit_with_move
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.port import Snapshot, Transaction


class Beginning(Struct, frozen=True, kw_only=True):
    """A build that may begin now: its id, its pinned contracts if it has them, and its scan."""

    project: ForgeProject
    build_id: FeatureId
    pinned: ForgeBuild | None
    scan: ScoutRun | None


def begin(call: Call, project_id: str, crew: Crew, build_id: str | None) -> Outcome:
    """Begin a build as one operation: the branch and the record change together, and the worktree follows.

    Raises: BuildActive, BuildEnded, BranchExists, BuildFeatureExists, ScanLocked, ForgeFolderTracked, NoContracts.
    """
    kernel = call.kernel
    with kernel.record.read() as view:
        plan = _plan(call, view, project_id, build_id)
    name, branch = plan.build_id, branch_of(plan.build_id)
    check_branch(kernel, branch)
    with held_worktree(kernel, name):
        baseline = plan.scan.head_sha if plan.scan is not None else _head(kernel)
        tree = kernel.git.objects.tree_of(baseline)
        refuse_contracts_folder(kernel, tree, baseline)
        _refuse_existing_branch(kernel, branch)

        def decide(tx: Transaction) -> Outcome:
            if _plan(call, tx, project_id, build_id) != plan:
                raise VersionConflict(
                    f"The project `{project_id}`", expected=plan.project.version, current=plan.project.version + 1
                )
            return _store(call, tx, plan, crew, baseline)

        answer = commit_with_move(call, BranchMove(branch=branch, old=None, new=baseline), decide)
        worktree = kernel.git.worktrees.ensure(name, branch)
        place_extras(kernel, tree, worktree, kernel.config().policy.worktree)
    publish_branch(call, name)
    return answer


def _plan(call: Call, view: Snapshot, project_id: str, build_id: str | None) -> Beginning:
    """Check everything that the record says about a beginning. Raises: as `begin`."""
    project = the_project(view, project_id, call.principal)
    pinned = _pinned(call, view, project, build_id)
    name = feature_id(pinned.build_id if pinned is not None else next_build_id(project))
    for cycle in cycles_of(view, project.project_id):
        _refuse_cycle(cycle, name)
    if view.get(FeatureState, name) is not None:
        raise BuildFeatureExists(f"There is a feature `{name}` already.", feature_id=name)
    scan = view.get(ScoutRun, project.scan_run) if project.scan_run else None
    if scan is not None and scan.locked_by:
        raise ScanLocked(
            f"The scan `{scan.run_id}` is the baseline of the build `{scan.locked_by}`.",
            run_id=scan.run_id,
            project_id=project.project_id,
        )
    return Beginning(project=project, build_id=name, pinned=pinned, scan=scan)


def _pinned(call: Call, view: Snapshot, project: ForgeProject, build_id: str | None) -> ForgeBuild | None:
    """Return the build that begins; None if its contracts are still to be pinned."""
    if build_id is None:
        newest = view.get(ForgeBuild, f"{project.project_id}-b{project.build_count}")
        batch = the_newest_batch(view, project)
        is_unused = newest is not None and view.get(BuildCycle, newest.build_id) is None
        return newest if newest is not None and is_unused and newest.batch == batch.number else None
    build = the_build(view, build_id, call.principal)
    if build.project_id != project.project_id:
        raise InvalidArguments(
            f"The build `{build.build_id}` belongs to the project `{build.project_id}`.", build_id=build.build_id
        )
    return build


def _refuse_cycle(cycle: BuildCycle, name: FeatureId) -> None:
    """Refuse a second active cycle of a project, and a second cycle of a build. Raises: BuildActive, BuildEnded."""
    if cycle.status in LIVING:
        raise BuildActive(
            f"The build `{cycle.build_id}` of the project `{cycle.project_id}` is {cycle.status}.",
            build_id=cycle.build_id,
            project_id=cycle.project_id,
        )
    if cycle.build_id == name:
        raise BuildEnded(f"The build `{name}` is {cycle.status}, and does not begin again.", build_id=name)


def _head(kernel: Kernel) -> CommitId:
    """Return the commit of HEAD, the baseline of a project that was never scanned (C-47)."""
    head = scanner_of(kernel).commit_named("HEAD")
    if head is None:
        raise BaseBranchUnusable("The repository has no commit that a build could begin at.", hint="Commit once.")
    return head


def refuse_contracts_folder(kernel: Kernel, tree: TreeId, commit: CommitId) -> None:
    """Refuse a commit whose `Forge` would be overwritten. Raises: ForgeFolderTracked."""
    if kernel.git.objects.entry(tree, SHOWN_FOLDER) is not None:
        raise ForgeFolderTracked(f"The commit {commit[:12]} has a `{SHOWN_FOLDER}` of its own.", commit=commit)


def _refuse_existing_branch(kernel: Kernel, branch: str) -> None:
    """Refuse a branch that is there, wherever it is (C-04). Raises: BranchExists."""
    head = kernel.git.branches.head(branch)
    if head is not None:
        raise BranchExists(
            f"The branch `{branch}` already exists, at `{head[:12]}`, and no build made it.",
            hint="Rename or delete that branch, or pin the contracts again with `forge.pin`: that build has another.",
            branch=branch,
            head=head,
        )


def _store(call: Call, tx: Transaction, plan: Beginning, crew: Crew, baseline: CommitId) -> Outcome:
    kernel, now = call.kernel, call.kernel.now()
    build = plan.pinned or pin_contracts(call, tx, plan.project)
    state = _feature(kernel, plan.build_id, baseline)
    allocate_ports(tx, state.feature_id, kernel.config().policy.worktree, kernel.worktree_extras.is_free)
    tx.put(state, state.feature_id)
    relist(tx, state.feature_id, state.status, now=now)
    cycle = BuildCycle(
        version=1,
        build_id=build.build_id,
        project_id=build.project_id,
        owner=plan.project.owner,
        crew=crew,
        mode=plan.project.mode,
        branch=state.branch,
        baseline_sha=baseline,
        scan_run="" if plan.scan is None else plan.scan.run_id,
        head=baseline,
        phases=_phase_names(tx, build, plan.project),
        current=PhaseProgress(start_tree=state.tree, start_commit=baseline),
        created_at=now,
        updated_at=now,
    )
    tx.put(cycle, cycle.build_id)
    if plan.scan is not None:
        tx.put(revise(plan.scan, locked_by=cycle.build_id, updated_at=now), plan.scan.run_id)
    project = the_project(tx, build.project_id, call.principal)
    tx.put(revise(project, status="building", updated_at=now), project.project_id)
    tx.mark_unshown("feature", state.feature_id)
    tx.mark_unshown("worktree", state.feature_id)
    tx.mark_unshown("workflow", state.feature_id)
    _record(call, tx, cycle, state, build)
    return cycle_facts(cycle, state, build)


def _record(call: Call, tx: Transaction, cycle: BuildCycle, state: FeatureState, build: ForgeBuild) -> None:
    tx.append(call.event("feature_initialised", state.feature_id, branch=state.branch, base_commit=state.base_commit))
    tx.append(
        call.event(
            "build_began",
            state.feature_id,
            project_id=cycle.project_id,
            build_id=cycle.build_id,
            branch=cycle.branch,
            baseline_sha=cycle.baseline_sha,
            scan_run=cycle.scan_run,
            crew=cycle.crew,
            batch=build.batch,
            sha256=build.sha256,
        )
    )


def _feature(kernel: Kernel, name: FeatureId, baseline: CommitId) -> FeatureState:
    return FeatureState(
        version=1,
        feature_id=name,
        branch=branch_of(name),
        worktree_path=kernel.git.worktrees.path(name).relative_to(kernel.files.root).as_posix(),
        status=Status.BUILDING,
        gate_profile="default",
        gates=NOT_RUN,
        last_updated=kernel.now(),
        base_commit=baseline,
        tree=kernel.git.objects.tree_of(baseline),
    )


def _phase_names(view: Snapshot, build: ForgeBuild, project: ForgeProject) -> tuple[str, ...]:
    text = contract_in(view, pinned_batch(view, build), ContractType.PHASES).content
    return tuple(phase.name for phase in read_phases(text, project.mode, Problems()).phases)
