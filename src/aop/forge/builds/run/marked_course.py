"""Marked course: hears the markers of a builder, and says what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aop.brains.budgets import LoopUsage
from aop.brains.conversation import Reply, Turn
from aop.brains.ports import News
from aop.core.errors import BuildBranchMoved
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.forge.builds.context.messages import must_read
from aop.forge.builds.machine import marker_answers
from aop.forge.builds.machine.events import Event, Flaw, SignedOff, Stopped
from aop.forge.builds.machine.markers import events_in, hidden_markers
from aop.forge.builds.machine.step import is_complete
from aop.forge.builds.run.build_parts import BuildHeld, BuildParts
from aop.forge.builds.run.course import Course, fresh_reply
from aop.forge.generation.stored_steps import ToolRefused

MOST_TALK = 8
"""The replies in a row without a call or a marker after which the build stops and asks."""


class MarkedCourse(Course):
    """The course of a loop whose model plans, finishes tasks and signs off by markers."""

    def __init__(self, parts: BuildParts, role: Role, run_id: str, *, fence: str, prefix: str = "") -> None:
        super().__init__(parts, role, run_id, prefix=prefix)
        self._fence = fence

    async def steer(self, turns: Sequence[Turn], spent: LoopUsage) -> News:
        """Return what the model is told before its next reply. Raises: BuildHeld, ToolRefused."""
        turn, messages = spent.iterations, list[str]()
        self.count_cost(spent)
        fresh = fresh_reply(turns)
        if fresh is not None:
            messages += self._hear(turn, fresh)
            reminder = must_read(turns, self.parts.known.cycle().current.number)
            messages += [] if reminder is None else [reminder]
        cycle = self.parts.known.cycle()
        if is_complete(cycle):
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
            progress = self._record(operation, event)
        except ToolRefused as refused:
            return [f"[{refused.error['code']}] {refused.error['message']}"]
        if progress["signed_off"]:
            return self._signed_off(operation, progress)
        if progress["missing"]:
            self._track(operation, progress)
        return [progress["answer"]] if progress["answer"] else []

    def _record(self, operation: str, event: Event) -> Mapping[str, Any]:
        """Record an event, after the verification of a sign-off; commits of people are taken in first."""
        said = msgspec.to_builtins(event)
        try:
            if isinstance(event, SignedOff):
                self.parts.report(f"phase {event.phase}: verifying")
                self.call("forge.build_verify", f"{operation}-verify")
            return self.call("forge.build_event", operation, event=said)
        except ToolRefused as refused:
            if refused.error["code"] != BuildBranchMoved.code:
                raise
        self.call("forge.build_take_commits", f"{operation}-take")
        if isinstance(event, SignedOff):
            self.call("forge.build_verify", f"{operation}-verify-taken")
        return self.call("forge.build_event", operation, event=said)

    def _signed_off(self, operation: str, progress: Mapping[str, Any]) -> list[str]:
        done = self.parts.known.cycle().sign_offs[-1]
        self.parts.report(f"phase {done.phase}, {done.name}: signed off with {count(done.tests, 'test')}")
        self.call(
            "forge.errors_resolve",
            f"{operation}-errors",
            method="phase-complete",
            phase=done.phase,
            gate_run_id=done.gate_run_id,
        )
        return [] if progress["complete"] else [self.parts.known.advancement(self._fence)]

    def _track(self, operation: str, progress: Mapping[str, Any]) -> None:
        phase = progress["phase"]
        self.parts.report(f"phase {phase}: not signed off, {count(len(progress['missing']), 'reason')}")
        errors = [{"message": text, "source": "sign_off", "phase": phase} for text in progress["missing"]]
        self.call("forge.error_track", f"{operation}-errors", errors=errors)

    def _refuse_endless_talk(self, turn: int, turns: Sequence[Turn]) -> None:
        """Stop a build whose model only talks. Raises: BuildHeld."""
        replies = [each for each in turns if isinstance(each, Reply)][-MOST_TALK:]
        if len(replies) < MOST_TALK or any(each.calls or events_in(each.text) for each in replies):
            return
        reason = f"The model replied {MOST_TALK} times without a call or a marker."
        stop = Stopped(code="EVIDENCE_MISSING", reason=reason)
        self.call("forge.build_event", f"{self.run_id}-{turn}-talk", event=msgspec.to_builtins(stop))
        raise BuildHeld(self.parts.known.cycle())
