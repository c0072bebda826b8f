"""Missions: the prompt, the tools and the judge of one contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from aop.brains.conversation import Request
from aop.brains.ports import Mission, Tools
from aop.brains.prompts import Data, Prompt, build_prompt
from aop.forge.contracts.examples import example_of
from aop.forge.contracts.types import ContractType
from aop.forge.generation.acceptance import Acceptance, SubmittedText
from aop.forge.generation.flows.flow_tools import SUBMIT, FlowTools, NoTools, all_readings
from aop.forge.generation.flows.snowball import prior_context
from aop.forge.generation.inputs import GenerationInputs
from aop.forge.generation.texts import instructions, task_of

Way: TypeAlias = Literal["tools", "snowball"]
"""How a model learns about the project: it asks by tools, or everything is in its prompt."""


class Assignment(Struct, frozen=True, kw_only=True):
    """One contract that a model has to write."""

    contract_type: ContractType
    inputs: GenerationInputs
    prior: Mapping[ContractType, str]
    fence: str
    way: Way

    def mission(self, judge: Acceptance, watch: Callable[[Request], None]) -> Mission[SubmittedText]:
        """Return the mission of the loop."""
        return Mission(
            prompt=self.prompt(),
            result=SubmittedText,
            finish=SUBMIT,
            check=judge.check,
            from_text=judge.from_text,
            watch=watch,
        )

    def prompt(self) -> Prompt:
        """Return what the model is sent at first; without tools that is all that there is to know."""
        example = Data(source="an example of another project", text=example_of(self.contract_type, self.inputs.mode))
        known = () if self.way == "tools" else self._everything()
        text = instructions(tools=self.way == "tools")
        return build_prompt(text, task_of(self.contract_type), (example, *known), self.fence)

    def tools(self) -> Tools:
        """Return the tools of the loop."""
        return FlowTools(self.inputs, self.prior) if self.way == "tools" else NoTools()

    def _everything(self) -> tuple[Data, ...]:
        readings = all_readings(self.inputs).items()
        facts = (Data(source=name.removeprefix("get_").replace("_", " "), text=text) for name, text in readings)
        return (*facts, *prior_context(self.prior, self.inputs.mode))
