"""Host coder: another program is the coder of a team, over MCP.

All that it does is in the record, so nothing of it is a step of the run.
"""

from __future__ import annotations

import asyncio

from aop.core.roles import Role
from aop.forge.builds.documents import SignedOff
from aop.forge.builds.machine.crew_step import role_at_work
from aop.forge.builds.machine.decisions import is_complete
from aop.forge.builds.machine.events import ClaimReturned
from aop.forge.builds.run.build_parts import BuildHeld, BuildParts
from aop.forge.builds.run.course import Course
from aop.forge.generation.stored_steps import ToolRefused

POLL_SECONDS = 0.25


class HostCoder:
    """The desk at which a host's sign-offs are judged."""

    def __init__(self, parts: BuildParts) -> None:
        self._parts = parts
        self._course = Course(parts, Role.CODER, parts.known.build_id)

    async def work(self) -> None:
        """Judge what the host hands in, until it is another role's turn. Raises: BuildHeld, ToolRefused."""
        known, seen = self._parts.known, ""
        while role_at_work(cycle := known.cycle()) is Role.CODER and not is_complete(cycle):
            if cycle.hold and not known.stop_is_answered(cycle):
                raise BuildHeld(cycle)
            if (work := known.work_so_far()) != seen:
                # What a host does is seen in the record alone; the line is a sign of life, too.
                self._parts.report(f"phase {cycle.current.number}: the coder {'is at work' if seen else 'may begin'}")
                seen = work
            crew = cycle.current.crew
            if crew.claimed is None or cycle.hold:
                await asyncio.sleep(POLL_SECONDS)
            else:
                self._judge(f"{cycle.build_id}-claim-{cycle.current.number}-{crew.claims}", crew.claimed)

    def _judge(self, operation: str, said: SignedOff) -> None:
        try:
            self._course.record(operation, said)
        except ToolRefused as refused:
            reason = f"[{refused.error['code']}] {refused.error['message']}"
            self._course.record(f"{operation}-returned", ClaimReturned(reason=reason))
