"""What the supervisor does next with one feature: a pure function of what is known and what happened.

    planning --plan.submit--> building --patch, fast gates--> qa --full gates--> ready_to_merge

Tools decide every step; a refusal goes back to the worker whose proposal it was, with all that was tried before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from aop.core.errors import InvalidArguments, NobodyAnsweredInTime, UnknownFeature
from aop.core.roles import Role
from aop.kernel.config.gates import Mode
from aop.kernel.features.opened_paths import NO, YES
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.questions import RAISE
from aop.supervisor.policy.attempts import circling, fails_alike, fingerprint_of, history, tried, used_up, with_outcome
from aop.supervisor.policy.caps import cap_kept, cap_question
from aop.supervisor.policy.collisions import AskAbout, WaitFor, arbitrate, strategy_in_force
from aop.supervisor.policy.state import (
    Action,
    AskPerson,
    AskWorker,
    Await,
    AwaitMerged,
    Began,
    CallTool,
    Event,
    FeatureRun,
    Finish,
    HeldBack,
    NobodyAnswered,
    PersonAnswered,
    Rest,
    Resumed,
    Rung,
    RunGates,
    ToolAnswered,
    TurnWithheld,
    WayCleared,
    WorkerAnswered,
    WorkerFailed,
)
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, ToolResult, WorkerOutput, WorkerRequest

INSTRUCTIONS: Mapping[Role, str] = {
    Role.PLANNER: (
        "Read the spec, and answer with a PLAN_SUBMISSION: which files change, what proves the change, and in"
        " `obligations` what becomes of each obligation of the context bundle."
    ),
    Role.BUILDER: "Do what the plan says, or repair what the last results show, and answer with one PATCH.",
    Role.QA: "The full gates do not pass. Repair what the last results show, and answer with one PATCH.",
}
AMEND = "The builder needs another plan: see the last result. Submit the whole plan as its next version."
LADDER: Mapping[Rung, str] = {
    Rung.NONE: "",
    Rung.NUDGE: "Your last answer changed nothing, or could not be used. Read the last results again, and answer anew.",
    Rung.OTHER_APPROACH: "What you try does not work. Leave it, and take another approach.",
    Rung.ASK: "",
    Rung.BLOCK: "",
}
OTHERS_IN_THE_WAY = frozenset({"collision_detected", "lock_conflict"})
TELL_STATUS = frozenset({"feature.init", "feature.state_patch", "plan.submit", "plan.update", "gates.run"})
Decision = tuple[FeatureRun, Action]


def step(run: FeatureRun, event: Event) -> Decision:
    """Return what is known after an event, and what to do next."""
    match event:
        case Began():
            fresh = FeatureRun(
                feature_id=run.feature_id,
                turns_allowed=run.turns_allowed,
                run_name=run.run_name,
                collision_strategy=run.collision_strategy,
            )
            return fresh, CallTool(role=Role.ORCHESTRATOR, tool="feature.init")
        case ToolAnswered():
            return _after_tool(_with_facts(run, event.result), event)
        case WorkerAnswered():
            return _heard(replace(run, turns=run.turns + 1, pending=None), event.output)
        case WorkerFailed():
            return _unheard(replace(run, turns=run.turns + 1), event)
        case TurnWithheld() | PersonAnswered() | NobodyAnswered():
            return _with_person(run, event)
        case WayCleared():
            return _cleared(run, event)
        case HeldBack() | Resumed():
            return _rested(run, event)
        case _:
            assert_never(event)


# --- where the feature is ----------------------------------------------------------------------------


def _onward(run: FeatureRun) -> Decision:
    """Take the step that the feature's status asks for."""
    match run.status:
        case Status.PLANNING:
            return _ask(replace(run, role=Role.PLANNER))
        case Status.BUILDING:
            return _ask(replace(run, role=Role.BUILDER))
        case Status.QA:
            return replace(run, role=Role.QA), RunGates(role=Role.QA, mode=Mode.FULL)
        case Status.BLOCKED:
            return run, CallTool(role=Role.ORCHESTRATOR, tool="feature.state_get")
        case Status.READY_TO_MERGE | Status.MERGED | Status.FAILED:
            return run, Finish(status=run.status)
        case _:
            assert_never(run.status)


