"""Step of a build: a cycle and an event make the next cycle; pure.

The phase, as a picture: PLAN, then for each task its files and TASK DONE (a commit), then SIGN-OFF. A sign-off that
counts begins the next phase or completes the build; one that does not is answered with what is missing.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from aop.core.errors import Fault
from aop.forge.builds.documents import BuildCycle, PhaseProgress, SignedOff, Stop
from aop.forge.builds.machine import marker_answers as answers
from aop.forge.builds.machine.crew_step import audit_due, crew_step
from aop.forge.builds.machine.decisions import Decision, Surroundings, accepted, refused, stopped, the_proof
from aop.forge.builds.machine.events import (
    Audited,
    ClaimReturned,
    Compacted,
    Event,
    Fixed,
    Flaw,
    Planned,
    Scouted,
    Stopped,
    TaskDone,
)
from aop.forge.builds.machine.sign_off import missing_for
from aop.kernel.record.documents.base import revise


def step(cycle: BuildCycle, event: Event, around: Surroundings) -> Decision:
    """Return what follows from an event."""
    match event:
        case Planned():
            return _plan(cycle, event, around)
        case TaskDone():
            return _finish_task(cycle, event, around)
        case SignedOff():
            return _sign_off(cycle, event, around)
        case Stopped():
            return stopped(cycle, Stop(code=event.code, reason=event.reason), around)
        case Compacted():
            return Decision(cycle=revise(cycle, compactions=cycle.compactions + 1, updated_at=around.now), answer="")
        case Scouted() | Audited() | Fixed() | ClaimReturned():
            return crew_step(cycle, event, around)
        case Flaw():
            return Decision(cycle=cycle, answer=answers.flaw(event.problem))
        case _:
            assert_never(event)


def resumed_after_stop(cycle: BuildCycle, answer: str, now: str) -> BuildCycle:
    """Return the cycle that goes on with a person's answer to its STOP; what was missing may be missing again."""
    if cycle.stop is None:
        raise Fault("The build has not stopped.")
    told = (*cycle.interjections, answers.stop_answered(cycle.stop.code, answer))
    current = replace(cycle.current, attempts={}, crew=replace(cycle.current.crew, fixes=0))
    return revise(cycle, hold="", hold_reason="", stop=None, current=current, interjections=told, updated_at=now)


def _plan(cycle: BuildCycle, event: Planned, around: Surroundings) -> Decision:
    before = {task.number: task.text for task in cycle.current.plan}
    kept = tuple(
        task.number for task in event.tasks if task.number in cycle.current.done and before[task.number] == task.text
    )
    current = replace(cycle.current, plan=event.tasks, done=kept)
    answer = answers.planned(cycle.current.number, len(event.tasks), len(kept))
    return Decision(cycle=_with(cycle, current, around), answer=answer, planned=True)


def _finish_task(cycle: BuildCycle, event: TaskDone, around: Surroundings) -> Decision:
    current = cycle.current
    task = next((each for each in current.plan if each.number == event.number), None)
    if task is None:
        return Decision(cycle=cycle, answer=answers.unknown_task(event.number, [each.number for each in current.plan]))
    if event.number in current.done:
        return Decision(cycle=cycle, answer=answers.done_already(event.number))
    done = (*current.done, event.number)
    left = [each.number for each in current.plan if each.number not in done]
    return Decision(
        cycle=_with(cycle, replace(current, done=done), around),
        answer=answers.task_done(event.number, left),
        commit=f"Phase {current.number}, task {event.number}: {_subject(task.text)}",
    )


def _sign_off(cycle: BuildCycle, event: SignedOff, around: Surroundings) -> Decision:
    missing = missing_for(cycle, event, around.deliverables, the_proof(around))
    if missing:
        return refused(cycle, missing, around)
    return audit_due(cycle, event, around) if cycle.crew == "team" else accepted(cycle, event, around)


def _with(cycle: BuildCycle, current: PhaseProgress, around: Surroundings) -> BuildCycle:
    return revise(cycle, current=current, updated_at=around.now)


def _subject(text: str) -> str:
    return " ".join(text.split())[:80]
