"""Step: the next action for one feature, a pure function of state and event.

    planning --plan.submit--> building --patch, fast gates--> qa --(QA's review) full gates--> ready_to_merge

Tools decide every step; a refusal goes back to the worker that made the proposal, with all earlier attempts.
"""

from __future__ import annotations

from typing import assert_never

import msgspec
from msgspec.structs import replace

from aop.core.errors import InvalidArguments, NobodyAnsweredInTime, UnknownFeature
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.kernel.config.gates import Mode
from aop.kernel.features.opened_paths import NO, YES
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.questions import STOP
from aop.supervisor.policy import comment_answers, qa_turns, state
from aop.supervisor.policy.attempts import (
    SAME_ANSWER,
    attempt_history,
    fails_alike,
    fingerprint_of,
    last_refusal,
    stuck_error,
    stuck_question,
    turns_used_up_error,
    with_attempt,
    with_outcome,
)
from aop.supervisor.policy.authorisations import ALLOWED, cap_reached_error, network_question, withhold
from aop.supervisor.policy.collisions import AskAbout, WaitFor, arbitrate, strategy_in_force
from aop.supervisor.policy.conflicts import (
    FOLLOW_BASE,
    RESOLUTION_TURNS,
    RESOLVE,
    conflict_question,
    has_conflict,
    on_conflict_answer,
    with_conflict,
)
from aop.supervisor.policy.faults import fault_question, is_retried
from aop.supervisor.policy.instructions import AMEND, INSTRUCTIONS, LADDER, MOVED, REVIEW
from aop.supervisor.policy.state import Action, Event, FeatureRun, NobodyAnswered, PersonAnswered, Rung, TurnWithheld
from aop.supervisor.policy.tool_calls import judging_call, lock_call, unblock, with_reported_status
from aop.supervisor.policy.troubles import postpone
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, ToolResult, WorkerOutput, WorkerRequest

OTHERS_IN_THE_WAY = frozenset({"collision_detected", "lock_conflict"})
Decision = tuple[FeatureRun, Action]


def step(run: FeatureRun, event: Event) -> Decision:
    """Return the feature's state after an event, and the next action."""
    match event:
        case state.Began():
            return qa_turns.with_review_due(state.fresh_run(run)), state.CallTool(
                role=Role.ORCHESTRATOR, tool="feature.init"
            )
        case state.ToolAnswered():
            return _on_tool_answer(with_reported_status(run, event.result), event)
        case state.WorkerAnswered():
            return _on_worker_answer(replace(run, turns=run.turns + 1, pending=None), event.output)
        case state.WorkerFailed():
            return _on_worker_failure(replace(run, turns=run.turns + 1), event)
        case TurnWithheld() | PersonAnswered() | NobodyAnswered():
            return _on_person_or_cap(run, event)
        case state.WayCleared():
            return _on_way_cleared(run, event)
        case state.HeldBack() | state.Resumed() | state.TurnPostponed():
            return _on_pause(run, event)
        case _:
            assert_never(event)


def _next_phase(run: FeatureRun) -> Decision:
    """Begin the phase that the feature's status names."""
    match run.status:
        case Status.PLANNING | Status.BUILDING:
            role = Role.PLANNER if run.status is Status.PLANNING else Role.BUILDER
            return _ask_worker(qa_turns.with_review_due(replace(run, role=role)))
        case Status.QA:
            return _begin_proof(run)
        case Status.BLOCKED:
            return run, state.CallTool(role=Role.ORCHESTRATOR, tool="feature.state_get")
        case Status.READY_TO_MERGE | Status.MERGED | Status.FAILED:
            return run, state.Finish(status=run.status)
        case _:
            assert_never(run.status)


def _begin_proof(run: FeatureRun) -> Decision:
    """Run the full gates; before them QA takes the turn that is due."""
    run = replace(run, role=Role.QA)
    if run.review is state.Review.DUE:
        return _ask_worker(state.with_fresh_phase(replace(run, review=state.Review.OPEN)))
    return run, state.RunGates(role=Role.QA, mode=Mode.FULL)


