"""Cycle tools: `forge.build_begin`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from aop.forge.builds.cycle.cycle_facts import CycleFacts
from aop.forge.builds.cycle.start import begin
from aop.forge.builds.documents import Crew
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.gateway.calls import Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.merges.branch_moves import undo_move


class BuildBegin(ProjectArguments, frozen=True, kw_only=True):
    crew: Crew = "solo"
    """`solo` for one builder, `team` for scout, coder, auditor and fixer."""
    build_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """A build that pinned its contracts earlier; without one, the newest contracts are pinned now."""


def begin_build(call: Call, arguments: BuildBegin) -> Outcome:
    """Begin a build of a project."""
    return begin(call, arguments.project_id, arguments.crew, arguments.build_id)


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
        resolve=undo_move,
    ),
)
