"""Crew step: the stages of a phase that a team works on; pure.

Scout, then coder; its sign-off, once it is proven, goes to the auditor; findings go to the fixer, and what it leaves is
proven and audited again. A report without a finding that counts signs the phase off.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from aop.core.roles import Role
from aop.core.text.counts import count
from aop.forge.builds.documents import (
    BuildCycle,
    ContractFinding,
    CrewProgress,
    SignedOff,
    Stage,
    Stop,
)
from aop.forge.builds.machine.decisions import Decision, Surroundings, accepted, refused, stopped, the_proof
from aop.forge.builds.machine.events import Audited, ClaimReturned, CrewEvent, Fixed, Scouted
from aop.forge.builds.machine.sign_off import missing_for
from aop.kernel.record.documents.base import revise
from aop.reviews.report import CodeReviewReport, ReviewVerdict, Severity, blocking_findings, check_report

BLOCKING = Severity.MINOR
"""A finding violates a contract: everything but a suggestion has to be repaired."""
ROLES: dict[Stage, Role] = {"scout": Role.SCOUT, "code": Role.CODER, "audit": Role.AUDITOR, "fix": Role.FIXER}
AUDIT = "audit_report"


def role_at_work(cycle: BuildCycle) -> Role:
    """Return the role whose turn it is."""
    return ROLES[cycle.current.crew.stage] if cycle.crew == "team" else Role.FORGE_BUILDER


def crew_step(cycle: BuildCycle, event: CrewEvent, around: Surroundings) -> Decision:
    """Return what follows from the work of a role; nothing if it is another one's turn."""
    stage = cycle.current.crew.stage if cycle.crew == "team" else None
    said = cycle.current.crew.said
    match event:
        case Scouted() if stage == "scout":
            return _scouted(cycle, event, around)
        case Audited() if stage == "audit" and said is not None:
            return _audited(cycle, event, said, around)
        case Fixed() if stage == "fix" and said is not None:
            return _fixed(cycle, event, said, around)
        case ClaimReturned() if stage == "code":
            crew = replace(cycle.current.crew, claimed=None, told=event.reason)
            return Decision(cycle=_with(cycle, crew, around), answer=event.reason)
        case _:
            return Decision(cycle=cycle, answer="")


def _scouted(cycle: BuildCycle, event: Scouted, around: Surroundings) -> Decision:
    """Hand a phase from the scout to the coder, with its report or without one."""
    report = "" if event.report is None else msgspec.json.encode(event.report).decode()
    crew = replace(cycle.current.crew, stage="code", scout_report=report)
    told = f"Phase {cycle.current.number}: the scout reported." if report else "The scout handed in no report."
    return Decision(cycle=_with(cycle, crew, around), answer=told)


def claimed(cycle: BuildCycle, said: SignedOff, now: str) -> BuildCycle:
    """Return a cycle whose coder handed in a sign-off that is still to be judged."""
    crew = replace(cycle.current.crew, claimed=said, claims=cycle.current.crew.claims + 1)
    return revise(cycle, current=replace(cycle.current, crew=crew), updated_at=now)


def audit_due(cycle: BuildCycle, said: SignedOff, around: Surroundings) -> Decision:
    """Hand a phase whose sign-off is proven to the auditor."""
    crew = replace(cycle.current.crew, stage="audit", said=said, claimed=None, told="", findings=())
    answer = f"The files of phase {cycle.current.number} are proven. The auditor reads them now."
    return Decision(
        cycle=_with(cycle, crew, around), answer=answer, commit=f"Phase {said.phase}: {cycle.phases[said.phase]}"
    )


def _audited(cycle: BuildCycle, event: Audited, said: SignedOff, around: Surroundings) -> Decision:
    """Sign a phase off, or hand it to the fixer; a report that cannot be used is asked for again."""
    missing = missing_for(cycle, said, around.deliverables, the_proof(around))
    if missing:
        return refused(cycle, missing, around)
    if event.report is None:
        return _without_report(cycle, "The auditor handed in no report.", around)
    held = check_report(event.report, around.shown)
    paths = tuple(sorted(around.shown))
    found = blocking_in(held.report)
    if not found and held.report.verdict is ReviewVerdict.REQUEST_CHANGES:
        why = "The auditor requests changes, and names no violation in the files of the phase."
        return replace(_without_report(cycle, why, around), audit=held, audited_paths=paths)
    after = _with_findings(cycle, found, around) if found else accepted(cycle, said, around)
    return replace(after, audit=held, audited_paths=paths)


def _fixed(cycle: BuildCycle, event: Fixed, said: SignedOff, around: Surroundings) -> Decision:
    """Hand what the fixer left back to the auditor, or to the coder if it is no longer proven."""
    crew = cycle.current.crew
    missing = missing_for(cycle, said, around.deliverables, the_proof(around))
    if missing:
        return replace(refused(cycle, missing, around), fix_summary=event.fix_summary)
    told = event.fix_summary or "The fixer did not say what it did."
    after = replace(crew, stage="audit", fixes=crew.fixes + 1, told=told)
    return Decision(
        cycle=_with(cycle, after, around),
        answer=f"Phase {cycle.current.number}: the fixer worked on {count(len(crew.findings), 'finding')}.",
        commit=f"Phase {cycle.current.number}, fix {after.fixes}",
        fix_summary=event.fix_summary,
    )


def _with_findings(cycle: BuildCycle, found: tuple[ContractFinding, ...], around: Surroundings) -> Decision:
    crew = replace(cycle.current.crew, stage="fix", findings=found, told="")
    after = _with(cycle, crew, around)
    if crew.fixes >= around.attempts:
        worst = found[0]
        reason = (
            f"Phase {cycle.current.number} still violates `{worst.contract}` ({worst.section}) in `{worst.file_path}`"
            f" after {count(crew.fixes, 'repair')}: {worst.description}"
        )
        return _stopped(after, reason, around)
    told = f"Phase {cycle.current.number}: the auditor has {count(len(found), 'finding')}."
    return Decision(cycle=after, answer=told)


def _without_report(cycle: BuildCycle, why: str, around: Surroundings) -> Decision:
    """Ask the auditor again; after a while, a person."""
    before = cycle.current.attempts
    times = before.get(AUDIT, 0) + 1
    current = replace(cycle.current, attempts={**before, AUDIT: times}, crew=replace(cycle.current.crew, told=why))
    after = revise(cycle, current=current, updated_at=around.now)
    return _stopped(after, why, around) if times >= around.attempts else Decision(cycle=after, answer=why)


def _stopped(cycle: BuildCycle, reason: str, around: Surroundings) -> Decision:
    held = stopped(cycle, Stop(code="EVIDENCE_MISSING", reason=reason), around)
    # One event is one new version of the document.
    return replace(held, cycle=replace(held.cycle, version=cycle.version))


def blocking_in(report: CodeReviewReport) -> tuple[ContractFinding, ...]:
    """Return the findings of a report that have to be repaired, the worst first."""
    return tuple(each for each in blocking_findings(report, BLOCKING) if isinstance(each, ContractFinding))


def _with(cycle: BuildCycle, crew: CrewProgress, around: Surroundings) -> BuildCycle:
    return revise(cycle, current=replace(cycle.current, crew=crew), updated_at=around.now)