def _ask(run: FeatureRun, instructions: str = "") -> Decision:
    """Give the worker whose turn it is its turn, as long as the phase has turns left."""
    if run.turns >= run.turns_allowed:
        return _out_of_turns(run)
    words = filter(None, [instructions or INSTRUCTIONS[run.role], LADDER[run.rung]])
    results = (*run.results, *history(run))
    return run, AskWorker(role=run.role, instructions="\n".join(words), results=results)


def _out_of_turns(run: FeatureRun) -> Decision:
    """Ask a person how to go on, once in a phase; after that the feature has failed (C-23)."""
    if run.asked:
        return run, Finish(status=Status.FAILED, error=used_up(run))
    question = f"The {run.role} of `{run.feature_id}` used up its {run.turns_allowed} turns. What should it do?"
    return _plea(run, question)


def _plea(run: FeatureRun, question: str) -> Decision:
    detail = {"attempts": [msgspec.to_builtins(attempt) for attempt in run.attempts]}
    return replace(run, asked=True), AskPerson(question=question, detail=detail, gate="escalation")


def _with_person(run: FeatureRun, event: TurnWithheld | PersonAnswered | NobodyAnswered) -> Decision:
    """Ask before a turn that a cap does not allow; hand an answer to the worker, or to the turn that waits for it."""
    if isinstance(event, TurnWithheld):
        return replace(run, held_back=event.ask), cap_question(run.feature_id, event.over)
    if isinstance(event, NobodyAnswered):
        unanswered = NobodyAnsweredInTime(f"Nobody answered in time: {event.question}", feature_id=run.feature_id)
        return run, Finish(status=Status.BLOCKED, error=unanswered.as_error())
    if run.offered and event.answer == YES:
        return replace(run, offered=False), CallTool(role=Role.ORCHESTRATOR, tool="feature.state_get")
    if run.held_back is None:
        run = replace(run, offered=False)
        said = ToolResult(tool="person", ok=True, data={"question": event.question, "answer": event.answer})
        return _ask(replace(run, turns=0, attempts=(), rung=Rung.NONE, results=(*run.results, said)))
    if event.answer == RAISE:
        return replace(run, held_back=None), run.held_back
    return run, Finish(status=Status.BLOCKED, error=cap_kept(run.feature_id))


def _unblock(state: Mapping[str, Any]) -> Action:
    """Let a feature that a person asked for again go on where it was blocked; one with a prerequisite waits for it."""
    if state["front_matter"].get("waits_for"):
        return AwaitMerged(features=tuple(state["front_matter"]["waits_for"]))
    before = state["front_matter"].get("blocked_from") or Status.PLANNING
    # What was ready is proven again: nobody becomes ready by hand.
    status = Status.QA if before == Status.READY_TO_MERGE else before
    patch = {"status": status, "status_reason": "A person asked for this feature again."}
    arguments = {"expected_version": state["version"], "patch": patch}
    return CallTool(role=Role.ORCHESTRATOR, tool="feature.state_patch", arguments=arguments)


def _new_phase(run: FeatureRun) -> FeatureRun:
    return replace(run, turns=0, attempts=(), rung=Rung.NONE, results=(), pending=None, revisions=0, asked=False)


def _cleared(run: FeatureRun, event: WayCleared) -> Decision:
    """Send what had to wait again, unless the kernel has let the feature in meanwhile."""
    is_let_in = event.status not in (run.status, Status.BLOCKED)
    return _onward(_new_phase(replace(run, status=event.status))) if is_let_in else _again(run)


def _rested(run: FeatureRun, event: HeldBack | Resumed) -> Decision:
    """Keep what was held back, and do it when nobody pauses the feature any more."""
    if isinstance(event, HeldBack):
        return replace(run, held_back=event.action), Rest()
    return (replace(run, held_back=None), run.held_back) if run.held_back else _onward(run)


# --- what a worker says ------------------------------------------------------------------------------


