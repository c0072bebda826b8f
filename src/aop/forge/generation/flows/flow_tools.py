"""Tools of the two flows: the parts of a project that a model may ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aop.brains.conversation import Offer
from aop.core.errors import InvalidArguments, Json
from aop.forge.contracts.outline import section_of
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.generation.flows.scan_views import (
    architecture_map,
    compliance_checks,
    migration_tasks,
    project_dossier,
    renovation_priorities,
    stack_profile,
)
from aop.forge.generation.inputs import GenerationInputs
from aop.forge.generation.texts import shown_value

SUBMIT = "submit_contract"
STORIES = ("ui_requirements", "api_endpoints")
"""The sections of the questionnaire that say what users do."""
INTENT = "product_intent"

Read = Callable[[GenerationInputs, str], Json]


class FlowTools:
    """Implements `aop.brains.ports.Tools` for one contract of one project; every answer is a pure reading."""

    def __init__(self, inputs: GenerationInputs, prior: Mapping[ContractType, str]) -> None:
        self._inputs = inputs
        self._prior = prior
        self._readings = READINGS[inputs.flow]
        self.offers: Sequence[Offer] = (*(offer for offer, _ in self._readings.values()), PRIOR_CONTRACT)

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return the part of the project that a tool shows."""
        if name == PRIOR_CONTRACT.name:
            return self._prior_contract(_text(arguments, "contract_type"), _text(arguments, "section"))
        return shown_value(self._readings[name][1](self._inputs, _text(arguments, "path")))

    def _prior_contract(self, name: str, section: str) -> str:
        if name not in CONTRACT_TYPES:
            raise InvalidArguments(
                f"`{name[:80]}` is not a contract.", hint=f"Name one of: {', '.join(CONTRACT_TYPES)}."
            )
        contract_type = ContractType(name)
        text = self._prior.get(contract_type)
        if text is None:
            return f"Contract '{name}' not yet generated."
        return section_of(contract_type, text, section) if section else text


class NoTools:
    """Implements `aop.brains.ports.Tools` for a model that cannot call any."""

    offers: Sequence[Offer] = ()

    async def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Refuse: nothing was offered."""
        raise InvalidArguments(f"There is no tool `{name[:80]}`.")


def all_readings(inputs: GenerationInputs) -> dict[str, str]:
    """Return everything that the tools of a flow show, by the name of the tool."""
    return {name: shown_value(read(inputs, "")) for name, (_, read) in READINGS[inputs.flow].items()}


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidArguments(f"`{name}` is not a text.")
    return value or ""


def _project_intent(inputs: GenerationInputs, _path: str) -> Json:
    return {"name": inputs.name, "size": inputs.mode, **inputs.answers.get(INTENT, {})}


def _technical_preferences(inputs: GenerationInputs, _path: str) -> Json:
    left = {name: dict(part) for name, part in inputs.answers.items() if name not in (INTENT, *STORIES)}
    return {**left}


def _user_stories(inputs: GenerationInputs, _path: str) -> Json:
    return {name: dict(inputs.answers[name]) for name in STORIES if name in inputs.answers}


def _offer(name: str, description: str, **properties: Json) -> Offer:
    return Offer(name=name, description=description, schema={"type": "object", "properties": {**properties}})


_STRING: Json = {"type": "string"}

PRIOR_CONTRACT = Offer(
    name="get_prior_contract",
    description="An earlier contract, or one section of it: a heading, or a JSON pointer for physics and boundaries.",
    schema={
        "type": "object",
        "properties": {"contract_type": {"type": "string", "enum": [*CONTRACT_TYPES]}, "section": _STRING},
        "required": ["contract_type"],
    },
)

READINGS: Mapping[str, Mapping[str, tuple[Offer, Read]]] = {
    "greenfield": {
        offer.name: (offer, read)
        for offer, read in (
            (_offer("get_project_intent", "Name, purpose and users of the project."), _project_intent),
            (_offer("get_technical_preferences", "The fixed technical choices."), _technical_preferences),
            (_offer("get_user_stories", "What users do: pages, actions, endpoints."), _user_stories),
        )
    },
    "scout": {
        offer.name: (offer, read)
        for offer, read in (
            (_offer("get_stack_profile", "Languages, frameworks, tests and infrastructure found."), stack_profile),
            (_offer("get_renovation_priorities", "Health grade, top priorities and risks."), renovation_priorities),
            (_offer("get_migration_tasks", "Recommended migrations, each from a state to another."), migration_tasks),
            (_offer("get_project_dossier", "Summary, intent, quality, risks, recommendations."), project_dossier),
            (_offer("get_compliance_checks", "Checks of the repository and their results."), compliance_checks),
            (
                _offer(
                    "get_architecture_map", "Packages, layers, routes and tables; `path` goes deeper.", path=_STRING
                ),
                architecture_map,
            ),
        )
    },
}
