"""Runner: one model builds all phases, steered from reply to reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from aop.brains.budgets import LoopLimits, LoopUsage
from aop.brains.conversation import Reply, Turn, UserText
from aop.brains.ports import Brain, Called, LimitReached, Mission, ModelFailed, News, Observed, Outcome, Replied
from aop.brains.prompts import Prompt
from aop.core.errors import BuildBranchMoved, BuildNotFinished, BuildOnHold, Json
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.forge.builds.context.compaction import compacted, conversation_tokens
from aop.forge.builds.context.messages import first_prompt, must_read
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.machine import marker_answers
from aop.forge.builds.machine.events import Compacted, Event, Flaw, SignedOff, Stopped
from aop.forge.builds.machine.markers import events_in, hidden_markers
from aop.forge.builds.machine.step import is_complete
from aop.forge.builds.run.agent_tools import AgentTools
from aop.forge.builds.run.knowledge import BuildKnowledge
from aop.forge.generation.stored_steps import CallTool, LoopSteps, StoredSteps, ToolRefused
from aop.kernel.config.workflows import BuildRules
from aop.kernel.ports.handed_in import NewId, Report

FOREVER = 1e9
OBSERVATION_CHARS = 131_072
"""As long as the longest contract: what a tool shows is not cut."""
MOST_TALK = 8
"""The replies in a row without a call or a marker after which the build stops and asks."""


class BuildHeld(Exception):
    """The build does not go on: it was paused, it stopped, or its cap is reached."""

    def __init__(self, cycle: BuildCycle) -> None:
        super().__init__(cycle.hold_reason)
        self.cycle = cycle


class _Beginning(Struct, frozen=True, kw_only=True):
    """The first step of a run: what it uses until its end."""

    run_id: str
    prompt: Prompt


class BuildEnd(Struct, frozen=True, kw_only=True):
    """The result of a loop that only its steering ends."""


class BuildRunner(Struct, frozen=True, kw_only=True):
    """The parts of a solo build."""

    brain: Brain
    steps: StoredSteps
    call: CallTool
    """Calls tools for the person who runs the build."""
    call_as_system: CallTool
    tools: AgentTools
    known: BuildKnowledge
    rules: BuildRules
    new_id: NewId
    report: Report

    async def build(self) -> LoopUsage:
        """Work until every phase is signed off; an interrupted run goes on where it was.

        Raises: BuildHeld, BuildNotFinished, ToolRefused.
        """
        begun = await self._begin()
        course = _Course(self, begun)
        mission = Mission(prompt=begun.prompt, result=BuildEnd, finish="", steering=course.steer)
        limits = LoopLimits(
            max_iterations=self.rules.turns, max_seconds=FOREVER, max_observation_chars=OBSERVATION_CHARS
        )
        outcome: Outcome[BuildEnd] = await self.brain.run_agentic_loop(
            mission, self.tools, limits, course.note, once=course.once
        )
        if isinstance(outcome, LimitReached | ModelFailed):
            raise _not_finished(self.known.build_id, outcome)
        return outcome.spent

    async def _begin(self) -> _Beginning:
        async def begin() -> Json:
            begun = _Beginning(run_id=self.new_id("build"), prompt=self._prompt(self.new_id("fence")))
            stored: Json = msgspec.to_builtins(begun)
            return stored

        return msgspec.convert(await self.steps.step("begin", begin), _Beginning)

    def _prompt(self, fence: str) -> Prompt:
        about = self.known.opening()
        return first_prompt(about.name, about.description, about.paths, fence=fence, notes=about.notes)


class _Course:
    """The course of one loop: hears what the model says, and says what comes next."""

    def __init__(self, runner: BuildRunner, begun: _Beginning) -> None:
        self._runner = runner
        self._run_id = begun.run_id
        self._fence = begun.prompt.fence
        self._steps = LoopSteps(runner.steps, kept=("news_", "reply_", "call_"))
        self._replied: Replied | None = None
        self._is_under_way = False

    async def once(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        """Do a step of the loop once; a call has the operation id of its step."""
        self._runner.tools.operation = f"{self._run_id}-{name}"
        return await self._steps.once(name, do)

    def note(self, event: Replied | Called | Observed) -> None:
        """Remember the reply, whose cost is counted before the next one."""
        if isinstance(event, Replied):
            self._replied = event

    async def steer(self, turns: Sequence[Turn], spent: LoopUsage) -> News:
        """Return what the model is told before its next reply. Raises: BuildHeld, ToolRefused."""
        turn, messages = spent.iterations, list[str]()
        if self._replied is not None:
            self._count_cost(turn, self._replied)
        fresh = _fresh_reply(turns)
        if fresh is not None:
            messages += self._hear(turn, fresh)
            reminder = must_read(turns, self._runner.known.cycle().current.number)
            messages += [] if reminder is None else [reminder]
        cycle = self._runner.known.cycle()
        if is_complete(cycle):
            return News(ended=True)
        messages += self._news(turn, cycle)
        if fresh is not None and not fresh.calls and not messages:
            self._refuse_endless_talk(turn, turns)
            messages.append(marker_answers.what_is_next(cycle.current))
        return News(messages=tuple(messages), conversation=self._compacted(turn, turns))

    def _hear(self, turn: int, reply: Reply) -> list[str]:
        """Record everything that a reply says; return what is answered."""
        answers: list[str] = []
        events = events_in(reply.text)
        for at, event in enumerate(events):
            answers += self._answer(f"{self._run_id}-{turn}-{at}", event)
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
                self._runner.report(f"phase {event.phase}: verifying")
                self._call("forge.build_verify", f"{operation}-verify")
            return self._call("forge.build_event", operation, event=said)
        except ToolRefused as refused:
            if refused.error["code"] != BuildBranchMoved.code:
                raise
        self._call("forge.build_take_commits", f"{operation}-take")
        if isinstance(event, SignedOff):
            self._call("forge.build_verify", f"{operation}-verify-taken")
        return self._call("forge.build_event", operation, event=said)

    def _signed_off(self, operation: str, progress: Mapping[str, Any]) -> list[str]:
        done = self._runner.known.cycle().sign_offs[-1]
        self._runner.report(f"phase {done.phase}, {done.name}: signed off with {count(done.tests, 'test')}")
        self._call(
            "forge.errors_resolve",
            f"{operation}-errors",
            method="phase-complete",
            phase=done.phase,
            gate_run_id=done.gate_run_id,
        )
        return [] if progress["complete"] else [self._runner.known.advancement(self._fence)]

    def _track(self, operation: str, progress: Mapping[str, Any]) -> None:
        phase = progress["phase"]
        self._runner.report(f"phase {phase}: not signed off, {count(len(progress['missing']), 'reason')}")
        errors = [{"message": text, "source": "sign_off", "phase": phase} for text in progress["missing"]]
        self._call("forge.error_track", f"{operation}-errors", errors=errors)

    def _count_cost(self, turn: int, replied: Replied) -> None:
        usage = replied.usage
        provider, _, model = replied.model.partition(":")
        taken: dict[str, Json] = {
            "feature_id": self._runner.known.build_id,
            "worker": Role.FORGE_BUILDER.value,
            "run": self._run_id,
            "provider": provider,
            "model": model or None,
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cached_input_tokens": usage.cache_read_tokens,
                "cost_usd": replied.cost_usd,
            },
        }
        self._runner.call_as_system("usage.record", taken, f"{self._run_id}-{turn}-usage")
        self._call("forge.build_cost", f"{self._run_id}-{turn}-cost")

    def _news(self, turn: int, cycle: BuildCycle) -> list[str]:
        """Return what people said; a build that is held ends here, and what it did is kept. Raises: BuildHeld."""
        if self._is_under_way and not cycle.hold and not self._runner.known.has_news(cycle):
            return []
        try:
            news = self._call("forge.build_news", f"{self._run_id}-{turn}-news")
        except ToolRefused as refused:
            if refused.error["code"] == BuildOnHold.code:
                raise BuildHeld(self._runner.known.cycle()) from refused
            raise
        # A process that was killed may have taken the news without telling them: the first call of each returns them.
        self._is_under_way = True
        return list(news["messages"])

    def _refuse_endless_talk(self, turn: int, turns: Sequence[Turn]) -> None:
        """Stop a build whose model only talks. Raises: BuildHeld."""
        replies = [each for each in turns if isinstance(each, Reply)][-MOST_TALK:]
        if len(replies) < MOST_TALK or any(each.calls or events_in(each.text) for each in replies):
            return
        reason = f"The model replied {MOST_TALK} times without a call or a marker."
        stop = Stopped(code="EVIDENCE_MISSING", reason=reason)
        self._call("forge.build_event", f"{self._run_id}-{turn}-talk", event=msgspec.to_builtins(stop))
        raise BuildHeld(self._runner.known.cycle())

    def _compacted(self, turn: int, turns: Sequence[Turn]) -> tuple[Turn, ...] | None:
        known, most = self._runner.known, self._runner.rules.compact_at_tokens
        if conversation_tokens(turns, known.tokens) < most:
            return None
        self._runner.report("the conversation is shortened")
        self._call("forge.build_event", f"{self._run_id}-{turn}-compacted", event=msgspec.to_builtins(Compacted()))
        return compacted(turns, known.recollection(), most, known.tokens)

    def _call(self, tool: str, operation: str, **arguments: Json) -> Mapping[str, Any]:
        return self._runner.call(tool, {"build_id": self._runner.known.build_id, **arguments}, operation)


def _fresh_reply(turns: Sequence[Turn]) -> Reply | None:
    """Return the reply that was not answered yet; None if the last one could not be used."""
    if isinstance(turns[-1], UserText):
        return None
    return next(turn for turn in reversed(turns) if isinstance(turn, Reply))


def _not_finished(build_id: str, outcome: LimitReached | ModelFailed) -> BuildNotFinished:
    turns = count(outcome.spent.iterations, "turn")
    if isinstance(outcome, LimitReached):
        return BuildNotFinished(
            f"The build `{build_id}` reached its limit of {outcome.limit} after {turns}.",
            build_id=build_id,
            cause=str(outcome.limit),
        )
    return BuildNotFinished(
        f"The model of the build `{build_id}` failed after {turns}: {outcome.error['message']}",
        build_id=build_id,
        cause=str(outcome.error["code"]),
    )