def _ask_worker(run: FeatureRun, instructions: str = "") -> Decision:
    """Give the current worker a turn, as long as the phase has turns left."""
    conflict = run.conflict if run.role is not Role.PLANNER else None
    if conflict is not None and run.turns >= RESOLUTION_TURNS:
        return replace(run, conflict_asked=True), conflict_question(run, conflict)
    if run.turns >= run.turns_allowed:
        return _on_turns_used_up(run)
    own = REVIEW if qa_turns.is_review(run) else INSTRUCTIONS[run.role]
    own = own if conflict is None else RESOLVE
    words = filter(None, [instructions or own, LADDER[run.rung]])
    results = (*((conflict,) if conflict else ()), *run.results, *attempt_history(run))
    return run, state.AskWorker(role=run.role, instructions="\n".join(words), results=results)


def _on_turns_used_up(run: FeatureRun) -> Decision:
    """Ask a person once in a phase; after that the feature has failed (C-23)."""
    if run.asked:
        return run, state.Finish(status=Status.FAILED, error=turns_used_up_error(run))
    used_up = f"The {run.role} of `{run.feature_id}` used its {count(run.turns_allowed, 'turn')}."
    return _question_for_person(run, f"{used_up}{last_refusal(run)} What should it do?")


def _question_for_person(run: FeatureRun, question: str) -> Decision:
    detail = {"attempts": msgspec.to_builtins(run.attempts)}
    return replace(run, asked=True), state.AskPerson(question=question, detail=detail, gate="escalation")


def _on_person_or_cap(run: FeatureRun, event: TurnWithheld | PersonAnswered | NobodyAnswered) -> Decision:
    """Ask before a turn that a cap does not allow; hand an answer to the worker, or to the turn that waits for it."""
    if isinstance(event, TurnWithheld):
        return withhold(run, event)
    if isinstance(event, NobodyAnswered):
        unanswered = NobodyAnsweredInTime(f"No answer in time: {event.question}", feature_id=run.feature_id)
        return run, state.Finish(status=Status.BLOCKED, error=unanswered.as_error())
    if run.fault is not None and event.answer == STOP:
        return run, state.Finish(status=Status.BLOCKED, error=run.fault)
    ruling = on_conflict_answer(run, event.answer)
    return ruling if ruling is not None else _on_answer(replace(run, conflict_asked=False), event)


def _on_answer(run: FeatureRun, event: PersonAnswered) -> Decision:
    if isinstance(run.held_back, state.RunGates):
        if event.answer == YES:
            return replace(run, held_back=None), run.held_back
        run = replace(run, held_back=None)
    if run.offered and event.answer == YES:
        return replace(run, offered=False), state.CallTool(role=Role.ORCHESTRATOR, tool="feature.state_get")
    if run.held_back is None:
        run = replace(run, offered=False, fault=None)
        said = ToolResult(tool="person", ok=True, data={"question": event.question, "answer": event.answer})
        return _ask_worker(replace(run, turns=0, attempts=(), rung=Rung.NONE, results=(*run.results, said)))
    if event.answer in ALLOWED:
        return replace(run, held_back=None, fault=None), run.held_back
    return run, state.Finish(status=Status.BLOCKED, error=cap_reached_error(run.feature_id))


def _on_way_cleared(run: FeatureRun, event: state.WayCleared) -> Decision:
    """Submit the waiting proposal again, unless the kernel has accepted the plan meanwhile."""
    is_let_in = event.status not in (run.status, Status.BLOCKED)
    if event.moved and not is_let_in:
        # The proposal was made on another base.
        return _ask_worker(replace(run, pending=None), MOVED if run.role is Role.PLANNER else "")
    return _next_phase(state.with_fresh_phase(replace(run, status=event.status))) if is_let_in else _resubmit(run)


