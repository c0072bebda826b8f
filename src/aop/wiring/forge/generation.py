"""Generation: the parts behind `aop forge generate`, for one repository."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from aop.adapters.storage.run_files import RunFiles
from aop.core.errors import GenerationBusy, Json, NoContracts
from aop.core.ids import RunId
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.generation.comparison import compare_ways
from aop.forge.generation.generator import Generator
from aop.forge.generation.inputs import GenerationInputs
from aop.forge.generation.settings import GenerationSettings
from aop.forge.generation.stored_steps import ToolRefused

if TYPE_CHECKING:
    from aop.brains.ports import Brain
    from aop.kernel.config.workflows import ForgeRules
    from aop.kernel.gateway.principals import Principal
    from aop.kernel.ports.handed_in import Report
    from aop.wiring.build import App

RUNS = ".aop/forge/runs"
PRODUCT = "forge"
"""The name under which the environment lists the models of this work."""


class ContractGeneration:
    """One project of one repository, ready to have its contracts written."""

    def __init__(self, app: App, principal: Principal, project_id: str, report: Report) -> None:
        self._app = app
        self._principal = principal
        self._report = report
        found = self._call("forge.generation_inputs", {"project_id": project_id}, None)
        self.inputs = msgspec.convert(found["inputs"], GenerationInputs)

    def generate(self, brain: Brain, only: ContractType | None = None) -> Mapping[str, Any]:
        """Write and store all contracts, or one of them again.

        Raises: GenerationBusy, ContractNotWritten, NoContracts, ToolRefused, refusals of asking a model.
        """
        if only is not None and not self.inputs.contracts:
            raise NoContracts(
                f"The project `{self.inputs.project_id}` has no contracts yet, so one alone cannot be written again.",
                project_id=self.inputs.project_id,
            )
        types = CONTRACT_TYPES if only is None else (only,)
        with self._generator(brain) as generator:
            return asyncio.run(generator.generate(self._inputs_for(types), types))

    def compare(self, brain: Brain) -> Mapping[str, Any]:
        """Write all contracts by tools and by snowball, and store nothing (FORGE-234). Raises: as `generate`."""
        with self._generator(brain, _comparison_of(self.inputs.project_id)) as generator:
            return asyncio.run(compare_ways(generator, self._inputs_for(CONTRACT_TYPES)))

    def _inputs_for(self, types: Sequence[ContractType]) -> GenerationInputs:
        """Return the inputs with the contracts before the first one that is written, and no others."""
        first = CONTRACT_TYPES.index(types[0])
        kept = {each: self.inputs.contracts[each] for each in CONTRACT_TYPES[:first]}
        return msgspec.structs.replace(self.inputs, contracts=kept)

    @contextmanager
    def _generator(self, brain: Brain, run: RunId | None = None) -> Iterator[Generator]:
        kernel = self._app.gateway.kernel
        runs = RunFiles(self._app.root / RUNS, busy=GenerationBusy)
        with runs.lock(RunId(run or self.inputs.project_id)) as steps:
            yield Generator(
                brain=brain,
                steps=steps,
                call=self._call,
                new_id=kernel.new_id,
                redact=kernel.redact,
                tokenizer=kernel.tokenizer,
                settings=_settings(kernel.config().policy.forge),
                report=self._report,
            )

    def _call(self, tool: str, arguments: Mapping[str, Json], operation_id: str | None) -> Mapping[str, Any]:
        answer = self._app.gateway.call(self._principal, tool, dict(arguments), operation_id=operation_id)
        if answer.error is not None:
            raise ToolRefused(answer.error, answer.evidence)
        data: Mapping[str, Any] = answer.data
        return data


@contextmanager
def generations_ended(app: App, project_id: str) -> Iterator[None]:
    """Keep generations of a project from working for a while; afterwards, forget all that they had written.

    Raises: GenerationBusy.
    """
    runs = RunFiles(app.root / RUNS, busy=GenerationBusy)
    with runs.lock(RunId(project_id)) as written, runs.lock(_comparison_of(project_id)) as compared:
        yield
        written.forget()
        compared.forget()


def _comparison_of(project_id: str) -> RunId:
    return RunId(f"{project_id}.compare")


def _settings(rules: ForgeRules) -> GenerationSettings:
    return GenerationSettings(
        max_turns=rules.max_turns,
        turns={ContractType(name): turns for name, turns in rules.turns.items()},
        snowball=frozenset(map(ContractType, rules.snowball)),
    )
