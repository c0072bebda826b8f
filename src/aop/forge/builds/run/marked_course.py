"""Marked course: hears the markers of a builder, and says what comes next."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aop.brains.budgets import LoopUsage
from aop.brains.conversation import Reply, Turn
from aop.brains.ports import News
from aop.core.errors import (
    BuildBranchMoved,
    BuildCommitsConflict,
    ForgeFolderTracked,
    ForgeInvariantError,
    ForgeSupportMissing,
)
from aop.core.roles import Role
from aop.forge.builds.context.messages import must_read
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.machine import marker_answers
from aop.forge.builds.machine.decisions import is_complete
from aop.forge.builds.machine.events import Event, Flaw, Stopped
from aop.forge.builds.machine.markers import events_in, hidden_markers
from aop.forge.builds.run.build_parts import BuildHeld, BuildParts
from aop.forge.builds.run.course import Course, fresh_reply
from aop.forge.generation.stored_steps import ToolRefused

FOR_PEOPLE = frozenset(
    refusal.code
    for refusal in (
        BuildBranchMoved,
        BuildCommitsConflict,
        ForgeFolderTracked,
        ForgeInvariantError,
        ForgeSupportMissing,
    )
)
"""Refusals that no model can do anything about: they end the command, and the next one goes on."""
MOST_TALK = 8
"""The replies in a row without a call or a marker after which the build stops and asks."""


class MarkedCourse(Course):
    """The course of a loop whose model plans, finishes tasks and signs off by markers."""

    def __init__(self, parts: BuildParts, role: Role, run_id: str, *, fence: str, prefix: str = "") -> None:
        super().__init__(parts, role, run_id, prefix=prefix)
        self._fence = fence

    def is_over(self, cycle: BuildCycle, _turn: int) -> bool:
        """Tell whether the loop has done its work."""
        return is_complete(cycle)

    async def steer(self, turns: Sequence[Turn], spent: LoopUsage) -> News:
        """Return what the model is told before its next reply. Raises: BuildHeld, ToolRefused."""
        turn, messages = spent.iterations, list[str]()
        self.count_cost(spent)
        fresh = fresh_reply(turns)
        if fresh is not None:
            messages += self._hear(turn, fresh)
            reminder = must_read(turns, self.parts.known.cycle().current.number, self.role)
            messages += [] if reminder is None else [reminder]
        cycle = self.parts.known.cycle()
        if self.is_over(cycle, turn):
            return News(ended=True)
        messages += self.news(turn, cycle)
        if fresh is not None and not fresh.calls and not messages:
            self._refuse_endless_talk(turn, turns)
            messages.append(marker_answers.what_is_next(cycle.current))
        return News(messages=tuple(messages), conversation=self.compacted(turn, turns))

    def _hear(self, turn: int, reply: Reply) -> list[str]:
        """Record everything that a reply says; return what is answered."""
        answers: list[str] = []
        events = events_in(reply.text)
        for at, event in enumerate(events):
            answers += self._answer(f"{self.run_id}-{turn}-{at}", event)
        hidden = 0 if events else hidden_markers(reply.text)
        return [*answers, *([marker_answers.hidden(hidden)] if hidden else [])]

    def _answer(self, operation: str, event: Event) -> list[str]:
        if isinstance(event, Flaw):
            return [marker_answers.flaw(event.problem)]
        try:
            progress = self.record(operation, event)
        except ToolRefused as refused:
            if refused.error["code"] in FOR_PEOPLE:
                raise
            return [f"[{refused.error['code']}] {refused.error['message']}"]
        if progress["signed_off"] and not progress["complete"]:
            return [self.parts.known.advancement(self._fence)]
        return [progress["answer"]] if progress["answer"] else []

    def _refuse_endless_talk(self, turn: int, turns: Sequence[Turn]) -> None:
        """Stop a build whose model only talks. Raises: BuildHeld."""
        replies = [each for each in turns if isinstance(each, Reply)][-MOST_TALK:]
        if len(replies) < MOST_TALK or any(each.calls or events_in(each.text) for each in replies):
            return
        reason = f"The model replied {MOST_TALK} times without a call or a marker."
        stop = Stopped(code="EVIDENCE_MISSING", reason=reason)
        self.call("forge.build_event", f"{self.run_id}-{turn}-talk", event=msgspec.to_builtins(stop))
        raise BuildHeld(self.parts.known.cycle())