def _on_pause(run: FeatureRun, event: state.HeldBack | state.Resumed | state.TurnPostponed) -> Decision:
    """Keep the action that a pause or a provider held back, and perform it when that ends."""
    if isinstance(event, state.TurnPostponed):
        return postpone(run, event)
    if isinstance(event, state.HeldBack):
        return replace(run, held_back=event.action), state.Rest()
    return (replace(run, held_back=None), run.held_back) if run.held_back else _next_phase(run)


def _on_worker_answer(run: FeatureRun, output: WorkerOutput) -> Decision:
    fingerprint = fingerprint_of(output)
    if any(attempt.fingerprint == fingerprint for attempt in run.attempts):
        if run.revisions and isinstance(output, PlanSubmission):
            # The planner has no other plan: the feature that holds the files goes first.
            return _resolve_collision(replace(run, pending=output), run.results[0])
        return _escalate(with_attempt(run, fingerprint, SAME_ANSWER))
    run = qa_turns.with_claims(run, output)
    match output:
        case PatchProposal() | Note() if output.qa_index and run.role is not Role.QA:
            return _give_back(run, fingerprint)
        case PlanSubmission() if run.role is Role.PLANNER:
            return _submit_proposal(with_attempt(run, fingerprint, ""), output)
        case PatchProposal() if run.role is not Role.PLANNER:
            return _submit_marked(with_attempt(run, fingerprint, ""), output)
        case Note():
            return _submit_marked(with_attempt(run, fingerprint, "a note, and no proposal"), output)
        case WorkerRequest():
            return _on_worker_request(run, output)
        case _:
            return _give_back(run, fingerprint)


def _give_back(run: FeatureRun, fingerprint: str) -> Decision:
    """Return an answer to the worker whose step it does not fit."""
    misplaced = InvalidArguments("This kind of answer does not fit this step.", hint=INSTRUCTIONS[run.role])
    given_back = ToolResult(tool="worker", ok=False, error=misplaced.as_error())
    return _escalate(with_attempt(replace(run, results=(given_back,)), fingerprint, misplaced.code))


def _on_worker_failure(run: FeatureRun, event: state.WorkerFailed) -> Decision:
    """Return the error to the worker, beside the earlier results of tools; or ask a person whether to go on."""
    proofs = tuple(result for result in run.results if result.tool != "worker")
    failed = ToolResult(tool="worker", ok=False, error=event.error)
    run = with_attempt(replace(run, results=(*proofs, failed)), "", str(event.error["code"]))
    if is_retried(run, event.error) and run.turns < run.turns_allowed:
        return _ask_worker(replace(run, rung=Rung.NUDGE))
    return replace(run, fault=event.error), fault_question(run, event.error, msgspec.to_builtins(run.attempts))


def _submit_marked(run: FeatureRun, answer: PatchProposal | Note) -> Decision:
    """Have QA's marks judged before the rest of its answer: a patch changes the hunks that they name."""
    if not qa_turns.marks_in(answer):
        return _submit_proposal(run, answer)
    return replace(run, pending=answer), qa_turns.read_index()


def _on_index_answer(run: FeatureRun, result: ToolResult) -> Decision:
    """Record QA's marks or proven claims, and go on with the rest of its answer, or with the proven feature."""
    update = qa_turns.index_update(run, result.data) if result.tool == qa_turns.READ_INDEX else None
    if update is not None:
        return run, update
    return _after_proof(run) if run.proof else _resubmit(run)


def _after_proof(run: FeatureRun) -> Decision:
    return _next_phase(replace(state.with_fresh_phase(run), claims=(), proof=""))


def _submit_proposal(run: FeatureRun, proposal: PlanSubmission | PatchProposal | Note) -> Decision:
    """Hand a proposal to the tool that judges it, or a note to the journal."""
    return replace(run, pending=proposal), judging_call(run.role, proposal)


