"""Progress tools: `forge.build_event`, `forge.build_verify`, `forge.build_news`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from aop.core.errors import BuildOnHold, Json
from aop.core.ids import FeatureId
from aop.core.redaction.redactor import mask_json
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.builds.cycle.abandonment import given_up
from aop.forge.builds.cycle.commits import commit_and_push, unchanged_cycle
from aop.forge.builds.cycle.lookup import the_living_cycle
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.machine.decisions import Decision, Surroundings
from aop.forge.builds.machine.events import Audited, RecordedEvent
from aop.forge.builds.machine.step import resumed_after_stop, step
from aop.forge.builds.people.notes import note_digest, note_message, note_of
from aop.forge.builds.run.crew.crew_events import crew_events, judged_sign_off, phase_lines
from aop.forge.builds.run.proof import deliverables_of_phase, proof_of
from aop.forge.builds.run.tree_verification import run_verification, verification_plan
from aop.forge.builds.tools.cycles import BuildArguments
from aop.kernel.features.questions import put_question
from aop.kernel.features.worktree_hold import held_worktree
from aop.kernel.gates.gate_runs import record_run
from aop.kernel.gates.steps import with_verdict
from aop.kernel.gateway.calls import Call, Outcome, Tool, committed, feature_named
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.merges.branch_moves import undo_move
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, Verdict
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import Snapshot, Transaction

E = TypeVar("E", bound=RecordedEvent)


class BuildSaid(BuildArguments, frozen=True, kw_only=True):
    event: RecordedEvent
    """A plan, a finished task, a sign-off or a stop of the model, the report of a role of a team; or that its
    conversation was shortened."""


class BuildProgress(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    phase: int
    """The phase that is being built now."""
    answer: str
    """The answer for the model; empty if the next message says it."""
    commit: str
    """The commit of the branch now."""
    signed_off: bool
    """Whether a phase was signed off."""
    complete: bool
    """Whether all phases are."""
    missing: tuple[str, ...]
    """The reasons why a sign-off does not count."""
    hold: str
    """Why the build does not go on; empty if it does."""


class VerifiedTree(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    tree: str
    """The files that were verified."""
    gate_run_id: str
    """The run."""
    passed: bool
    """Whether every step passed."""
    failure: str
    """Why it did not pass; empty if it did."""
    reused: bool
    """True when nothing ran, because the same verification passed on the same files before."""


class BuildNews(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    messages: tuple[str, ...]
    """The messages for the model, before its next reply."""


def hear(call: Call, arguments: BuildSaid) -> Outcome:
    """Record what a model said, with the commit that belongs to it."""
    return heard(call, arguments.build_id, arguments.event)


def without_secrets(call: Call, event: E) -> E:
    """Return an event as the record may keep it; none of its texts gets longer than its shape allows."""
    mask = call.kernel.redact.mask_secrets
    masked = mask_json(msgspec.to_builtins(event), lambda text: mask(text)[: len(text)])
    return msgspec.convert(masked, type=type(event))


def heard(
    call: Call,
    build_id: str,
    event: RecordedEvent,
    answer: Callable[[Transaction, BuildProgress], Outcome] = lambda _tx, progress: progress,
    admit: Callable[[Snapshot], object] = lambda _view: None,
) -> Outcome:
    """Take an event of a build into the record, with the commit that belongs to it; `answer` words what is returned.

    `admit` refuses a build that does not take the event now: it is asked when nothing else can change the build.
    """
    kernel, event = call.kernel, without_secrets(call, event)
    with held_worktree(kernel, FeatureId(build_id)):
        with kernel.record.read() as view:
            cycle = the_living_cycle(view, build_id, call.principal)
            admit(view)
            state = feature_named(view, cycle.build_id)
            around = _surroundings(call, view, cycle, state, event)
        decision = step(cycle, event, around)
        if not decision.commit or kernel.git.objects.tree_of(cycle.head) == state.tree:
            return call.commit(lambda tx: answer(tx, _stored(call, tx, cycle, decision)))
        return commit_and_push(
            call,
            cycle,
            state.tree,
            decision.commit,
            store=lambda tx, moved: answer(tx, _stored(call, tx, moved, step(moved, event, _at(around, moved)))),
        )


def _surroundings(
    call: Call, view: Snapshot, cycle: BuildCycle, state: FeatureState, event: RecordedEvent
) -> Surroundings:
    kernel, said = call.kernel, judged_sign_off(cycle, event)
    return Surroundings(
        now=kernel.now(),
        attempts=kernel.config().policy.forge.build.attempts,
        deliverables=deliverables_of_phase(AuditSubject(call, view, cycle, state)),
        proof=None if said is None else proof_of(call, view, cycle, state, said),
        shown=phase_lines(kernel, cycle, state.tree) if isinstance(event, Audited) else {},
    )


def _at(around: Surroundings, cycle: BuildCycle) -> Surroundings:
    """Return the surroundings after the commit of the tree that was proven."""
    proof = around.proof
    return around if proof is None else replace(around, proof=replace(proof, commit=cycle.head))


def _stored(call: Call, tx: Transaction, before: BuildCycle, decision: Decision) -> BuildProgress:
    unchanged_cycle(tx, before)
    cycle = decision.cycle
    if decision.stop is not None:
        question = _ask(call, tx, cycle)
        cycle = replace(cycle, stop=replace(decision.stop, question_id=question.question_id))
    if cycle != before:
        tx.put(cycle, cycle.build_id)
    _record(call, tx, before, decision)
    return BuildProgress(
        build_id=cycle.build_id,
        phase=cycle.current.number,
        answer=decision.answer,
        commit=cycle.head,
        signed_off=decision.signed_off is not None,
        complete=decision.complete,
        missing=tuple(each.text for each in decision.missing),
        hold=cycle.hold,
    )


def _ask(call: Call, tx: Transaction, cycle: BuildCycle) -> Question:
    text = f"The build {cycle.build_id} stopped. {cycle.hold_reason}"
    return put_question(tx, call, FeatureId(cycle.build_id), "question", text, detail={"stop": cycle.hold_reason})


def _record(call: Call, tx: Transaction, before: BuildCycle, decision: Decision) -> None:
    """Tell those who follow the build."""
    name, phase = FeatureId(before.build_id), before.current.number
    facts: dict[str, Json] = {"build_id": before.build_id, "project_id": before.project_id, "phase": phase}
    if decision.planned:
        plan = [f"{task.number}. {task.text}" for task in decision.cycle.current.plan]
        tx.append(call.event("plan_complete", name, **facts, tasks=plan))
    elif decision.signed_off is not None:
        done = decision.signed_off
        proven: dict[str, Json] = {"tree": done.tree, "commit": done.commit, "gate_run_id": done.gate_run_id}
        counted: dict[str, Json] = {"tests": done.tests, "counted_by": done.counted_by}
        tx.append(call.event("phase_complete", name, **facts, name=done.name, **proven, **counted))
    elif decision.missing:
        why: list[Json] = [each.text for each in decision.missing]
        tx.append(call.event("sign_off_refused", name, **facts, missing=why))
    for kind, payload in crew_events(before, decision):
        tx.append(call.event(kind, name, **facts, **payload))
    if decision.stop is not None:
        tx.append(call.event("build_paused", name, **facts, code=decision.stop.code, reason=decision.stop.reason))
    if decision.answer:
        tx.append(call.event("build_log", name, **facts, level="info", source="aop", message=decision.answer))


def verify(call: Call, arguments: BuildArguments) -> Outcome:
    """Run the verification of the pinned directive on exactly the files of a build."""
    kernel = call.kernel
    with held_worktree(kernel, FeatureId(arguments.build_id)):
        with kernel.record.read() as view:
            cycle = the_living_cycle(view, arguments.build_id, call.principal)
            state = feature_named(view, cycle.build_id)
            subject = AuditSubject(call, view, cycle, state)
            plan, known = verification_plan(state, subject.verify_commands, kernel.config()), subject.verification
        if known is not None and known.verdict is Verdict.PASS and known.subject == plan.subject:
            return call.commit(lambda _tx: _verified(cycle, known, reused=True))
        finished = run_verification(call, state, plan)
        return call.commit(lambda tx: _recorded(call, tx, cycle, finished))


def _recorded(call: Call, tx: Transaction, cycle: BuildCycle, finished: GateRun) -> VerifiedTree:
    state = feature_named(tx, cycle.build_id)
    record_run(tx, call, state, with_verdict(state, finished), finished)
    return _verified(cycle, finished, reused=False)


def _verified(cycle: BuildCycle, run: GateRun, *, reused: bool) -> VerifiedTree:
    return VerifiedTree(
        build_id=cycle.build_id,
        tree=run.subject.tree,
        gate_run_id=run.run_id,
        passed=run.verdict is Verdict.PASS,
        failure=run.failure or "",
        reused=reused,
    )


def take_news(call: Call, arguments: BuildArguments, tx: Transaction) -> Outcome:
    """Return what people said to a build, each text once; an answered STOP lets it go on. Raises: BuildOnHold."""
    before = the_living_cycle(tx, arguments.build_id, call.principal)
    now = call.kernel.now()
    answer = _stop_answer(tx, before)
    cycle = before if answer is None else resumed_after_stop(before, answer, now)
    if cycle.hold:
        ended = given_up(call, tx, before)
        if ended is not None:
            return ended
        raise BuildOnHold(
            f"The build `{cycle.build_id}` does not go on: {cycle.hold_reason or cycle.hold}.",
            build_id=cycle.build_id,
            hold=cycle.hold,
        )
    note = note_of(tx, cycle.project_id, cycle.owner)
    changed = note_message(cycle.note_shown, note)
    messages = (*cycle.interjections, *(() if changed is None else (changed,)))
    if messages or cycle != before:
        told = replace(cycle, version=before.version)
        tx.put(revise(told, interjections=(), note_shown=note_digest(note), updated_at=now), cycle.build_id)
        facts: dict[str, Json] = {"build_id": cycle.build_id, "project_id": cycle.project_id}
        if answer is not None:
            tx.append(call.event("build_resumed", FeatureId(cycle.build_id), **facts))
        for text in messages:
            said = {**facts, "level": "info", "source": "user", "message": text}
            tx.append(call.event("build_log", FeatureId(cycle.build_id), **said))
    return BuildNews(build_id=cycle.build_id, messages=messages)


def _stop_answer(tx: Transaction, cycle: BuildCycle) -> str | None:
    if cycle.stop is None or not cycle.stop.question_id:
        return None
    question = tx.get(Question, cycle.stop.question_id)
    return None if question is None else question.answer


TOOLS = (
    Tool(
        name="forge.build_event",
        summary="Record what the model of a build said: its plan, a finished task, a sign-off, or that it stops.",
        arguments=BuildSaid,
        output=BuildProgress,
        roles=COORDINATORS,
        run=hear,
        mutates=True,
        person_only=True,
        resolve=undo_move,
    ),
    Tool(
        name="forge.build_verify",
        summary="Run the verification of a build on exactly its files, and record the verdict.",
        arguments=BuildArguments,
        output=VerifiedTree,
        roles=COORDINATORS,
        run=verify,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="forge.build_news",
        summary="Return what people said to a build since its model was last told, each text once.",
        arguments=BuildArguments,
        output=BuildNews,
        roles=COORDINATORS,
        run=committed(take_news),
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
