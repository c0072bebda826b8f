"""Judgement on a batch: contradictions and quality, computed when it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.core.errors import Json
from aop.forge.contracts.anchor import ANCHOR_FIELDS, anchor_of
from aop.forge.contracts.consistency import Contradiction, contradictions_in
from aop.forge.contracts.rubric import Quality, qualities_of
from aop.forge.contracts.types import ContractType
from aop.forge.projects.documents import ForgeAnswers, ForgeProject, ScoutRun
from aop.forge.projects.questionnaire import Answers
from aop.kernel.record.port import Snapshot

_AIMS: Mapping[ContractType, tuple[tuple[str, str], ...]] = {
    ContractType.MANIFESTO: (("product_intent", "summary"),),
    ContractType.BLUEPRINT: (("product_intent", "features"),),
    ContractType.STACK: tuple(ANCHOR_FIELDS.values()),
    ContractType.SCHEMA: (("database_schema", "entities"),),
    ContractType.PHYSICS: (("api_endpoints", "endpoints"),),
    ContractType.BOUNDARIES: (("architectural_boundaries", "layers"),),
    ContractType.UI: (("ui_requirements", "pages"),),
    ContractType.PHASES: (("product_intent", "features"),),
    ContractType.BUILDER_DIRECTIVE: (("dev_platform", "verify"),),
}


class Judgement(Struct, frozen=True, kw_only=True):
    """What is computed about the contracts of a batch."""

    contradictions: tuple[Contradiction, ...]
    quality: Mapping[ContractType, Quality]

    def as_json(self) -> dict[str, Json]:
        """Return it as plain values, for the journal and for answers."""
        plain: dict[str, Json] = msgspec.to_builtins(self)
        return plain


def judge(view: Snapshot, project: ForgeProject, contracts: Mapping[ContractType, str]) -> Judgement:
    """Compare the contracts of a project with its answers, its renovation plan and each other."""
    stored = view.get(ForgeAnswers, project.project_id)
    answers: Answers = {} if stored is None else stored.sections
    found = contradictions_in(contracts, project.mode, anchor_of(answers))
    run = view.get(ScoutRun, project.scan_run) if project.scan_run else None
    aims = {each: _texts(answers, fields) for each, fields in _AIMS.items()}
    if run is not None and run.plan is not None:
        aims[ContractType.PHASES] = _plan_aims(run.plan)
    return Judgement(contradictions=found, quality=qualities_of(contracts, project.mode, found, aims))


def _texts(answers: Answers, fields: Sequence[tuple[str, str]]) -> list[str]:
    found: list[str] = []
    for section, field in fields:
        value = answers.get(section, {}).get(field)
        items = value if isinstance(value, (list, tuple)) else [value]
        found += [" ".join(map(str, each)) if isinstance(each, (list, tuple)) else str(each) for each in items if each]
    return [each for each in found if each.strip().casefold() != "none"]


def _plan_aims(plan: Mapping[str, Json]) -> list[str]:
    tasks = plan.get("migration_recommendations")
    found = [task.get("to_state") for task in tasks if isinstance(task, Mapping)] if isinstance(tasks, list) else []
    return [each for each in found if isinstance(each, str)]
