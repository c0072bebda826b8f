"""Decisions of a build: accept or refuse a sign-off, or stop; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import Fault
from aop.forge.builds.documents import (
    BuildCycle,
    CrewProgress,
    PhaseProgress,
    RefusedSignOff,
    SignedOff,
    SignOff,
    Stop,
)
from aop.forge.builds.machine import marker_answers as answers
from aop.forge.builds.machine.events import TreeProof
from aop.forge.builds.machine.sign_off import Missing, claims_of
from aop.kernel.record.documents.base import revise
from aop.reviews.report import CheckedReport

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
    """The findings of AOP on the tree; only a sign-off and what follows it need them."""
    shown: Mapping[str, Set[int]] = {}
    """For each file that the phase changed, the lines that its diff shows; only an audit needs them."""


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
    audit: CheckedReport | None = None
    """The report of the auditor, held against the diff."""
    audited_paths: tuple[str, ...] = ()
    """The files that the auditor looked at."""
    fix_summary: str | None = None
    """The words of the fixer; None for every other event."""

    @property
    def complete(self) -> bool:
        """Tell whether the last phase was signed off."""
        return self.signed_off is not None and is_complete(self.cycle)


def is_complete(cycle: BuildCycle) -> bool:
    """Tell whether every phase was signed off."""
    return bool(cycle.phases) and len(cycle.sign_offs) >= len(cycle.phases)


def the_proof(around: Surroundings) -> TreeProof:
    """Return the findings of AOP on the tree. Raises: Fault if they were not computed."""
    if around.proof is None:
        raise Fault("A sign-off is judged by its proof, and there is none.")
    return around.proof


def accepted(cycle: BuildCycle, said: SignedOff, around: Surroundings) -> Decision:
    """Sign the current phase off, with the proof of its tree."""
    proof, number = the_proof(around), cycle.current.number
    done = SignOff(
        phase=number,
        name=cycle.phases[number],
        tree=proof.tree,
        commit=proof.commit,
        gate_run_id=proof.gate_run_id,
        tests=proof.tests,
        counted_by=proof.counted_by,
        deliverables=claims_of(said, around.deliverables),
        at=around.now,
    )
    following = PhaseProgress(number=number + 1, start_tree=proof.tree, start_commit=proof.commit)
    is_last = number + 1 >= len(cycle.phases)
    signed = revise(
        cycle,
        sign_offs=(*cycle.sign_offs, done),
        current=cycle.current if is_last else following,
        updated_at=around.now,
    )
    return Decision(cycle=signed, answer="", signed_off=done, commit=f"Phase {number}: {done.name}")


def refused(cycle: BuildCycle, missing: Sequence[Missing], around: Surroundings) -> Decision:
    """Refuse a sign-off for what is missing; the coder of a team is told, and what is missing too often is a STOP."""
    proof = the_proof(around)
    counted = {each.key: cycle.current.attempts.get(each.key, 0) + 1 for each in missing}
    reasons = tuple(each.text for each in missing)
    back = CrewProgress(
        stage="code",
        scout_report=cycle.current.crew.scout_report,
        claims=cycle.current.crew.claims,
        told="\n".join(f"- {reason}" for reason in reasons),
    )
    current = replace(
        cycle.current,
        attempts={**cycle.current.attempts, **counted},
        crew=back if cycle.crew == "team" else cycle.current.crew,
    )
    kept = RefusedSignOff(phase=cycle.current.number, tree=proof.tree, reasons=reasons, at=around.now)
    after = revise(cycle, current=current, refused=(*cycle.refused, kept)[-MOST_REFUSALS:], updated_at=around.now)
    worst = max(missing, key=lambda each: counted[each.key])
    if counted[worst.key] >= around.attempts:
        reason = f"Phase {current.number} was not signed off {counted[worst.key]} times: {worst.text}"
        stop = Stop(code="EVIDENCE_MISSING", reason=reason)
        held = replace(after, hold="stopped", hold_reason=told_stop(stop), stop=stop)
        return Decision(cycle=held, answer="", missing=tuple(missing), stop=stop)
    left = around.attempts - counted[worst.key]
    return Decision(cycle=after, answer=answers.refused(current.number, reasons, left), missing=tuple(missing))


def stopped(cycle: BuildCycle, stop: Stop, around: Surroundings) -> Decision:
    """Hold a build, and ask a person."""
    after = revise(cycle, hold="stopped", hold_reason=told_stop(stop), stop=stop, updated_at=around.now)
    return Decision(cycle=after, answer="", stop=stop)


def told_stop(stop: Stop) -> str:
    """Return a STOP in words."""
    return f"{stop.code}: {stop.reason}" if stop.reason else stop.code
