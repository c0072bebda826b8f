"""Model workers: turns of a plain model, with AOP's tools and a scratch tree."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from aop.adapters.agents.scratch_trees import ScratchReader, scratch_of
from aop.adapters.agents.turn_logs import fresh_log
from aop.adapters.agents.workers.tree_edits import TreeEdits
from aop.adapters.agents.workers.turn_faults import model_fault
from aop.adapters.models.metering.tallies import turn_usage
from aop.brains import ports
from aop.brains.budgets import LoopLimits, LoopUsage
from aop.brains.conversation import Offer
from aop.brains.prompts import Data, Prompt, build_prompt
from aop.core.errors import NoUsableAnswer, Refusal
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.contracts.schemas import tool_schemas
from aop.kernel.features.requests.change_requests import CommentAnswer
from aop.kernel.gates.qa_index import Mark
from aop.kernel.gateway.calls import Kernel, Tool
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.documents.obligations import GivenMappings
from aop.kernel.record.documents.plans import Plan
from aop.kernel.record.documents.usage import Usage
from aop.kernel.record.spending import left_of_caps, uncapped_models
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, WorkerInput, WorkerOutput, WorkerRequest

READS = ("repo.search", "repo.diff", "plan.get", "evidence.latest", "gates.list", "qa.test_index_get")
MOST_REPLIES = 60
CONTEXT_CHARS = 200_000
_EDITS = (
    "Your tools read and change a copy of the feature's tree. Its diff is your PATCH: AOP computes it when you hand in"
    " your result. In the result, say in one sentence what you did."
)
_RULES = {
    Role.PLANNER: (
        "Your tools only read. Hand in the plan as `plan`, with `obligations` beside it. Where you are told to answer"
        " with PLAN_SUBMISSION, hand in a plan."
    ),
    Role.BUILDER: _EDITS,
    Role.QA: f"{_EDITS} Hand in your marks as `qa_index` beside it.",
}
_OTHERWISE = "If you need something first, hand in a `request` instead."


class RequestHandedIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for something that you need first."""

    request: Literal["lock", "amend_plan", "context", "question", "path"]
    detail: dict[str, Any] = {}


class BuildResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a turn that edits files."""

    summary: str
    request: RequestHandedIn | None = None
    comments: tuple[CommentAnswer, ...] = ()


class QaResult(BuildResult, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a turn that edits files and marks hunks of the QA index."""

    qa_index: tuple[Mark, ...] = ()


class PlanResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a turn that plans."""

    plan: Plan | None = None
    obligations: GivenMappings | None = None
    note: str = ""
    request: RequestHandedIn | None = None
    comments: tuple[CommentAnswer, ...] = ()


class ModelContext(Struct, frozen=True, kw_only=True):
    """The parts that the turns of models share."""

    gateway: Gateway
    scratches: ScratchReader
    logs: Path
    seconds: float


class ModelWorker:
    """Implements `aop.supervisor.workers.Worker`."""

    def __init__(self, brain: ports.Brain, context: ModelContext) -> None:
        self._brain = brain
        self._context = context

    def turn(self, given: WorkerInput) -> WorkerOutput:
        context = self._context
        with scratch_of(context.gateway.kernel, given.feature_id) as scratch:
            edits = None if given.role is Role.PLANNER else TreeEdits(scratch.folder)
            outcome = asyncio.run(self._work(given, RoleTools(context.gateway, given, edits)))
            if not isinstance(outcome, ports.Finished):
                raise refusal_of(outcome)
            diff = context.scratches.diff(scratch) if edits is not None else ""
        return msgspec.structs.replace(answer_of(outcome.value, diff), usage=usage_of(outcome.spent))

    async def _work(
        self, given: WorkerInput, tools: RoleTools
    ) -> ports.Outcome[PlanResult] | ports.Outcome[QaResult] | ports.Outcome[BuildResult]:
        limits = limits_of(self._context.gateway.kernel, given.feature_id, self._context.seconds)
        prompt = self._prompt(given)
        with Transcript(fresh_log(self._context.logs, given.feature_id, given.role)) as transcript:
            if given.role is Role.PLANNER:
                planning = ports.Mission(prompt=prompt, result=PlanResult)
                return await self._brain.run_agentic_loop(planning, tools, limits, transcript.note)
            if given.role is Role.QA:
                testing = ports.Mission(prompt=prompt, result=QaResult)
                return await self._brain.run_agentic_loop(testing, tools, limits, transcript.note)
            building = ports.Mission(prompt=prompt, result=BuildResult)
            return await self._brain.run_agentic_loop(building, tools, limits, transcript.note)

    def _prompt(self, given: WorkerInput) -> Prompt:
        material = {"context_bundle": given.context_bundle, "last_tool_results": given.last_tool_results}
        text = msgspec.json.format(msgspec.json.encode(material), indent=1).decode()
        return build_prompt(
            f"{given.instructions}\n\n{_RULES[given.role]} {_OTHERWISE}",
            f"You are the {given.role} of the feature `{given.feature_id}`. Take your turn.",
            [Data(source="feature context and last results", text=text, max_chars=CONTEXT_CHARS)],
            self._context.gateway.kernel.new_id("fence"),
        )


def limits_of(kernel: Kernel, feature_id: FeatureId, seconds: float) -> LoopLimits:
    """Return the limits of a turn, within the feature's remaining budget."""
    with kernel.record.read() as view:
        dollars, tokens = left_of_caps(view, kernel.config().policy.cost, feature_id)
        uncapped = uncapped_models(view)
    return LoopLimits(
        max_iterations=MOST_REPLIES,
        max_seconds=seconds,
        max_tokens=tokens,
        max_cost_usd=dollars,
        uncapped=uncapped,
    )


