"""Acceptance of a contract: a model's text as it will be stored, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from aop.core.errors import ContractRefused
from aop.forge.contracts.borrowed_lines import refuse_borrowed_lines
from aop.forge.contracts.readers import read_contract
from aop.forge.contracts.shapes.directive import Settings, with_settings
from aop.forge.contracts.shapes.phases import Phases
from aop.forge.contracts.types import ContractType
from aop.forge.generation.inputs import GenerationInputs
from aop.forge.generation.texts import strip_code_fences
from aop.forge.generation.verification import verification_of


class SubmittedText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole text of one contract."""

    content: str


class Acceptance(Struct, frozen=True, kw_only=True):
    """The judge of one contract."""

    contract_type: ContractType
    inputs: GenerationInputs
    prior: Mapping[ContractType, str]
    mask_secrets: Callable[[str], str]

    def accepted(self, submitted: SubmittedText) -> str:
        """Return a text as it will be stored. Raises: ContractRefused."""
        text = self.mask_secrets(strip_code_fences(submitted.content))
        if self.contract_type is ContractType.BUILDER_DIRECTIVE and text:
            text = with_settings(text, self._settings())
        read_contract(self.contract_type, text, self.inputs.mode)
        refuse_borrowed_lines(self.contract_type, text, self.inputs.own_words())
        return text

    def check(self, submitted: SubmittedText) -> None:
        """Refuse a text that cannot be stored. Raises: ContractRefused."""
        self.accepted(submitted)

    def from_text(self, text: str) -> SubmittedText | None:
        """Return a reply as a contract, if it is one; an apology is not (FORGE-139)."""
        submitted = SubmittedText(content=text)
        try:
            self.check(submitted)
        except ContractRefused:
            return None
        return submitted

    def _settings(self) -> Settings:
        """Return the settings of the build, which no model decides."""
        mode = self.inputs.mode
        phases = read_contract(ContractType.PHASES, self.prior[ContractType.PHASES], mode).content
        order = tuple(each.number for each in phases.phases) if isinstance(phases, Phases) else ()
        return Settings(mode=mode, phase_order=order, verify=verification_of(self.inputs))
