"""Turns: the work of a feature's agents, the gates and tools that judge it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from aop.core.errors import Json, ProviderTrouble, Refusal
from aop.core.ids import FeatureId
from aop.core.redaction.redactor import mask_json
from aop.core.roles import Role
from aop.core.run import Steps
from aop.core.text.counts import count
from aop.kernel.config.gates import Mode
from aop.kernel.config.policy import CollisionStrategy
from aop.kernel.features.requests.change_requests import (
    ChangeRequest,
    RequestKind,
    open_requests,
    requests_for,
)
from aop.kernel.gates.causes import telling_line
from aop.kernel.gateway.calls import Envelope
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.merges.base_moves import is_behind
from aop.kernel.patches.stored_patches import StoredPatch, full_patch
from aop.kernel.record.documents.features import TERMINAL, FeatureState
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.documents.usage import Overrun
from aop.kernel.record.repeats import in_thread
from aop.kernel.record.requests import is_paused
from aop.kernel.record.spending import overrun
from aop.supervisor.advice import Advice, Adviser, Ask
from aop.supervisor.policy.conflicts import FOLLOW_BASE, has_conflict, is_known_to
from aop.supervisor.policy.state import (
    AskWorker,
    CallTool,
    ToolAnswered,
    TurnPostponed,
    TurnWithheld,
    WorkerAnswered,
    WorkerFailed,
)
from aop.supervisor.policy.troubles import held_back, trouble_facts, with_waits
from aop.supervisor.workers import ProviderChoice, ToolResult, Worker, WorkerInput, WorkerOutput, without_secrets

GISTS: Mapping[str, Callable[[Any], str]] = {
    "feature.init": lambda made: f"{made['worktree_path']}, cut from {made['base_branch']}",
    "plan.submit": lambda accepted: f"plan {accepted['plan_version']} accepted; now {accepted['status']}",
    "plan.update": lambda accepted: f"plan {accepted['plan_version']} accepted; now {accepted['status']}",
    "repo.apply_patch": lambda applied: f"{count(len(applied['changed_files']), 'file')} changed",
    "gates.run": lambda run: f"{run['verdict']}, sandbox {run['sandbox_level']}; now {run['status']}",
    "feature.begin_anew": lambda begun: f"on {begun['base_commit'][:12]}; now {begun['status']}",
    FOLLOW_BASE: lambda followed: f"{followed['outcome']}, on {followed['base_commit'][:12]}; now {followed['status']}",
    "qa.test_index_update": lambda updated: _counts_text(updated["hunk_counts"]),
    "run.wait": lambda waits: str(waits["reason"]),
    "feature.log_append": lambda noted: str(noted["note"]),
    "feature.answer_comments": lambda said: f"{count(len(said['answered']), 'comment')} answered",
}
"""The progress line for a tool's answer."""

SAY_OF_EACH = "Say of each in `comments`, by its `number`, the `word` `done`, or `declined` with a `reason`."
FOLLOW: Mapping[RequestKind, str] = {
    "changes": "A person requests changes: see `feature.request_changes` in the last results. Make them."
    f" {SAY_OF_EACH} If nothing has to change, answer with a NOTE that has them.",
    "plan": "A person comments on the plan: see `feature.request_changes` in the last results, with the `clause` that"
    f" each is about. Submit the whole plan as its next version, with `revision_of`. {SAY_OF_EACH}",
    "rejection": "A person rejected the approach: see `feature.reject` in the last results. Plan another one. If"
    " `context_bundle.plan` has a plan, submit the whole plan as its next version, with `revision_of`.",
}
"""The instructions for a turn that a person's request is given to."""

HELD_BACK = "held back"
"""The result of a turn or gate run that did not start, because the feature is paused."""


class Staff(Protocol):
    """The workers that take the turns."""

    def choice(self, role: Role) -> ProviderChoice:
        """Return the coding agent chosen for a role."""

    def model_provider(self, role: Role) -> str:
        """Return the name of the provider whose models a role uses; its features share waits and questions."""

    def worker(self, feature_id: FeatureId, role: Role) -> Worker:
        """Return the worker for a feature and role."""

    def prompt(self, role: Role) -> str:
        """Return the prompt of a role."""

    def unpriced_model(self, role: Role) -> str:
        """Return the model of a role if it is known to have no price, else nothing."""


class Turn(Struct, frozen=True, kw_only=True):
    """The payload of a turn."""

    feature_id: FeatureId
    ask: AskWorker
    run_name: str = ""


class Gate(Struct, frozen=True, kw_only=True):
    """The payload of a gate run."""

    feature_id: FeatureId
    role: Role
    mode: Mode


