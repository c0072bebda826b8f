"""The example contracts: their form, their size, and that none of them reaches a project."""

from __future__ import annotations

from importlib.resources import files

import pytest

from aop.core.errors import ContractRefused
from aop.forge.contracts.borrowed_lines import refuse_borrowed_lines
from aop.forge.contracts.examples import PROJECT_NAME, all_examples, example_of
from aop.forge.contracts.readers import read_contract
from aop.forge.contracts.shapes.boundaries import Boundaries
from aop.forge.contracts.shapes.physics import Physics
from aop.forge.contracts.shapes.schema import Schema
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from tests.forge import sample_contracts as sample

T = ContractType


@pytest.mark.req("FORGE-006", "FORGE-007", "FORGE-020")
def test_nine_examples_and_one_for_mini_builds_are_short_and_name_one_fictional_project() -> None:
    examples = all_examples()
    assert len(set(examples)) == 10
    assert [each for each in examples if not 600 <= len(each.encode()) <= 1500] == []
    assert 8_000 <= sum(len(each.encode()) for each in examples) <= 10_000
    assert all(PROJECT_NAME in each for each in examples)


@pytest.mark.req("FORGE-008", "FORGE-009", "FORGE-010", "FORGE-014", "FORGE-016")
@pytest.mark.parametrize("contract_type", [each for each in CONTRACT_TYPES if each is not T.PHASES])
def test_an_example_has_the_form_that_its_reader_asks_for(contract_type: ContractType) -> None:
    assert read_contract(contract_type, example_of(contract_type), "full").contract_type is contract_type


@pytest.mark.req("FORGE-015", "FORGE-017")
def test_the_phases_examples_have_four_phases_and_two() -> None:
    with pytest.raises(ContractRefused) as refused:
        read_contract(T.PHASES, example_of(T.PHASES), "full")
    assert refused.value.facts["problems"] == ["It has 4 phases; a full build has 6 to 12."]
    assert read_contract(T.PHASES, example_of(T.PHASES, "mini"), "mini").contract_type is T.PHASES


@pytest.mark.req("FORGE-011", "FORGE-012", "FORGE-013")
def test_the_examples_of_schema_physics_and_boundaries_hold_what_they_should_show() -> None:
    schema = read_contract(T.SCHEMA, example_of(T.SCHEMA), "full").content
    physics = read_contract(T.PHYSICS, example_of(T.PHYSICS), "full").content
    boundaries = read_contract(T.BOUNDARIES, example_of(T.BOUNDARIES), "full").content
    assert isinstance(schema, Schema)
    assert isinstance(physics, Physics)
    assert isinstance(boundaries, Boundaries)
    assert [table.name for table in schema.tables] == ["users", "tasks", "comments"]
    assert sorted(each.method for each in physics.endpoints) == ["delete", "get", "patch", "post"]
    assert [layer.name for layer in boundaries.layers] == ["routers", "services", "repos", "clients"]


@pytest.mark.parametrize("contract_type", CONTRACT_TYPES)
def test_a_contract_of_a_real_project_borrows_nothing(contract_type: ContractType) -> None:
    refuse_borrowed_lines(contract_type, sample.CONTRACTS[contract_type], "")


@pytest.mark.parametrize("contract_type", CONTRACT_TYPES)
def test_an_example_with_another_name_is_still_recognised_by_its_lines(contract_type: ContractType) -> None:
    renamed = example_of(contract_type).replace("TaskFlow", "Bird Log")
    if contract_type in (T.SCHEMA, T.PHYSICS):
        renamed += "# 3. Overview. Open tasks per member, overdue ones first.\n"
        renamed += "One way to do a thing. A library earns its place by what it removes.\n"
    with pytest.raises(ContractRefused, match="is copied from an example or from a prompt"):
        refuse_borrowed_lines(contract_type, renamed, "a club of bird watchers")


@pytest.mark.parametrize("name", ["TaskFlow", "taskflow", "Task Flow", "task_flow"])
def test_the_name_of_the_fictional_project_is_refused_unless_the_answers_hold_it(name: str) -> None:
    with pytest.raises(ContractRefused, match="the project of the examples"):
        refuse_borrowed_lines(T.STACK, sample.STACK.replace("Bird Log", name), "a club of bird watchers")
    refuse_borrowed_lines(T.STACK, sample.STACK.replace("Bird Log", name), f"we build {name}")


@pytest.mark.parametrize("prompt", ["forge/prompts/contract_writer.md", "forge/prompts/roles/coder.md"])
def test_a_line_of_a_prompt_is_refused_also_one_of_a_role(prompt: str) -> None:
    line = (files("aop") / prompt).read_text(encoding="utf-8").split("\n")[0]
    with pytest.raises(ContractRefused, match="is copied from an example or from a prompt"):
        refuse_borrowed_lines(T.STACK, f"{sample.STACK}\n{line}\n", "a club of bird watchers")


def test_words_of_the_tool_itself_are_refused() -> None:
    with pytest.raises(ContractRefused, match=r"Line 18 names `aop merge`"):
        refuse_borrowed_lines(T.STACK, f"{sample.STACK}- release by aop merge\n", "a club of bird watchers")
