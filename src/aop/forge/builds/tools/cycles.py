"""Cycle tools: `forge.build_begin`, `_status`, `_take_commits` and `_abandon`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from aop.forge.builds.cycle.abandonment import abandon
from aop.forge.builds.cycle.branch_log import BuildStatus, build_status
from aop.forge.builds.cycle.cycle_facts import CycleFacts, with_push
from aop.forge.builds.cycle.lookup import the_cycle
from aop.forge.builds.cycle.start import begin
from aop.forge.builds.cycle.taken_commits import TakenCommits, take_commits
from aop.forge.builds.documents import Crew
from aop.forge.projects.keys import READ_SCOPE
from aop.forge.projects.owners import the_build
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.merges.branch_moves import undo_move
from aop.kernel.record.port import Transaction

NamedBuild = Annotated[str, Meta(min_length=1, max_length=200)]
Reason = Annotated[str, Meta(min_length=1, max_length=2000)]


class BuildBegin(ProjectArguments, frozen=True, kw_only=True):
    crew: Crew = "solo"
    """`solo` for one builder, `team` for scout, coder, auditor and fixer."""
    build_id: NamedBuild | None = None
    """A build that pinned its contracts earlier; without one, the newest contracts are pinned now."""


class BuildArguments(Arguments, frozen=True, kw_only=True):
    build_id: NamedBuild
    """The build."""


class BuildAbandon(BuildArguments, frozen=True, kw_only=True):
    reason: Reason
    """Why it ends, for the record."""


def begin_build(call: Call, arguments: BuildBegin) -> Outcome:
    """Begin a build of a project."""
    return begin(call, arguments.project_id, arguments.crew, arguments.build_id)


def show_build(call: Call, arguments: BuildArguments) -> Outcome:
    """Return a build that has begun, with the state of its branch."""
    with call.kernel.record.read() as view:
        cycle = the_cycle(view, arguments.build_id, call.principal)
        return build_status(call.kernel, view, cycle, the_build(view, cycle.build_id, call.principal))


def take(call: Call, arguments: BuildArguments) -> Outcome:
    """Take the commits of people on the branch into the build."""
    return take_commits(call, arguments.build_id)


def abandon_build(call: Call, arguments: BuildAbandon, tx: Transaction) -> Outcome:
    """End a build without a seal."""
    return abandon(call, tx, arguments.build_id, arguments.reason)


TOOLS = (
    Tool(
        name="forge.build_begin",
        summary="Begin a build: pin the contracts if needed, and make its branch, its worktree and its cycle.",
        arguments=BuildBegin,
        output=CycleFacts,
        roles=COORDINATORS,
        run=begin_build,
        mutates=True,
        person_only=True,
        reveal=with_push,
        resolve=undo_move,
    ),
    Tool(
        name="forge.build_status",
        summary="Return a build: its status, its phase, its branch and the number of its commits.",
        arguments=BuildArguments,
        output=BuildStatus,
        roles=COORDINATORS,
        run=show_build,
        person_only=True,
        key_scope=READ_SCOPE,
    ),
    Tool(
        name="forge.build_take_commits",
        summary="Take the commits of people on the branch of a build into it; its gates have to pass again.",
        arguments=BuildArguments,
        output=TakenCommits,
        roles=COORDINATORS,
        run=take,
        mutates=True,
        person_only=True,
        resolve=undo_move,
    ),
    Tool(
        name="forge.build_abandon",
        summary="End a build without a seal; its branch stays, and the project may begin another.",
        arguments=BuildAbandon,
        output=CycleFacts,
        roles=COORDINATORS,
        run=committed(abandon_build),
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