def _heard(run: FeatureRun, output: WorkerOutput) -> Decision:
    fingerprint = fingerprint_of(output)
    if any(attempt.fingerprint == fingerprint for attempt in run.attempts):
        if run.revisions and isinstance(output, PlanSubmission):
            # There is no other way to plan it: the feature that is in the way goes first.
            return _arbitrated(replace(run, pending=output), run.results[0])
        return _stuck(tried(run, fingerprint, "the same answer again"))
    match output:
        case PlanSubmission() if run.role is Role.PLANNER:
            return _proposed(tried(run, fingerprint, ""), output)
        case PatchProposal() if run.role is not Role.PLANNER:
            return _proposed(tried(run, fingerprint, ""), output)
        case Note():
            note = CallTool(role=run.role, tool="feature.log_append", arguments={"note": output.note[:4000] or "-"})
            return tried(run, fingerprint, "a note, and no proposal"), note
        case WorkerRequest():
            return _requested(run, output)
        case _:
            misplaced = InvalidArguments("This answer does not belong to this step.", hint=INSTRUCTIONS[run.role])
            given_back = ToolResult(tool="worker", ok=False, error=misplaced.as_error())
            return _stuck(tried(replace(run, results=(given_back,)), fingerprint, misplaced.code))


def _unheard(run: FeatureRun, event: WorkerFailed) -> Decision:
    """Give a worker back why its answer could not be used, beside what tools said before."""
    proofs = tuple(result for result in run.results if result.tool != "worker")
    failed = ToolResult(tool="worker", ok=False, error=event.error)
    return _stuck(tried(replace(run, results=(*proofs, failed)), "", str(event.error["code"])))


def _proposed(run: FeatureRun, proposal: PlanSubmission | PatchProposal) -> Decision:
    """Have a proposal judged by the tool that it is for."""
    run = replace(run, pending=proposal)
    match proposal:
        case PatchProposal():
            arguments: dict[str, Any] = {"unified_diff": proposal.unified_diff}
            if proposal.patch_blob is not None:
                arguments["patch_blob"] = proposal.patch_blob
            return run, CallTool(role=run.role, tool="repo.apply_patch", arguments=arguments)
        case PlanSubmission():
            arguments = {"plan_json": proposal.plan}
            if proposal.obligations is not None:
                arguments["obligations"] = proposal.obligations
            if "revision_of" not in proposal.plan:
                return run, CallTool(role=Role.PLANNER, tool="plan.submit", arguments=arguments)
            arguments["expected_plan_version"] = proposal.plan["revision_of"]
            return run, CallTool(role=Role.PLANNER, tool="plan.update", arguments=arguments)


def _requested(run: FeatureRun, asked: WorkerRequest) -> Decision:
    match asked.request:
        case "context":
            # The next turn brings the whole context; to ask for it twice in the same words is a circle.
            return _ask(tried(run, fingerprint_of(asked), "a request, and no proposal"))
        case "question":
            question = str(asked.detail.get("question") or asked.detail.get("text") or "What is to be done here?")
            default = asked.detail.get("default")
            stated = default if isinstance(default, str) and default else None
            return run, AskPerson(question=question, detail=asked.detail, default=stated)
        case "lock":
            return run, _acquire(str(asked.detail.get("resource", "")))
        case "path":
            wanted = {name: str(asked.detail.get(name, "")) for name in ("path", "reason")}
            run = tried(run, fingerprint_of(asked), "a request, and no proposal")
            return run, CallTool(role=run.role, tool="inbox.ask_path", arguments=wanted)
        case "amend_plan":
            wish = ToolResult(tool="amend_plan", ok=False, data=asked.detail)
            return _ask(replace(run, role=Role.PLANNER, results=(*run.results, wish)), AMEND)
        case _:
            assert_never(asked.request)


def _acquire(resource: str) -> Action:
    # Not waited for in the call: a feature that waits gives its place to another one.
    arguments = {"resource": resource, "wait_timeout_seconds": 0}
    return CallTool(role=Role.ORCHESTRATOR, tool="locks.acquire", arguments=arguments)


# --- what a tool says --------------------------------------------------------------------------------


def _with_facts(run: FeatureRun, result: ToolResult) -> FeatureRun:
    """Take over what a tool's answer says of the feature: the kernel knows, the supervisor only remembers."""
    if not result.ok or result.tool not in TELL_STATUS:
        return run
    return replace(run, status=Status(result.data["status"]))


