"""Crew runner: scout, coder, auditor and fixer work on one phase after the other.

Which role is next is read from the record once, and kept as a step of the run: an interrupted run takes the same turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from aop.brains.budgets import Limit, LoopUsage
from aop.brains.ports import Finished, LimitReached, Mission, ModelFailed, Talked
from aop.brains.prompts import Prompt
from aop.core.errors import InvalidArguments, Json
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.forge.builds.context.crew_messages import role_prompt_for
from aop.forge.builds.documents import AuditReport
from aop.forge.builds.machine.crew_step import blocking_in, role_at_work
from aop.forge.builds.machine.decisions import is_complete
from aop.forge.builds.machine.events import LONGEST_REPORT, Audited, Fixed, RecordedEvent, Scouted, ScoutReport, Stopped
from aop.forge.builds.run.build_parts import BuildParts
from aop.forge.builds.run.course import Course
from aop.forge.builds.run.crew.crew_course import CoderCourse, ResultCourse
from aop.forge.builds.run.crew.host_coder import HostCoder
from aop.forge.builds.run.runner import BuildEnd, limit_reached, loop_limits, not_finished
from aop.reviews.report import ReviewVerdict

R = TypeVar("R", bound=Struct)
Ended: TypeAlias = Finished[R] | Talked


class FixReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a fixer."""

    fix_summary: Annotated[str, Meta(max_length=LONGEST_REPORT)]
    """One line for each finding: repaired, or why not."""


class _Session(Struct, frozen=True, kw_only=True):
    """One conversation of a role: what it uses until its end."""

    role: Role
    number: int
    run_id: str
    phase: int
    prompt: Prompt
    found: str
    """The work as the role found it: its tree, plan and finished tasks."""


class CrewRunner:
    """The run of a team's build."""

    def __init__(self, parts: BuildParts, host: HostCoder | None = None) -> None:
        """Take the desk of a coder that another program runs; without one, a model is the coder."""
        self._parts = parts
        self._host = host

    async def build(self) -> None:
        """Work until every phase is signed off; an interrupted run goes on where it was.

        Raises: BuildHeld, BuildNotFinished, ToolRefused.
        """
        turns, number = 0, 1
        while (session := await self._next(number)) is not None:
            turns += (await self._converse(session)).iterations
            if turns >= self._parts.rules.turns:
                raise limit_reached(self._parts.known.build_id, Limit.ITERATIONS, turns)
            number += 1

    async def _next(self, number: int) -> _Session | None:
        """Return the next conversation, as the record says when it is first asked for; None at the end of the build."""

        async def choose() -> Json:
            if self._host is not None:
                await self._host.work()
            stored: Json = msgspec.to_builtins(self._session(number))
            return stored

        return msgspec.convert(await self._parts.steps.step(f"session_{number}", choose), _Session | None)

    def _session(self, number: int) -> _Session | None:
        known, new_id = self._parts.known, self._parts.new_id
        cycle = known.cycle()
        if is_complete(cycle):
            return None
        role = role_at_work(cycle)
        return _Session(
            role=role,
            number=number,
            run_id=new_id("build"),
            phase=cycle.current.number,
            prompt=role_prompt_for(role, known.phase_view(), new_id("fence")),
            found=known.work_so_far(),
        )

    async def _converse(self, session: _Session) -> LoopUsage:
        self._parts.report(f"phase {session.phase}: {session.role}")
        match session.role:
            case Role.SCOUT:
                return await self._ask(session, ScoutReport, lambda report: Scouted(report=report), _check_length)
            case Role.AUDITOR:
                return await self._ask(session, AuditReport, lambda report: Audited(report=report), _check_verdict)
            case Role.FIXER:
                return await self._ask(session, FixReport, _fixed)
            case _:
                return await self._code(session)

    async def _code(self, session: _Session) -> LoopUsage:
        """Let the coder work until its sign-off is proven, or its rounds are used up."""
        course = CoderCourse(
            self._parts, session.phase, session.run_id, fence=session.prompt.fence, prefix=_prefix(session)
        )
        mission = Mission(prompt=session.prompt, result=BuildEnd, finish="", steering=course.steer)
        outcome = await self._loop(session, mission, course)
        await self._end(session, lambda: self._stop_if_idle(session, course))
        return outcome.spent

    def _stop_if_idle(self, session: _Session, course: Course) -> None:
        """Stop a build whose coder used up its rounds and changed nothing; a person says how it goes on."""
        known, rounds = self._parts.known, count(self._parts.rules.rounds.coder, "round")
        cycle = known.cycle()
        if not cycle.hold and role_at_work(cycle) is Role.CODER and known.work_so_far() == session.found:
            reason = f"The coder of phase {session.phase} changed nothing in {rounds}."
            course.record(f"{session.run_id}-idle", Stopped(code="EVIDENCE_MISSING", reason=reason))

    async def _ask(
        self,
        session: _Session,
        shape: type[R],
        event_of: Callable[[R | None], RecordedEvent],
        check: Callable[[R], None] | None = None,
    ) -> LoopUsage:
        """Let a role work until it hands in its result, or its rounds are used up; record what it found."""
        course = ResultCourse(self._parts, session.role, session.run_id, prefix=_prefix(session))
        mission = Mission(prompt=session.prompt, result=shape, check=check, steering=course.steer)
        outcome = await self._loop(session, mission, course)
        course.count_cost(outcome.spent)
        event = event_of(outcome.value if isinstance(outcome, Finished) else None)
        await self._end(session, lambda: course.hand_over(f"{session.run_id}-end", event))
        return outcome.spent

    async def _loop(self, session: _Session, mission: Mission[R], course: CoderCourse | ResultCourse) -> Ended[R]:
        """Run a conversation. Raises: BuildNotFinished."""
        brain, limits = self._parts.brain_of(session.role), loop_limits(self._parts)
        outcome = await brain.run_agentic_loop(mission, course.tools, limits, course.note, once=course.once)
        if isinstance(outcome, LimitReached | ModelFailed):
            raise not_finished(self._parts.known.build_id, outcome)
        return outcome

    async def _end(self, session: _Session, do: Callable[[], None]) -> None:
        """Record the end of a conversation, once."""

        async def end() -> Json:
            do()
            return None

        await self._parts.steps.step(f"{_prefix(session)}end", end)


def _prefix(session: _Session) -> str:
    return f"{session.number}_"


def _fixed(report: FixReport | None) -> Fixed:
    return Fixed(fix_summary="" if report is None else report.fix_summary)


def _check_length(report: ScoutReport) -> None:
    """Refuse a report that would fill the context of the coder. Raises: InvalidArguments."""
    size = len(msgspec.json.encode(report))
    if size > LONGEST_REPORT:
        raise InvalidArguments(
            f"The report has {size:,} bytes; {LONGEST_REPORT:,} are the most. Leave out what is plain."
        )


def _check_verdict(report: AuditReport) -> None:
    """Refuse a report that contradicts itself. Raises: InvalidArguments."""
    if report.verdict is ReviewVerdict.REQUEST_CHANGES and not blocking_in(report):
        raise InvalidArguments("The verdict is `REQUEST_CHANGES`, and no finding is MINOR or worse.")
