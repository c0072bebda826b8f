"""Example contracts of a fictional project: form and depth, never content."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from aop.forge.contracts.types import CONTRACT_TYPES, BuildMode, ContractType, file_name

PROJECT_NAME = "TaskFlow"


@cache
def example_of(contract_type: ContractType, mode: BuildMode = "full") -> str:
    """Return the example of a type of contract; a mini build has its own for phases (FORGE-017)."""
    stem, suffix = file_name(contract_type).rsplit(".", 1)
    variant = "_mini" if mode == "mini" and contract_type is ContractType.PHASES else ""
    folder = files("aop.forge") / "templates" / "builder_examples"
    return (folder / f"{stem}{variant}_example.{suffix}").read_text(encoding="utf-8")


def all_examples() -> tuple[str, ...]:
    """Return the ten examples."""
    return (*(example_of(each) for each in CONTRACT_TYPES), example_of(ContractType.PHASES, "mini"))
