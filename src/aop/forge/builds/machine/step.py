"""Step of a build: a cycle and an event make the next cycle; pure.

The phase, as a picture: PLAN, then for each task its files and TASK DONE (a commit), then SIGN-OFF. A sign-off that
counts begins the next phase or completes the build; one that does not is answered with what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import Fault
from aop.forge.builds.documents import BuildCycle, PhaseProgress, RefusedSignOff, SignOff, Stop
from aop.forge.builds.machine import marker_answers as answers
from aop.forge.builds.machine.events import Compacted, Event, Flaw, Planned, SignedOff, Stopped, TaskDone, TreeProof
from aop.forge.builds.machine.sign_off import Missing, claims_of, missing_for
from aop.kernel.record.documents.base import revise

MOST_REFUSALS = 200
"""The refused sign-offs that a cycle keeps; the journal has all of them."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """The things that a step depends on beside the cycle and the event."""

    now: str
    attempts: int
    """The number of times that one thing may be missing before the build stops."""
    deliverables: tuple[str, ...] = ()
    """The deliverables of the current phase."""
    proof: TreeProof | None = None
    """The findings of AOP on the tree; only a sign-off needs them."""


class Decision(Struct, frozen=True, kw_only=True):
    """The next cycle, and what follows from it."""

    cycle: BuildCycle
    answer: str
    """The answer for the model; empty if a message of its own follows."""
    commit: str = ""
    """The subject of the commit that belongs to it; empty without one."""
    planned: bool = False
    signed_off: SignOff | None = None
    missing: tuple[Missing, ...] = ()
    stop: Stop | None = None

    @property
    def complete(self) -> bool:
        """Tell whether the last phase was signed off."""
        return self.signed_off is not None and is_complete(self.cycle)


def is_complete(cycle: BuildCycle) -> bool:
    """Tell whether every phase was signed off."""
    return bool(cycle.phases) and len(cycle.sign_offs) >= len(cycle.phases)


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
            return _stop(cycle, Stop(code=event.code, reason=event.reason), around)
        case Compacted():
            return Decision(cycle=revise(cycle, compactions=cycle.compactions + 1, updated_at=around.now), answer="")
        case Flaw():
            return Decision(cycle=cycle, answer=answers.flaw(event.problem))
        case _:
            assert_never(event)


def resumed_after_stop(cycle: BuildCycle, answer: str, now: str) -> BuildCycle:
    """Return the cycle that goes on with a person's answer to its STOP; what was missing may be missing again."""
    if cycle.stop is None:
        raise Fault("The build has not stopped.")
    told = (*cycle.interjections, answers.stop_answered(cycle.stop.code, answer))
    current = replace(cycle.current, attempts={})
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
    if around.proof is None:
        raise Fault("A sign-off is judged by its proof, and there is none.")
    missing = missing_for(cycle, event, around.deliverables, around.proof)
    if missing:
        return _refuse(cycle, missing, around.proof, around)
    proof, number = around.proof, cycle.current.number
    accepted = SignOff(
        phase=number,
        name=cycle.phases[number],
        tree=proof.tree,
        commit=proof.commit,
        gate_run_id=proof.gate_run_id,
        tests=proof.tests,
        counted_by=proof.counted_by,
        deliverables=claims_of(event, around.deliverables),
        at=around.now,
    )
    following = PhaseProgress(number=number + 1, start_tree=proof.tree, start_commit=proof.commit)
    is_last = number + 1 >= len(cycle.phases)
    signed = revise(
        cycle,
        sign_offs=(*cycle.sign_offs, accepted),
        current=cycle.current if is_last else following,
        updated_at=around.now,
    )
    return Decision(cycle=signed, answer="", signed_off=accepted, commit=f"Phase {number}: {accepted.name}")


def _refuse(cycle: BuildCycle, missing: Sequence[Missing], proof: TreeProof, around: Surroundings) -> Decision:
    counted = {each.key: cycle.current.attempts.get(each.key, 0) + 1 for each in missing}
    current = replace(cycle.current, attempts={**cycle.current.attempts, **counted})
    reasons = tuple(each.text for each in missing)
    refused = RefusedSignOff(phase=cycle.current.number, tree=proof.tree, reasons=reasons, at=around.now)
    after = revise(cycle, current=current, refused=(*cycle.refused, refused)[-MOST_REFUSALS:], updated_at=around.now)
    worst = max(missing, key=lambda each: counted[each.key])
    if counted[worst.key] >= around.attempts:
        reason = f"Phase {current.number} was not signed off {counted[worst.key]} times: {worst.text}"
        stop = Stop(code="EVIDENCE_MISSING", reason=reason)
        held = replace(after, hold="stopped", hold_reason=_told(stop), stop=stop)
        return Decision(cycle=held, answer="", missing=tuple(missing), stop=stop)
    left = around.attempts - counted[worst.key]
    return Decision(cycle=after, answer=answers.refused(current.number, reasons, left), missing=tuple(missing))


def _stop(cycle: BuildCycle, stop: Stop, around: Surroundings) -> Decision:
    after = revise(cycle, hold="stopped", hold_reason=_told(stop), stop=stop, updated_at=around.now)
    return Decision(cycle=after, answer="", stop=stop)


def _told(stop: Stop) -> str:
    return f"{stop.code}: {stop.reason}" if stop.reason else stop.code


def _with(cycle: BuildCycle, current: PhaseProgress, around: Surroundings) -> BuildCycle:
    return revise(cycle, current=current, updated_at=around.now)


def _subject(text: str) -> str:
    return " ".join(text.split())[:80]