class RoleTools:
    """Implements `aop.brains.ports.Tools`: the role's reading tools, through the gateway, and the edits of its tree."""

    def __init__(self, gateway: Gateway, given: WorkerInput, edits: TreeEdits | None) -> None:
        self._gateway = gateway
        self._feature_id = given.feature_id
        name = given.feature_id
        self._who = Principal(role=given.role, actor=f"{given.role}:{name}", features=frozenset({name}))
        self._edits = edits
        # An editor reads its own tree instead, with its changes.
        self._reads = READS if edits is not None else ("repo.read_file", *READS)

    @property
    def offers(self) -> Sequence[Offer]:
        """Return the tools that the model is shown."""
        own = () if self._edits is None else self._edits.offers
        return (*(offer_of(self._gateway.tools[name]) for name in self._reads), *own)

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool; the gateway checks the role and the feature."""
        if self._edits is not None and name.startswith("tree."):
            return self._edits.execute(name, arguments)
        return await call_tool(self._gateway, self._who, name, {"feature_id": self._feature_id, **arguments})


async def call_tool(gateway: Gateway, who: Principal, name: str, arguments: Mapping[str, Any]) -> str:
    """Call a tool, and return its answer as JSON text. Raises: Refusal."""
    answer = await asyncio.to_thread(gateway.call, who, name, arguments)
    if answer.error is not None:
        error = answer.error
        hint = error["details"]["suggested_next_actions"][0]
        raise Refusal(f"`{name}` refuses ({error['code']}): {error['message']}", hint=hint)
    return msgspec.json.encode(answer.data).decode()


def offer_of(tool: Tool) -> Offer:
    """Return a tool as the model is shown it."""
    input_schema, _ = tool_schemas(tool)
    schema = {key: input_schema[key] for key in input_schema if key != "$schema"}
    return Offer(name=tool.name, description=tool.summary, schema=schema)


class Transcript:
    """The events of a model's turn, one JSON line each, without secrets."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Transcript:
        self._file = self._path.open("xb", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def note(self, event: ports.Replied | ports.Called | ports.Observed) -> None:
        """Add one event."""
        self._file.write(msgspec.json.encode(event) + b"\n")


def answer_of(result: PlanResult | BuildResult, diff: str) -> WorkerOutput:
    """Return the supervisor's view of a result: a request first, then a plan or the diff of the tree."""
    if result.request is not None:
        return WorkerRequest(request=result.request.request, detail=result.request.detail)
    if isinstance(result, BuildResult):
        marks, words = result.qa_index if isinstance(result, QaResult) else (), result.comments
        if diff:
            return PatchProposal(unified_diff=diff, qa_index=marks, comments=words)
        return Note(note=result.summary, qa_index=marks, comments=words)
    if result.plan is None:
        return Note(note=result.note)
    obligations = None if result.obligations is None else tuple(map(msgspec.to_builtins, result.obligations))
    plan = msgspec.to_builtins(result.plan)
    return PlanSubmission(plan=plan, obligations=obligations, comments=result.comments)


def usage_of(spent: LoopUsage) -> Usage:
    """Return the usage of a loop as a turn reports it."""
    return turn_usage(spent.usage, spent.cost_usd)


def refusal_of(outcome: ports.Talked | ports.LimitReached | ports.ModelFailed) -> NoUsableAnswer:
    """Return the refusal of a turn without a result, with its usage."""
    refusal = _reason(outcome)
    refusal.facts["usage"] = msgspec.to_builtins(usage_of(outcome.spent))
    return refusal


def _reason(outcome: ports.Talked | ports.LimitReached | ports.ModelFailed) -> NoUsableAnswer:
    if isinstance(outcome, ports.LimitReached):
        return NoUsableAnswer(f"The model reached its limit of {outcome.limit} before it handed in a result.")
    if isinstance(outcome, ports.ModelFailed):
        return model_fault(outcome.error)
    return NoUsableAnswer("The model replied with text and handed in no result.")
