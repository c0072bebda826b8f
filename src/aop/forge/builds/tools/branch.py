"""Branch tools: `forge_create_branch` and its like, by the id of a build cycle."""

from __future__ import annotations

from msgspec import Struct

from aop.core.roles import Role
from aop.core.structs import copy_fields
from aop.forge.builds.cycle.abandonment import abandon
from aop.forge.builds.cycle.branch_log import BranchCommit, branch_commits, build_status
from aop.forge.builds.cycle.cycle_facts import CycleFacts, with_push
from aop.forge.builds.cycle.lookup import the_cycle
from aop.forge.builds.cycle.start import begin
from aop.forge.builds.tools.cycles import NamedBuild, Reason
from aop.forge.projects.owners import the_build
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.merges.branch_moves import undo_move
from aop.kernel.record.port import Transaction

READERS = frozenset({Role.FORGE_BUILDER, Role.ORCHESTRATOR})


class BranchArguments(Arguments, frozen=True, kw_only=True):
    build_cycle_id: NamedBuild
    """The build."""


class BranchAbandon(BranchArguments, frozen=True, kw_only=True):
    reason: Reason
    """Why it ends."""


class BranchStatus(Struct, frozen=True, kw_only=True):
    """The branch of a build."""

    build_id: str
    """The build."""
    project_id: str
    """Its project."""
    branch: str
    """Its branch."""
    status: str
    """`active`, `sealing`, `sealed` or `abandoned`."""
    branch_state: str
    """`as_left`, `ahead`, `moved` or `gone`."""
    baseline_sha: str
    """The commit that it began at."""
    head: str
    """The commit of the branch as AOP left it."""
    commit_count: int
    """The commits since the baseline."""
    forge_commit_count: int
    """Those that AOP made."""
    published: str
    """The commit that was last pushed; empty if none was."""


class BranchCommits(Struct, frozen=True, kw_only=True):
    """The commits of a build."""

    build_id: str
    """The build."""
    project_id: str
    """Its project."""
    branch: str
    """Its branch."""
    commits: tuple[BranchCommit, ...]
    """The commits since the baseline, oldest first."""


def create_branch(call: Call, arguments: BranchArguments) -> Outcome:
    """Begin a build whose contracts are pinned."""
    with call.kernel.record.read() as view:
        build = the_build(view, arguments.build_cycle_id, call.principal)
    return begin(call, build.project_id, "solo", build.build_id)


def branch_status(call: Call, arguments: BranchArguments) -> Outcome:
    """Return the state of the branch of a build."""
    with call.kernel.record.read() as view:
        cycle = the_cycle(view, arguments.build_cycle_id, call.principal)
        build = the_build(view, cycle.build_id, call.principal)
        return copy_fields(BranchStatus, build_status(call.kernel, view, cycle, build))


def list_commits(call: Call, arguments: BranchArguments) -> Outcome:
    """Return the commits of a build with their authors."""
    with call.kernel.record.read() as view:
        cycle = the_cycle(view, arguments.build_cycle_id, call.principal)
        return copy_fields(BranchCommits, cycle, commits=branch_commits(call.kernel, view, cycle))


def abandon_branch(call: Call, arguments: BranchAbandon, tx: Transaction) -> Outcome:
    """End a build without a seal; its branch stays."""
    return abandon(call, tx, arguments.build_cycle_id, arguments.reason)


TOOLS = (
    Tool(
        name="forge_create_branch",
        summary="Begin a pinned build: make its branch, its worktree and its cycle.",
        arguments=BranchArguments,
        output=CycleFacts,
        roles=COORDINATORS,
        run=create_branch,
        mutates=True,
        person_only=True,
        reveal=with_push,
        resolve=undo_move,
    ),
    Tool(
        name="forge_get_branch_status",
        summary="Read the branch of a build: its commits are counted, its state is named.",
        arguments=BranchArguments,
        output=BranchStatus,
        roles=READERS,
        run=branch_status,
        lean=True,
    ),
    Tool(
        name="forge_list_branch_commits",
        summary="List the commits of a build with their authors.",
        arguments=BranchArguments,
        output=BranchCommits,
        roles=READERS,
        run=list_commits,
        lean=True,
    ),
    Tool(
        name="forge_abandon_branch",
        summary="End a build without a seal; its branch stays.",
        arguments=BranchAbandon,
        output=CycleFacts,
        roles=COORDINATORS,
        run=committed(abandon_branch),
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