class _Spender(Struct, frozen=True, kw_only=True):
    """The worker that takes a turn, and the run that its cost counts for."""

    feature_id: FeatureId
    worker: Role
    run: str
    provider: str
    model: str | None = None


class Work:
    """The pipelines of turns and gates, and the tool calls for workers."""

    def __init__(
        self, gateway: Gateway, staff: Staff, tell: Callable[[FeatureId, str], None], adviser: Adviser
    ) -> None:
        self._adviser = adviser
        self._gateway = gateway
        self._staff = staff
        self._tell = tell

    async def call_tool(self, operation: str, feature_id: FeatureId, action: CallTool, run_name: str = "") -> Json:
        """Call a tool; a repeated call after a crash has the same operation id."""
        arguments = {"feature_id": feature_id, **self._with_whole_patch(action.arguments)}
        answer = await in_thread(self._call, action.role, action.tool, arguments, operation)
        self._tell(feature_id, f"{action.role}: {action.tool}: {_summary_of(action.tool, answer)}")
        result = _result(action.tool, answer)
        if (answer.error or {}).get("code") == "collision_detected" and self._asks_model():
            spender = _Spender(feature_id=feature_id, worker=Role.ORCHESTRATOR, run=run_name, provider="model")
            result = await in_thread(self._with_advice, operation, spender, action, result)
        return plain(result)

    def _with_whole_patch(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with the unmasked patch, which only the judging tool may see."""
        if "patch_blob" not in arguments:
            return arguments
        return {"unified_diff": full_patch(self._gateway.kernel.git.objects, msgspec.convert(arguments, StoredPatch))}

    def _asks_model(self) -> bool:
        rules = self._gateway.kernel.config().policy.supervisor
        return rules.collision_strategy is CollisionStrategy.MODEL

    def _with_advice(self, operation: str, spender: _Spender, action: CallTool, result: ToolResult) -> ToolResult:
        """Add a model's advice to the result, so that a resumed run makes the same decision."""
        ask = None if self._overrun(spender) is not None else self._adviser.ready()
        advice = None if ask is None else self._consult(operation, spender, ask, action, result)
        if advice is None:
            self._tell(spender.feature_id, "orchestrator: no advice; the collision rules decide")
            return result
        self._tell(spender.feature_id, f"orchestrator: advised to {advice.choice}: {advice.reason[:300]}")
        return msgspec.structs.replace(result, data={"advice": advice.choice})

    def _consult(
        self, operation: str, spender: _Spender, ask: Ask, action: CallTool, result: ToolResult
    ) -> Advice | None:
        """Ask the model; its cost counts as a turn's, under the same caps."""
        begun = self._begin_usage(spender)
        said = ask(spender.feature_id, action.arguments.get("plan_json", {}), result.error or {})
        spender = msgspec.structs.replace(spender, model=said.model)
        self._record_usage(operation, begun, spender, plain(said.usage), answered=said.advice is not None)
        return said.advice

    async def gate(self, run: Steps, payload: Json) -> Json:
        """Run the gates; a run that fails returns the end of its log."""
        gate = msgspec.convert(payload, Gate)
        return await run.step("gates.run", lambda: in_thread(self._run_gates, run.run_id, gate))

    def _is_paused(self, feature_id: FeatureId) -> bool:
        with self._gateway.kernel.record.read() as view:
            return is_paused(view, feature_id)

    def _ended(self, feature_id: FeatureId) -> ToolAnswered | None:
        """Return the state of a feature whose turns would be paid for nothing: deleted, stopped or merged."""
        with self._gateway.kernel.record.read() as view:
            state = view.get(FeatureState, feature_id)
        if state is not None and state.status not in TERMINAL:
            return None
        answer = self._call(Role.ORCHESTRATOR, "feature.state_get", {"feature_id": feature_id})
        return ToolAnswered(result=_result("feature.state_get", answer))

    def _run_gates(self, operation: str, gate: Gate) -> Json:
        if self._is_paused(gate.feature_id):
            return HELD_BACK
        before = self._before_gates(gate)
        if before is not None:
            return plain(before)
        arguments = {"feature_id": gate.feature_id, "mode": gate.mode}
        answer = self._call(gate.role, "gates.run", arguments, operation)
        self._tell(gate.feature_id, f"{gate.role}: gates.run {gate.mode}: {_summary_of('gates.run', answer)}")
        result = _result("gates.run", answer)
        if not answer.ok and "log_path" in answer.evidence:
            latest = self._call(gate.role, "evidence.latest", {"feature_id": gate.feature_id})
            tail = latest.data["latest"]["log_tail"] if latest.ok else ""
            self._tell(gate.feature_id, f"{gate.role}: the log says: {telling_line(tail)}")
            result = msgspec.structs.replace(result, log_tail=tail)
        return plain(result)

    def _before_gates(self, gate: Gate) -> ToolResult | None:
        """Let the feature follow the base branch; return the answer if another step comes before these gates."""
        followed = self.follow_base(gate.feature_id)
        if followed is not None and has_conflict(followed):
            return followed
        with self._gateway.kernel.record.read() as view:
            state = view.get(FeatureState, gate.feature_id)
        modes = self._gateway.kernel.config().policy.required_modes
        if state is None or gate.mode is not Mode.FULL or Mode.FAST not in modes or state.gates["fast"] != Verdict.NA:
            return None
        # On its new base it has neither proof, and the full gates give only one of them.
        return ToolResult(tool=FOLLOW_BASE, ok=True, data={"status": state.status, "conflict": None})

    def follow_base(self, feature_id: FeatureId) -> ToolResult | None:
        """Move a feature onto the base branch as it is now; None if that changed nothing, or is refused."""
        kernel = self._gateway.kernel
        with kernel.record.read() as view:
            state = view.get(FeatureState, feature_id)
        if state is None or not is_behind(kernel, state):
            return None
        answer = self._call(Role.SYSTEM, FOLLOW_BASE, {"feature_id": feature_id})
        if not answer.ok or answer.data["outcome"] != "current":
            self._tell(feature_id, f"{Role.SYSTEM}: {FOLLOW_BASE}: {_summary_of(FOLLOW_BASE, answer)}")
        return _result(FOLLOW_BASE, answer) if answer.ok and answer.data["outcome"] != "current" else None

    async def turn(self, run: Steps, payload: Json) -> Json:
        """Let a worker take its turn; the result is its answer or its error."""
        turn = msgspec.convert(payload, Turn)
        return await run.step("turn", lambda: in_thread(self._take_turn, run.run_id, turn))

    def _take_turn(self, operation: str, turn: Turn) -> Json:
        ended = self._ended(turn.feature_id)
        if ended is not None:
            return plain(ended)
        if self._is_paused(turn.feature_id):
            return HELD_BACK
        followed = self.follow_base(turn.feature_id)
        if followed is not None and has_conflict(followed) and not is_known_to(turn.ask.results, followed):
            return plain(ToolAnswered(result=followed))
        spender, kernel = self._spender(turn), self._gateway.kernel
        over = self._overrun(spender)
        if over is not None:
            return plain(TurnWithheld(ask=turn.ask, over=over))
        provider = self._staff.model_provider(turn.ask.role)
        with kernel.record.read() as view:
            held = held_back(view, provider, turn.feature_id, turn.ask, kernel.clock.now())
        taken = held or self._taken_turn(operation, turn, spender, provider)
        # A turn that a person stopped is not the agent's failure.
        return plain((self._ended(turn.feature_id) if isinstance(taken, WorkerFailed) else None) or taken)

    def _taken_turn(
        self, operation: str, turn: Turn, spender: _Spender, provider: str
    ) -> WorkerAnswered | WorkerFailed | TurnPostponed:
        """Let the worker answer, and record what its turn cost."""
        kernel, role = self._gateway.kernel, turn.ask.role
        since, begun = kernel.now(), self._begin_usage(spender)
        try:
            requests = self._hand_requests(operation, turn)
            said = self._staff.worker(turn.feature_id, role).turn(self._input(turn, requests))
            output = without_secrets(said, kernel, turn.feature_id)
        except Refusal as refusal:
            error = self._masked(refusal.as_error())
            self._tell(turn.feature_id, f"{role}: failed: {error['message']}")
            trouble = trouble_facts(error) if isinstance(refusal, ProviderTrouble) else None
            # A failed turn costs money too.
            self._record_usage(operation, begun, spender, refusal.facts.get("usage"), answered=False, trouble=trouble)
            met = TurnPostponed(ask=turn.ask, error=error, at=kernel.now(), provider=provider, since=since)
            with kernel.record.read() as view:
                return WorkerFailed(error=error) if trouble is None else with_waits(view, met, turn.feature_id)
        more = {"session": output.session or None, "model_provider": provider}
        self._record_usage(operation, begun, spender, msgspec.to_builtins(output.usage), answered=True, **more)
        where = f" in the session {output.session}" if output.session else ""
        self._tell(turn.feature_id, f"{role}: answers with {_type_of(output)}{where}")
        return WorkerAnswered(output=output)

    def _masked(self, error: Mapping[str, Json]) -> Any:
        return mask_json(error, self._gateway.kernel.redact.mask_secrets)

    def _overrun(self, spender: _Spender) -> Overrun | None:
        kernel = self._gateway.kernel
        with kernel.record.read() as view:
            unpriced = "" if spender.worker is Role.ORCHESTRATOR else self._staff.unpriced_model(spender.worker)
            return overrun(view, kernel.config().policy.cost, spender.feature_id, spender.run, unpriced=unpriced)

    def _begin_usage(self, spender: _Spender) -> str:
        """Record the start of a turn; return its name, new after each crash, or an empty text for a deleted feature."""
        answer = self._call(Role.SYSTEM, "usage.begin", msgspec.to_builtins(spender))
        return str(answer.data["turn"]) if answer.ok else ""

    def _record_usage(
        self, operation: str, begun: str, spender: _Spender, usage: Json, *, answered: bool, **more: Json
    ) -> None:
        facts = {"turn": begun, "usage": usage, "answered": answered, **more}
        arguments = {**msgspec.to_builtins(spender), **facts}
        if begun:
            # The key begins as all operations of the feature's run do; a repeated turn is counted again.
            self._call(Role.SYSTEM, "usage.record", arguments, f"{operation}.{begun.rpartition('-')[2]}")

    def _spender(self, turn: Turn) -> _Spender:
        choice = self._staff.choice(turn.ask.role)
        return _Spender(
            feature_id=turn.feature_id,
            worker=turn.ask.role,
            run=turn.run_name,
            provider=choice.provider,
            model=choice.model,
        )

    def _hand_requests(self, operation: str, turn: Turn) -> tuple[ChangeRequest, ...]:
        """Return the requests of people that this turn has to follow; a repeated turn is given the same ones."""
        with self._gateway.kernel.record.read() as view:
            if not requests_for(open_requests(view, turn.feature_id), turn.ask.role):
                return ()
        arguments = {"feature_id": turn.feature_id, "worker": turn.ask.role}
        answer = self._call(Role.SYSTEM, "feature.hand_requests", arguments, f"{operation}.requests")
        return msgspec.convert(answer.data["requests"], tuple[ChangeRequest, ...]) if answer.ok else ()

    def _input(self, turn: Turn, requests: tuple[ChangeRequest, ...]) -> WorkerInput:
        role, choice = turn.ask.role, self._staff.choice(turn.ask.role)
        words = dict.fromkeys(FOLLOW[request.kind] for request in requests)
        return WorkerInput(
            role=role,
            feature_id=turn.feature_id,
            context_bundle=self._context(role, turn.feature_id),
            instructions="\n\n".join(filter(None, [self._staff.prompt(role), turn.ask.instructions, *words])),
            last_tool_results=(*map(_request_result, requests), *turn.ask.results),
            provider=choice.provider,
            model=choice.model,
            provider_config_ref=choice.provider_config_ref,
        )

    def _context(self, role: Role, feature_id: FeatureId) -> dict[str, Any]:
        """Return the context that a worker without memory needs (AOP-236)."""
        context = self._call(role, "feature.get_context", {"feature_id": feature_id})
        diff = self._call(role, "repo.diff", {"feature_id": feature_id, "options": {"stat": True}})
        for answer in (context, diff):
            if answer.error is not None:
                raise Refusal(f"The context of `{feature_id}` is not available: {answer.error['message']}")
        return {**context.data, "diff_summary": diff.data["text"]}

    def _call(self, role: Role, tool: str, arguments: Mapping[str, Json], operation: str | None = None) -> Envelope:
        """Call a tool as a worker of this feature, limited to its role and its feature."""
        feature_id = FeatureId(str(arguments["feature_id"]))
        who = Principal(role=role, actor=f"{role}:{feature_id}", features=frozenset({feature_id}))
        key = None if operation is None else operation.replace("/", ".")
        return self._gateway.call(who, tool, arguments, operation_id=key)


def plain(value: Any) -> Json:
    """Return a value as the engine stores it."""
    plain: Json = msgspec.to_builtins(value)
    return plain


def _request_result(request: ChangeRequest) -> ToolResult:
    tool = "feature.reject" if request.kind == "rejection" else "feature.request_changes"
    return ToolResult(tool=tool, ok=True, data=plain(request))


def _result(tool: str, answer: Envelope) -> ToolResult:
    return ToolResult(tool=tool, ok=answer.ok, data=answer.data, error=answer.error, evidence=answer.evidence)


def _summary_of(tool: str, answer: Envelope) -> str:
    if answer.error is not None:
        return str(answer.error["message"])
    return GISTS[tool](answer.data) if tool in GISTS else "done"


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {status}" for status, number in counts.items() if number)


def _type_of(output: WorkerOutput) -> str:
    return str(msgspec.to_builtins(output)["type"])
