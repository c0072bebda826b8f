"""Crew courses: the loops of a team's roles, each within its rounds."""

from __future__ import annotations

from collections.abc import Sequence

from aop.brains.budgets import LoopUsage
from aop.brains.conversation import Turn
from aop.brains.ports import FINISH, News
from aop.core.errors import Json
from aop.core.roles import Role
from aop.forge.builds.context.messages import must_read
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.machine.crew_step import role_at_work
from aop.forge.builds.machine.decisions import is_complete
from aop.forge.builds.machine.events import Audited, Fixed, RecordedEvent
from aop.forge.builds.run.build_parts import BuildParts
from aop.forge.builds.run.course import Course, fresh_reply
from aop.forge.builds.run.marked_course import MarkedCourse
from aop.kernel.config.workflows import CrewRounds

LAST_ROUND = f"Your next reply is your last: hand in the result with `{FINISH}`."


def rounds_of(role: Role, rounds: CrewRounds) -> int:
    """Return the replies that a role has in one conversation."""
    limits = {Role.SCOUT: rounds.scout, Role.CODER: rounds.coder, Role.AUDITOR: rounds.auditor}
    return limits.get(role, rounds.fixer)


class CoderCourse(MarkedCourse):
    """The course of a coder: it ends with a proven sign-off, or after its rounds."""

    def __init__(self, parts: BuildParts, phase: int, run_id: str, *, fence: str, prefix: str) -> None:
        super().__init__(parts, Role.CODER, run_id, fence=fence, prefix=prefix)
        self._phase = phase

    def is_over(self, cycle: BuildCycle, turn: int) -> bool:
        """Tell whether another role is at work now, or the rounds are used up."""
        is_other = cycle.current.number != self._phase or role_at_work(cycle) is not Role.CODER
        return is_complete(cycle) or is_other or turn >= self.parts.rules.rounds.coder


class ResultCourse(Course):
    """The course of a role that hands in a result: scout, auditor, fixer."""

    async def steer(self, turns: Sequence[Turn], spent: LoopUsage) -> News:
        """Return what the model is told before its next reply. Raises: BuildHeld, ToolRefused."""
        self.count_cost(spent)
        turn, most = spent.iterations, rounds_of(self.role, self.parts.rules.rounds)
        if turn >= most:
            return News(ended=True)
        cycle = self.parts.known.cycle()
        messages = self.news(turn, cycle)
        if fresh_reply(turns) is not None:
            reminder = must_read(turns, cycle.current.number, self.role)
            messages += [] if reminder is None else [reminder]
        if turn and most - turn == 1:
            messages.append(LAST_ROUND)
        return News(messages=tuple(messages), conversation=self.compacted(turn, turns))

    def hand_over(self, operation: str, event: RecordedEvent) -> None:
        """Record what the role handed in, and the errors that it found or repaired."""
        cited = tuple(sorted({each.file_path for each in self.parts.known.cycle().current.crew.findings}))
        progress = self.record(operation, event)
        if isinstance(event, Fixed) and not progress["missing"] and cited:
            fixed: dict[str, Json] = {"paths": [*cited], "summary": event.fix_summary}
            self.call("forge.errors_resolve", f"{operation}-fixed", method="auto-fix", **fixed)
        cycle = self.parts.known.cycle()
        if isinstance(event, Audited) and not progress["signed_off"] and not progress["missing"]:
            self._track_findings(operation, cycle)

    def _track_findings(self, operation: str, cycle: BuildCycle) -> None:
        errors: list[Json] = [
            {
                "message": f"{each.contract} {each.section}: {each.description}",
                "source": "auditor",
                "phase": cycle.current.number,
                "file_path": each.file_path,
            }
            for each in cycle.current.crew.findings
        ]
        if errors:
            self.call("forge.error_track", f"{operation}-findings", errors=errors)
