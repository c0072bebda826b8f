"""Comparison of the two ways to write contracts, by tools and by snowball."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.generation.generator import Generator
from aop.forge.generation.inputs import GenerationInputs
from aop.forge.generation.missions import Assignment, Way


async def compare_ways(generator: Generator, inputs: GenerationInputs) -> Mapping[str, Any]:
    """Write each contract both ways, on the same earlier contracts, and return what each took.

    Raises: ContractNotWritten, refusals of asking a model.
    """
    fence, prior = generator.new_id("fence"), dict[ContractType, str]()
    rows: list[dict[str, Any]] = []
    for each in CONTRACT_TYPES:
        row: dict[str, Any] = {"contract_type": each.value}
        texts: dict[Way, str] = {}
        for way in get_args(Way):
            assignment = Assignment(contract_type=each, inputs=inputs, prior=dict(prior), fence=fence, way=way)
            done = await generator.write(assignment)
            row[way], texts[way] = done.usage(), done.content
        prior[each] = texts["tools"]
        rows.append(row)
    generator.steps.forget()
    return {"project_id": inputs.project_id, "stored": False, "contracts": rows}