def _on_worker_request(run: FeatureRun, asked: WorkerRequest) -> Decision:
    match asked.request:
        case "context":
            # The next turn brings the whole context; the same request twice is a circle.
            return _ask_worker(with_attempt(run, fingerprint_of(asked), "a request, and no proposal"))
        case "question":
            question = str(asked.detail.get("question") or asked.detail.get("text") or "What should be done here?")
            default = asked.detail.get("default")
            stated = default if isinstance(default, str) and default else None
            return run, state.AskPerson(question=question, detail=asked.detail, default=stated)
        case "lock":
            return run, lock_call(str(asked.detail.get("resource", "")))
        case "path":
            wanted = {name: str(asked.detail.get(name, "")) for name in ("path", "reason")}
            run = with_attempt(run, fingerprint_of(asked), "a request, and no proposal")
            return run, state.CallTool(role=run.role, tool="inbox.ask_path", arguments=wanted)
        case "amend_plan":
            amendment = ToolResult(tool="amend_plan", ok=False, data=asked.detail)
            return _ask_worker(replace(run, role=Role.PLANNER, results=(*run.results, amendment)), AMEND)
        case _:
            assert_never(asked.request)


def _on_tool_answer(run: FeatureRun, event: state.ToolAnswered) -> Decision:
    result = event.result
    # Words that are refused change nothing: the proposal beside them was accepted.
    if not result.ok and result.tool != comment_answers.ANSWER:
        run = replace(run, role=Role.QA) if run.status is Status.QA else run
        return network_question(run, event) or _on_refusal(qa_turns.after_tool(run, result), result)
    match result.tool:
        case "gates.run":
            return _on_gates_passed(qa_turns.after_tool(run, result), event.mode)
        case "plan.submit" | "plan.update" | "repo.apply_patch" | "feature.log_append" | comment_answers.ANSWER:
            return _after_proposal(run, result)
        case "locks.acquire":
            return _resubmit(replace(run, results=(*run.results, result)))
        case "inbox.ask_path" | "repo.follow_base":
            return _continue_worker(run, result)
        case qa_turns.READ_INDEX | qa_turns.UPDATE_INDEX:
            return _on_index_answer(run, result)
        case _:
            return _begin_phase(run, result)


def _after_proposal(run: FeatureRun, result: ToolResult) -> Decision:
    """Record what an accepted answer says of people's comments; then go on with the feature."""
    words = None if result.tool == comment_answers.ANSWER else comment_answers.answer_call(run)
    if words is not None:
        return run, words
    judged_by = comment_answers.judging_tool(run, result)
    if judged_by.startswith("plan."):
        return _next_phase(state.with_fresh_phase(run))
    if judged_by == "feature.log_append" and not comment_answers.settles(result):
        # Where nothing has failed yet, QA may have nothing to change.
        return _begin_proof(run) if qa_turns.is_review(run) else _ask_worker(run)
    return run, state.RunGates(role=run.role, mode=Mode.FAST)


def _on_gates_passed(run: FeatureRun, mode: Mode | None) -> Decision:
    """Record the claims that are proven now; begin the full gates after the fast ones, or the next phase."""
    if run.proof:
        return run, qa_turns.read_index()
    if run.status is Status.QA and mode is Mode.FAST:
        return _begin_proof(replace(run, conflict=None))
    if run.status is Status.BUILDING and mode is Mode.FAST and run.qa_after is Mode.FULL:
        return run, state.RunGates(role=run.role, mode=Mode.FULL)
    return _next_phase(state.with_fresh_phase(run))


def _begin_phase(run: FeatureRun, result: ToolResult) -> Decision:
    """Begin the phase of the feature's status; edits of a person are proven before an agent gets a turn."""
    if result.tool == "feature.state_get":
        return run, unblock(result.data)
    if result.tool == "feature.init" and result.data.get("unproven"):
        return replace(run, role=Role.BUILDER), state.RunGates(role=Role.BUILDER, mode=Mode.FAST)
    return _next_phase(run)


def _on_moved_base(run: FeatureRun, followed: ToolResult) -> Decision:
    """Let a builder resolve a conflict with the base branch; a feature that was moved cleanly is proven again."""
    if has_conflict(followed):
        return _ask_worker(with_conflict(run, followed))
    role = Role.QA if run.status is Status.QA else run.role
    return replace(run, role=role), state.RunGates(role=role, mode=Mode.FAST)


