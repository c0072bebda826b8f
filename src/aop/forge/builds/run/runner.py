"""Runner: one model builds all phases, steered from reply to reply."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.brains.budgets import Limit, LoopLimits, LoopUsage
from aop.brains.ports import LimitReached, Mission, ModelFailed, Outcome
from aop.brains.prompts import Prompt
from aop.core.errors import BuildNotFinished, Json
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.forge.builds.context.messages import first_prompt
from aop.forge.builds.run.build_parts import BuildParts
from aop.forge.builds.run.marked_course import MarkedCourse

FOREVER = 1e9
OBSERVATION_CHARS = 131_072
"""As long as the longest contract: what a tool shows is not cut."""


class _Beginning(Struct, frozen=True, kw_only=True):
    """The first step of a run: what it uses until its end."""

    run_id: str
    prompt: Prompt


class BuildEnd(Struct, frozen=True, kw_only=True):
    """The result of a loop that only its steering ends."""


class BuildRunner:
    """The run of a solo build."""

    def __init__(self, parts: BuildParts) -> None:
        self._parts = parts

    async def build(self) -> LoopUsage:
        """Work until every phase is signed off; an interrupted run goes on where it was.

        Raises: BuildHeld, BuildNotFinished, ToolRefused.
        """
        begun, parts = await self._begin(), self._parts
        course = MarkedCourse(parts, Role.FORGE_BUILDER, begun.run_id, fence=begun.prompt.fence)
        mission = Mission(prompt=begun.prompt, result=BuildEnd, finish="", steering=course.steer)
        outcome: Outcome[BuildEnd] = await parts.brain_of(Role.FORGE_BUILDER).run_agentic_loop(
            mission, course.tools, loop_limits(parts), course.note, once=course.once
        )
        if isinstance(outcome, LimitReached | ModelFailed):
            raise not_finished(parts.known.build_id, outcome)
        return outcome.spent

    async def _begin(self) -> _Beginning:
        new_id = self._parts.new_id

        async def begin() -> Json:
            begun = _Beginning(run_id=new_id("build"), prompt=self._prompt(new_id("fence")))
            stored: Json = msgspec.to_builtins(begun)
            return stored

        return msgspec.convert(await self._parts.steps.step("begin", begin), _Beginning)

    def _prompt(self, fence: str) -> Prompt:
        about = self._parts.known.opening()
        return first_prompt(
            about.name, about.description, about.paths, fence=fence, notes=about.notes, questions=about.questions
        )


def loop_limits(parts: BuildParts) -> LoopLimits:
    """Return the limits of a loop of a build: its turns alone, since its cost is capped for the whole build."""
    return LoopLimits(max_iterations=parts.rules.turns, max_seconds=FOREVER, max_observation_chars=OBSERVATION_CHARS)


def not_finished(build_id: str, outcome: LimitReached | ModelFailed) -> BuildNotFinished:
    """Return the refusal of a loop that ended before its work did."""
    spent = outcome.spent.iterations
    if isinstance(outcome, LimitReached):
        return limit_reached(build_id, outcome.limit, spent)
    return BuildNotFinished(
        f"The model of the build `{build_id}` failed after {count(spent, 'turn')}: {outcome.error['message']}",
        build_id=build_id,
        cause=str(outcome.error["code"]),
    )


def limit_reached(build_id: str, limit: Limit, turns: int) -> BuildNotFinished:
    """Return the refusal of a build that used up its turns; all of them count again when it goes on."""
    return BuildNotFinished(
        f"The build `{build_id}` reached its limit of {limit} after {count(turns, 'turn')}.",
        hint=f"Raise `forge.build.turns` in the policy and build again, or end it with `aop forge cancel {build_id}`.",
        build_id=build_id,
        cause=str(limit),
    )
