"""Generator: the run of nine missions, one contract after the other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, assert_never

import msgspec
from msgspec import Struct

from aop.brains.budgets import LoopLimits, LoopUsage
from aop.brains.ports import Brain, Finished, LimitReached, ModelFailed, Outcome, Replied, Talked
from aop.core.digests import sha256_hex
from aop.core.errors import ContractNotWritten, Json
from aop.core.redaction.redactor import Redactor
from aop.core.text.counts import count
from aop.core.text.json import canonical_json
from aop.core.text.visible import visible
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.generation.acceptance import Acceptance, SubmittedText
from aop.forge.generation.inputs import GenerationInputs
from aop.forge.generation.missions import Assignment, Way
from aop.forge.generation.sent_tokens import RequestMeter, SentTokens
from aop.forge.generation.settings import GenerationSettings
from aop.forge.generation.stored_steps import CallTool, LoopSteps, StoredSteps
from aop.kernel.ports.handed_in import NewId, Report
from aop.kernel.ports.tokenizer import Tokenizer

OBSERVATION_CHARS = 131_072
"""As long as the longest contract: what a tool shows is not cut."""
MISSION_SECONDS = 1800.0

Unfinished: TypeAlias = Talked | LimitReached | ModelFailed

_NO_TOOLS = re.compile(r"\b(?:tools?|tool[ _]use|function[ _]call\w*)\b", re.IGNORECASE)


class WrittenContract(Struct, frozen=True, kw_only=True):
    """A contract that a model wrote, and what that took."""

    contract_type: ContractType
    content: str
    way: Way
    spent: LoopUsage
    sent: SentTokens

    def usage(self) -> dict[str, Json]:
        """Return what it took, for the record."""
        used: dict[str, Json] = msgspec.to_builtins(self.spent.usage)
        return {"way": self.way, "turns": self.spent.iterations, "cost_usd": self.spent.cost_usd, **used,
                **msgspec.to_builtins(self.sent)}  # fmt: skip


class _Beginning(Struct, frozen=True, kw_only=True):
    """The first step of a run: what it writes about, and the names it uses until its end."""

    generation_id: str
    fence: str
    inputs: str


class Generator(Struct, frozen=True, kw_only=True):
    """The parts of a generation."""

    brain: Brain
    steps: StoredSteps
    call: CallTool
    new_id: NewId
    redact: Redactor
    tokenizer: Tokenizer | None
    settings: GenerationSettings
    report: Report

    async def generate(
        self, inputs: GenerationInputs, types: Sequence[ContractType] = CONTRACT_TYPES
    ) -> Mapping[str, Any]:
        """Write contracts and store them together; an interrupted run goes on at the turn that it was at.

        Raises: ContractNotWritten, refusals of asking a model and of storing.
        """
        begun = await self._begin(inputs, types)
        prior = dict(inputs.contracts)
        written: list[WrittenContract] = []
        for each in types:
            done = await self._write_or_fall_back(each, inputs, prior, begun)
            prior[each] = done.content
            written.append(done)
        stored = self.call(
            "forge.generation_store",
            {
                "project_id": inputs.project_id,
                "inputs": inputs.digest(),
                "contracts": {done.contract_type.value: done.content for done in written},
                "usage": {done.contract_type.value: done.usage() for done in written},
            },
            f"{begun.generation_id}-store",
        )
        self.steps.forget()
        return stored

    async def write(self, assignment: Assignment, generation_id: str = "") -> WrittenContract:
        """Write one contract; its turns are noted in the journal if the generation has an id.

        Raises: ContractNotWritten, refusals of asking a model.
        """
        judge = Acceptance(
            contract_type=assignment.contract_type,
            inputs=assignment.inputs,
            prior=assignment.prior,
            mask_secrets=self.redact.mask_secrets,
        )
        meter, keeper = RequestMeter(self.tokenizer), LoopSteps(self.steps, f"{assignment.contract_type}/")
        progress = _Progress(self, assignment, generation_id)
        mark = self.steps.steps_done
        outcome: Outcome[SubmittedText] = await self.brain.run_agentic_loop(
            assignment.mission(judge, meter.watch),
            assignment.tools(),
            self._limits(assignment.contract_type),
            progress.note,
            once=keeper.once,
        )
        if not isinstance(outcome, Finished):
            if not keeper.left_out:
                self.steps.go_back(mark)
            raise _not_written(assignment.contract_type, self._without_secrets(outcome))
        return WrittenContract(
            contract_type=assignment.contract_type,
            content=judge.accepted(outcome.value),
            way=assignment.way,
            spent=outcome.spent,
            sent=meter.total,
        )

    def _without_secrets(self, outcome: Unfinished) -> Unfinished:
        """Return an outcome as it may be shown: a model repeats whatever it was sent, and more."""
        if isinstance(outcome, Talked):
            return msgspec.structs.replace(outcome, text=self.redact(outcome.text))
        return outcome

    async def _begin(self, inputs: GenerationInputs, types: Sequence[ContractType]) -> _Beginning:
        """Return the beginning of the run; a run about other inputs is forgotten and begun again."""
        digest = sha256_hex(canonical_json([msgspec.to_builtins(inputs), list(types)]))

        async def begin() -> Json:
            begun = _Beginning(generation_id=self.new_id("gen"), fence=self.new_id("fence"), inputs=digest)
            stored: Json = msgspec.to_builtins(begun)
            return stored

        begun = msgspec.convert(await self.steps.step("begin", begin), _Beginning)
        if begun.inputs != digest:
            self.report("The task has changed since the generation was interrupted; it begins again.")
            self.steps.go_back()
            begun = msgspec.convert(await self.steps.step("begin", begin), _Beginning)
        return begun

    async def _write_or_fall_back(
        self,
        contract_type: ContractType,
        inputs: GenerationInputs,
        prior: Mapping[ContractType, str],
        begun: _Beginning,
    ) -> WrittenContract:
        """Write a contract by tools; where the model has none, with everything in its prompt (FORGE-146)."""
        mark = self.steps.steps_done
        way: Way = await self._way(contract_type, "snowball" if contract_type in self.settings.snowball else "tools")
        assignment = Assignment(
            contract_type=contract_type, inputs=inputs, prior=dict(prior), fence=begun.fence, way=way
        )
        try:
            return await self.write(assignment, begun.generation_id)
        except ContractNotWritten as refusal:
            if way == "snowball" or not _has_no_tools(refusal):
                raise
        self.report(f"{contract_type}: the model cannot call tools; everything goes into its prompt")
        self.steps.go_back(mark)
        way = await self._way(contract_type, "snowball")
        return await self.write(msgspec.structs.replace(assignment, way=way), begun.generation_id)

    async def _way(self, contract_type: ContractType, way: Way) -> Way:
        async def choose() -> Json:
            return way

        kept: Way = msgspec.convert(await self.steps.step(f"{contract_type}/way", choose), Way)
        return kept

    def _limits(self, contract_type: ContractType) -> LoopLimits:
        return LoopLimits(
            max_iterations=self.settings.turns_of(contract_type),
            max_seconds=MISSION_SECONDS,
            max_observation_chars=OBSERVATION_CHARS,
        )


class _Progress:
    """Notes each turn of a mission in the journal, once, and tells the person."""

    def __init__(self, generator: Generator, assignment: Assignment, generation_id: str) -> None:
        self._generator = generator
        self._assignment = assignment
        self._generation_id = generation_id
        self._turn = 0
        self._tokens: int | None = 0
        number = CONTRACT_TYPES.index(assignment.contract_type) + 1
        # A comparison, which notes nothing, writes each contract both ways.
        way = "" if generation_id else f" by {assignment.way}"
        self._place = f"contract {number} of {len(CONTRACT_TYPES)}, {assignment.contract_type}{way}"
        generator.report(f"{self._place}: asking the model")

    def note(self, event: object) -> None:
        """Note a reply; nothing else is a turn."""
        if not isinstance(event, Replied):
            return
        self._turn += 1
        used = event.usage.total_tokens
        self._tokens = None if self._tokens is None or used is None else self._tokens + used
        each = self._assignment.contract_type
        spent = "" if self._tokens is None else f", {self._tokens:,} tokens"
        self._generator.report(f"{self._place}: turn {self._turn}{spent}")
        if self._generation_id:
            self._generator.call(
                "forge.generation_progress",
                {
                    "project_id": self._assignment.inputs.project_id,
                    "contract_type": each.value,
                    "turn": self._turn,
                    "tokens": self._tokens,
                },
                f"{self._generation_id}-{each}-{self._assignment.way}-{self._turn}",
            )


def _not_written(contract_type: ContractType, outcome: Unfinished) -> ContractNotWritten:
    turns = outcome.spent.iterations
    why, cause = _reason(outcome)
    return ContractNotWritten(
        f"The {contract_type} contract was not written: the model {why.rstrip('.')}.",
        contract_type=contract_type,
        turns=turns,
        cause=cause,
        usage=msgspec.to_builtins(outcome.spent.usage),
    )


def _reason(outcome: Unfinished) -> tuple[str, str]:
    """Return why there is no contract, as the rest of a sentence about the model and as a word."""
    match outcome:
        case Talked(text=text):
            said = visible(" ".join(text.split()))[:200]
            return f"said `{said}` instead of handing it in" if said else "answered with nothing", "talked"
        case LimitReached(limit=limit):
            turns = count(outcome.spent.iterations, "turn")
            return f"handed in no valid one within the limit of {limit} ({turns})", str(limit)
        case ModelFailed(error=error):
            return f"failed: {error['message']}", str(error["code"])
        case _:
            assert_never(outcome)


def _has_no_tools(refusal: ContractNotWritten) -> bool:
    rejected = refusal.facts.get("cause") == "model_request_rejected" and refusal.facts.get("turns") == 0
    return rejected and _NO_TOOLS.search(refusal.message) is not None
