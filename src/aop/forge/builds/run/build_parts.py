"""Parts of a build's run: what the loops of all its roles share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from aop.brains.ports import Brain
from aop.core.roles import Role
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.run.agent_tools import AgentTools
from aop.forge.builds.run.knowledge import BuildKnowledge
from aop.forge.generation.stored_steps import CallTool, StoredSteps
from aop.kernel.config.workflows import BuildRules
from aop.kernel.ports.handed_in import NewId, Report

BrainOf: TypeAlias = Callable[[Role], Brain]
"""Returns the brain that speaks for a role of a build."""


class BuildHeld(Exception):
    """The build does not go on: it was paused, it stopped, or its cap is reached."""

    def __init__(self, cycle: BuildCycle) -> None:
        super().__init__(cycle.hold_reason)
        self.cycle = cycle


class BuildParts(Struct, frozen=True, kw_only=True):
    """The parts that the run of a build is made of, whatever its crew."""

    brain_of: BrainOf
    steps: StoredSteps
    call: CallTool
    """Calls tools for the person who runs the build."""
    call_as_system: CallTool
    tools_of: Callable[[Role], AgentTools]
    """Returns the tools of a role."""
    known: BuildKnowledge
    rules: BuildRules
    new_id: NewId
    report: Report
