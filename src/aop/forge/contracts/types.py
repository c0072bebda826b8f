"""Types of contracts: their order, their files, and other known names."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

ContractFormat = Literal["markdown", "yaml", "json"]
BuildMode = Literal["full", "mini"]


class ContractType(StrEnum):
    """One of the nine contracts, in the order in which they are generated (FORGE-002)."""

    MANIFESTO = "manifesto"
    BLUEPRINT = "blueprint"
    STACK = "stack"
    SCHEMA = "schema"
    PHYSICS = "physics"
    BOUNDARIES = "boundaries"
    UI = "ui"
    PHASES = "phases"
    BUILDER_DIRECTIVE = "builder_directive"


CONTRACT_TYPES: tuple[ContractType, ...] = tuple(ContractType)

OTHER_NAMES = (
    "builder_contract",
    "system_prompt",
    "auditor_prompt",
    "recovery_planner_prompt",
    "remediation",
    "desktop_distribution_plan",
)
"""Texts of the builder itself, which `forge_get_contract` knows beside the nine (FORGE-032)."""

FORMATS: Mapping[ContractType, ContractFormat] = {
    each: "yaml" if each is ContractType.PHYSICS else "json" if each is ContractType.BOUNDARIES else "markdown"
    for each in ContractType
}

_SUFFIXES: Mapping[ContractFormat, str] = {"markdown": "md", "yaml": "yaml", "json": "json"}


def file_name(contract_type: ContractType) -> str:
    """Return the file name of a contract, such as `physics.yaml`."""
    return f"{contract_type}.{_SUFFIXES[FORMATS[contract_type]]}"