def _continue_worker(run: FeatureRun, result: ToolResult) -> Decision:
    """Give the worker its next turn; a request for a guarded path waits for a person unless it is open already."""
    if result.tool == FOLLOW_BASE:
        return _on_moved_base(run, result)
    asked = result.data
    if asked["is_open"]:
        return _ask_worker(replace(run, results=(*run.results, result)))
    return run, state.AskPerson(
        question=asked["text"], gate="authorisation", choices=(YES, NO), question_id=asked["question_id"]
    )


def _on_refusal(run: FeatureRun, result: ToolResult) -> Decision:
    """Return a refusal to the worker, or wait where only another feature can remove its cause."""
    if run.proof:
        # The proven feature does not wait for marks that were not taken.
        return _after_proof(run)
    error = result.error or {}
    code, details = str(error.get("code", "")), error.get("details", {})
    if result.tool.startswith("feature.") or code == UnknownFeature.code:
        return run, state.Finish(status=run.status, error=error)
    if code == "invalid_status_transition" and details.get("status") == Status.BLOCKED:
        # The kernel blocked it while no supervisor ran; the next proposal is judged against the cause.
        return run, state.CallTool(role=Role.ORCHESTRATOR, tool="feature.state_get")
    if code == "invalid_status_transition" and details.get("status") not in (None, run.status):
        # A person set it back during the turn.
        return _next_phase(state.with_fresh_phase(replace(run, status=Status(details["status"]))))
    if code in OTHERS_IN_THE_WAY:
        return _resolve_collision(run, result)
    if code == "blocked_by_collision_policy":
        return run, state.Await(reason=str(error["message"]), features=(run.feature_id,))
    if code == "lock_not_held" and details.get("resources"):
        return run, lock_call(details["resources"][0])
    run = with_outcome(replace(run, results=(result,), pending=None), result)
    return _escalate(run) if fails_alike(run) else _ask_worker(replace(run, rung=Rung.NONE))


def _resolve_collision(run: FeatureRun, result: ToolResult) -> Decision:
    """Apply the collision rules to a plan; a lock that another feature holds is waited for."""
    plan = run.pending.plan if isinstance(run.pending, PlanSubmission) else {}
    is_fixed = bool(run.revisions) or not result.tool.startswith("plan.")
    strategy = strategy_in_force(run.collision_strategy, result)
    ruling = arbitrate(strategy, result.error or {}, plan, revised=is_fixed)
    if isinstance(ruling, WaitFor):
        return run, state.Await(reason=ruling.reason, features=ruling.features)
    run = replace(with_outcome(run, result), revisions=1, results=(result,), pending=None)
    if isinstance(ruling, AskAbout):
        offer = ruling.prerequisite
        detail = {"conflicting_feature_ids": ruling.features}
        run = replace(run, offered=offer is not None)
        return run, state.AskPerson(question=ruling.question, detail=detail, prerequisite=offer)
    return _ask_worker(run, ruling.instructions)


def _resubmit(run: FeatureRun) -> Decision:
    """Submit the waiting proposal again, or give the worker its next turn."""
    proposal = run.pending
    if isinstance(proposal, PlanSubmission | PatchProposal | Note):
        return _submit_proposal(run, proposal)
    return _ask_worker(run)


def _escalate(run: FeatureRun) -> Decision:
    """Climb one rung: nudge, other approach, ask a person (once in a phase), block."""
    rungs = list(Rung)
    run = replace(run, rung=rungs[min(rungs.index(run.rung) + 1, len(rungs) - 1)])
    if run.rung is Rung.ASK and run.asked:
        run = replace(run, rung=Rung.BLOCK)
    if run.rung is Rung.ASK:
        return _question_for_person(run, stuck_question(run))
    if run.rung is Rung.BLOCK:
        return run, state.Finish(status=Status.BLOCKED, error=stuck_error(run))
    return _ask_worker(run)
