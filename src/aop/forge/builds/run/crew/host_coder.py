"""Host coder: another program is the coder of a team, over MCP.

All that it does is in the record, so nothing of it is a step of the run.
"""

from __future__ import annotations

import asyncio

from aop.core.roles import Role
from aop.forge.builds.cycle.lookup import refuse_ended
from aop.forge.builds.documents import SignedOff
from aop.forge.builds.machine.crew_step import role_at_work
from aop.forge.builds.machine.decisions import is_complete
from aop.forge.builds.machine.events import ClaimReturned
from aop.forge.builds.run.build_parts import BuildHeld, BuildParts
from aop.forge.builds.run.course import Course
from aop.forge.builds.run.marked_course import FOR_PEOPLE
from aop.forge.generation.stored_steps import ToolRefused

POLL_SECONDS = 0.25


class HostCoder:
    """The desk at which a host's sign-offs are judged."""

    def __init__(self, parts: BuildParts) -> None:
        self._parts = parts
        self._course = Course(parts, Role.CODER, parts.known.build_id)

    async def work(self) -> None:
        """Judge what the host hands in, until it is another role's turn. Raises: BuildEnded, BuildHeld, ToolRefused."""
        known, seen = self._parts.known, ""
        while role_at_work(cycle := known.cycle()) is Role.CODER and not is_complete(cycle):
            refuse_ended(cycle)
            if cycle.hold and not known.stop_is_answered(cycle):
                raise BuildHeld(cycle)
            if known.branch_has_moved(cycle):
                self._take_commits()
            if (work := known.work_so_far()) != seen:
                # What a host does is seen in the record alone; the line is a sign of life, too.
                self._parts.report(f"phase {cycle.current.number}: the coder {'is at work' if seen else 'may begin'}")
                seen = work
            crew = cycle.current.crew
            if crew.claimed is None or cycle.hold:
                await asyncio.sleep(POLL_SECONDS)
            else:
                self._judge(f"{cycle.build_id}-claim-{cycle.current.number}-{crew.claims}", crew.claimed)

    def _take_commits(self) -> None:
        """Take in what people committed: the host cannot, and none of its tasks is committed until then."""
        try:
            self._course.call("forge.build_take_commits", self._parts.new_id("op"))
        except ToolRefused as refused:
            # A build at which the host works just now is looked at again.
            if refused.error["code"] in FOR_PEOPLE:
                raise

    def _judge(self, operation: str, said: SignedOff) -> None:
        try:
            self._course.record(operation, said)
        except ToolRefused as refused:
            if refused.error["code"] in FOR_PEOPLE:
                raise
            reason = f"[{refused.error['code']}] {refused.error['message']}"
            self._course.record(f"{operation}-returned", ClaimReturned(reason=reason))