def _after_tool(run: FeatureRun, event: ToolAnswered) -> Decision:
    result = event.result
    if not result.ok:
        return _refused(replace(run, role=Role.QA) if run.status is Status.QA else run, result)
    match result.tool:
        case "gates.run" if run.status is Status.QA and event.mode is Mode.FAST:
            return replace(run, role=Role.QA), RunGates(role=Role.QA, mode=Mode.FULL)
        case "gates.run" | "plan.submit" | "plan.update":
            return _onward(_new_phase(run))
        case "repo.apply_patch":
            return run, RunGates(role=run.role, mode=Mode.FAST)
        case "locks.acquire":
            return _again(replace(run, results=(*run.results, result)))
        case "feature.log_append" | "inbox.ask_path":
            return _answered(run, result)
        case "feature.state_get":
            return run, _unblock(result.data)
        case _:
            return _onward(run)


def _answered(run: FeatureRun, result: ToolResult) -> Decision:
    """Let the worker go on; one that asked for a guarded path waits for a person, unless one opened it before."""
    if result.tool == "feature.log_append":
        return _ask(run)
    asked = result.data
    if asked["is_open"]:
        return _ask(replace(run, results=(*run.results, result)))
    return run, AskPerson(
        question=asked["text"], gate="authorisation", choices=(YES, NO), question_id=asked["question_id"]
    )


def _refused(run: FeatureRun, result: ToolResult) -> Decision:
    """Give a refusal back to the worker whose proposal it was; what only others can change is waited for."""
    error = result.error or {}
    code, details = str(error.get("code", "")), error.get("details", {})
    if result.tool.startswith("feature.") or code == UnknownFeature.code:
        return run, Finish(status=run.status, error=error)
    if code == "invalid_status_transition" and details.get("status") == Status.BLOCKED:
        # The kernel blocked it while no supervisor ran; what it was blocked for is judged with the next proposal.
        return run, CallTool(role=Role.ORCHESTRATOR, tool="feature.state_get")
    if code in OTHERS_IN_THE_WAY:
        return _arbitrated(run, result)
    if code == "blocked_by_collision_policy":
        return run, Await(reason=str(error["message"]), features=(run.feature_id,))
    if code == "lock_not_held" and details.get("resources"):
        return run, _acquire(details["resources"][0])
    run = with_outcome(replace(run, results=(result,), pending=None), result)
    return _stuck(run) if fails_alike(run) else _ask(replace(run, rung=Rung.NONE))


def _arbitrated(run: FeatureRun, result: ToolResult) -> Decision:
    """Let the orchestrator's rules decide about what another feature holds; a lock is waited for."""
    plan = run.pending.plan if isinstance(run.pending, PlanSubmission) else {}
    is_fixed = bool(run.revisions) or not result.tool.startswith("plan.")
    strategy = strategy_in_force(run.collision_strategy, result)
    ruling = arbitrate(strategy, result.error or {}, plan, revised=is_fixed)
    if isinstance(ruling, WaitFor):
        return run, Await(reason=ruling.reason, features=ruling.features)
    run = replace(with_outcome(run, result), revisions=1, results=(result,), pending=None)
    if isinstance(ruling, AskAbout):
        offer = ruling.prerequisite
        detail = {"conflicting_feature_ids": ruling.features}
        run = replace(run, offered=offer is not None)
        return run, AskPerson(question=ruling.question, detail=detail, prerequisite=offer)
    return _ask(run, ruling.instructions)


def _again(run: FeatureRun) -> Decision:
    """Send the proposal again that had to wait, or let a worker go on."""
    proposal = run.pending
    return _proposed(run, proposal) if isinstance(proposal, PlanSubmission | PatchProposal) else _ask(run)


def _last_words(run: FeatureRun) -> str:
    """Return why the last turn brought nothing, if it brought nothing: a person can hardly see that elsewhere."""
    last = run.results[-1] if run.results else None
    return f" Its last turn: {last.error['message']}" if last and last.tool == "worker" and last.error else ""


# --- going in circles --------------------------------------------------------------------------------


def _stuck(run: FeatureRun) -> Decision:
    """Climb one rung: nudge, another approach, ask a person (once in a phase), give up."""
    rungs = list(Rung)
    run = replace(run, rung=rungs[min(rungs.index(run.rung) + 1, len(rungs) - 1)])
    if run.rung is Rung.ASK and run.asked:
        run = replace(run, rung=Rung.BLOCK)
    if run.rung is Rung.ASK:
        return _plea(run, f"The {run.role} of `{run.feature_id}` goes in circles. What should it do?{_last_words(run)}")
    if run.rung is Rung.BLOCK:
        return run, Finish(status=Status.BLOCKED, error=circling(run))
    return _ask(run)
