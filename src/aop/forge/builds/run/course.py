"""Course of a loop: counts its cost, passes on what people say, and shortens it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from aop.brains.budgets import LoopUsage
from aop.brains.conversation import Reply, Turn, UserText
from aop.brains.ports import Called, Observed, Replied
from aop.core.errors import BuildBranchMoved, BuildOnHold, Json
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.forge.builds.context.compaction import ConversationSize, compacted
from aop.forge.builds.documents import BuildCycle, SignedOff
from aop.forge.builds.machine.events import Audited, Compacted, Fixed, RecordedEvent
from aop.forge.builds.run.agent_tools import AgentTools
from aop.forge.builds.run.build_parts import BuildHeld, BuildParts
from aop.forge.generation.stored_steps import LoopSteps, ToolRefused


class Course:
    """The course of one loop of a build, whatever its role says."""

    def __init__(self, parts: BuildParts, role: Role, run_id: str, *, prefix: str = "") -> None:
        """Take the id that the operations of this loop begin with, and the prefix of its stored steps."""
        self.parts = parts
        self.run_id = run_id
        self.tools: AgentTools = parts.tools_of(role)
        self.role = role
        self._steps = LoopSteps(parts.steps, prefix, kept=("news_", "reply_", "call_"))
        self._replied: Replied | None = None
        self._is_under_way = False
        self._size = ConversationSize(parts.known.tokens)

    async def once(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        """Do a step of the loop once; a call has the operation id of its step."""
        self.tools.operation = f"{self.run_id}-{name}"
        return await self._steps.once(name, do)

    def note(self, event: Replied | Called | Observed) -> None:
        """Remember the reply, whose cost is counted before the next one."""
        if isinstance(event, Replied):
            self._replied = event

    def count_cost(self, spent: LoopUsage) -> None:
        """Count what the last reply cost, once."""
        if self._replied is None:
            return
        turn, usage = spent.iterations, self._replied.usage
        provider, _, model = self._replied.model.partition(":")
        taken: dict[str, Json] = {
            "feature_id": self.parts.known.build_id,
            "worker": self.role.value,
            "run": self.run_id,
            "provider": provider,
            "model": model or None,
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cached_input_tokens": usage.cache_read_tokens,
                "cost_usd": self._replied.cost_usd,
            },
        }
        self.parts.call_as_system("usage.record", taken, f"{self.run_id}-{turn}-usage")
        self.call("forge.build_cost", f"{self.run_id}-{turn}-cost")

    def news(self, turn: int, cycle: BuildCycle) -> list[str]:
        """Return what people said; a build that is held ends here, and what it did is kept. Raises: BuildHeld."""
        if self._is_under_way and not cycle.hold and not self.parts.known.has_news(cycle):
            return []
        try:
            news = self.call("forge.build_news", f"{self.run_id}-{turn}-news")
        except ToolRefused as refused:
            if refused.error["code"] == BuildOnHold.code:
                raise BuildHeld(self.parts.known.cycle()) from refused
            raise
        # A process that was killed may have taken the news without telling them: the first call of each returns them.
        self._is_under_way = True
        return list(news["messages"])

    def compacted(self, turn: int, turns: Sequence[Turn]) -> tuple[Turn, ...] | None:
        """Return the conversation in fewer words if it is too long."""
        known, most = self.parts.known, self.parts.rules.compact_at_tokens
        if self._size.of(turns) < most:
            return None
        self.parts.report("the conversation is shortened")
        self.call("forge.build_event", f"{self.run_id}-{turn}-compacted", event=msgspec.to_builtins(Compacted()))
        return compacted(turns, known.recollection(), most, known.tokens)

    def record(self, operation: str, event: RecordedEvent) -> Mapping[str, Any]:
        """Record an event, after the verification that it needs, and what follows from it; raises: ToolRefused."""
        progress = self._recorded(operation, event)
        if progress["signed_off"]:
            self._settle(operation)
        elif progress["missing"]:
            self._track(operation, progress)
        return progress

    def _recorded(self, operation: str, event: RecordedEvent) -> Mapping[str, Any]:
        """Record an event; commits of people are taken in first."""
        said = msgspec.to_builtins(event)
        try:
            self._verify(event, f"{operation}-verify")
            return self.call("forge.build_event", operation, event=said)
        except ToolRefused as refused:
            if refused.error["code"] != BuildBranchMoved.code:
                raise
        self.call("forge.build_take_commits", f"{operation}-take")
        self._verify(event, f"{operation}-verify-taken")
        return self.call("forge.build_event", operation, event=said)

    def _verify(self, event: RecordedEvent, operation: str) -> None:
        if isinstance(event, SignedOff | Audited | Fixed):
            self.parts.report(f"phase {self.parts.known.cycle().current.number}: verifying")
            self.call("forge.build_verify", operation)

    def _settle(self, operation: str) -> None:
        done = self.parts.known.cycle().sign_offs[-1]
        self.parts.report(f"phase {done.phase}, {done.name}: signed off with {count(done.tests, 'test')}")
        self.call(
            "forge.errors_resolve",
            f"{operation}-errors",
            method="phase-complete",
            phase=done.phase,
            gate_run_id=done.gate_run_id,
        )

    def _track(self, operation: str, progress: Mapping[str, Any]) -> None:
        phase = progress["phase"]
        self.parts.report(f"phase {phase}: not signed off, {count(len(progress['missing']), 'reason')}")
        errors = [{"message": text, "source": "sign_off", "phase": phase} for text in progress["missing"]]
        self.call("forge.error_track", f"{operation}-errors", errors=errors)

    def call(self, tool: str, operation: str, **arguments: Json) -> Mapping[str, Any]:
        """Call a tool for this build."""
        return self.parts.call(tool, {"build_id": self.parts.known.build_id, **arguments}, operation)


def fresh_reply(turns: Sequence[Turn]) -> Reply | None:
    """Return the reply that was not answered yet; None if the last one could not be used."""
    if isinstance(turns[-1], UserText):
        return None
    return next(turn for turn in reversed(turns) if isinstance(turn, Reply))
