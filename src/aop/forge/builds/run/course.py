"""Course of a loop: counts its cost, passes on what people say, and shortens it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from aop.brains.budgets import LoopUsage
from aop.brains.conversation import Reply, Turn, UserText
from aop.brains.ports import Called, Observed, Replied
from aop.core.errors import BuildOnHold, Json
from aop.core.roles import Role
from aop.forge.builds.context.compaction import ConversationSize, compacted
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.machine.events import Compacted
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
        self._role = role
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
            "worker": self._role.value,
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

    def call(self, tool: str, operation: str, **arguments: Json) -> Mapping[str, Any]:
        """Call a tool for this build."""
        return self.parts.call(tool, {"build_id": self.parts.known.build_id, **arguments}, operation)


def fresh_reply(turns: Sequence[Turn]) -> Reply | None:
    """Return the reply that was not answered yet; None if the last one could not be used."""
    if isinstance(turns[-1], UserText):
        return None
    return next(turn for turn in reversed(turns) if isinstance(turn, Reply))
