"""`aop forge tokens`: what agents and models were sent, beside what pushing and snowball would send."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.models.tokenizer import O200kTokenizer
from aop.core.roles import Role
from aop.forge.broker.role_briefs import role_brief, role_prompt
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from tests.brains.subjects import MODELS
from tests.forge.broker.shelves import Agent, keep, pin, shelve
from tests.forge.generation.writers import env_for, new_project, writing, written
from tests.forge.sample_contracts import CONTRACTS
from tests.world import World, make_repository, run_aop

TOKENIZER = O200kTokenizer()
ROLES = ["forge_builder", "scout", "coder", "auditor", "fixer"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo"))
    pin(made, shelve(made, "birds"))
    yield made
    made.close()


def report(world: World, target: str) -> Any:
    ran = run_aop(world.root, "forge", "tokens", target, "--json")
    assert (ran.code, ran.json["ok"]) == (0, True), ran.err
    return ran.json["data"]


@pytest.mark.req("FORGE-064", "FORGE-109", "FORGE-112", "FORGE-119")
def test_the_fetches_of_a_build_are_counted_for_each_role(world: World) -> None:
    coder = Agent(world, Role.CODER, project="birds", build="birds-b1")
    coder.ok("forge_get_project_contract", contract_type="stack")
    coder.ok("forge_get_project_contract", contract_type="stack")
    section = coder.ok("forge_get_project_contract", contract_type="physics", section="/info")
    window = coder.ok("forge_get_phase_window", phase_number=1)
    Agent(world, Role.AUDITOR, project="birds").ok("forge_get_project_contract", contract_type="ui")
    told = report(world, "birds-b1")
    expected = (
        2 * TOKENIZER.count(CONTRACTS[ContractType.STACK])
        + TOKENIZER.count("\n".join([section["content"], *section["outline"]]))
        + TOKENIZER.count(window["content"])
    )
    assert (told["project_id"], told["build_id"], told["batch"]) == ("birds", "birds-b1", 1)
    assert (told["tokenizer"], told["is_estimate"]) == ("o200k", True)
    assert [(role, each["contracts"], each["fetches"]) for role, each in told["roles"].items()] == [
        (role, expected if role == "coder" else 0, 4 if role == "coder" else 0) for role in ROLES
    ]
    assert told["push"] == sum(TOKENIZER.count(CONTRACTS[each]) for each in CONTRACT_TYPES)
    assert told["fixed_context"] == max(each["brief"] + each["tools"] for each in told["roles"].values()) <= 6_000
    assert told["roles"]["scout"]["brief"] == TOKENIZER.count(role_brief(Role.SCOUT))
    whole = report(world, "birds")["roles"]
    assert (whole["auditor"]["fetches"], whole["coder"]["fetches"]) == (1, 4)


def test_a_fetch_of_what_is_no_longer_there_counts_as_nothing(world: World) -> None:
    keep(world, "birds", "contract", "remediation", "Steps.", until="2999-01-01T00:00:00Z")
    coder = Agent(world, Role.CODER, project="birds")
    coder.ok("forge_get_contract", name="remediation")
    coder.ok("forge_get_contract", name="builder_contract")
    told = report(world, "birds")["roles"]["coder"]
    assert (told["contracts"], told["fetches"]) == (TOKENIZER.count(role_prompt("builder_contract")), 2)


def test_a_phase_that_is_fetched_by_its_heading_is_counted(world: World) -> None:
    fixer = Agent(world, Role.FIXER, build=pin(world, "birds"))
    phases = fixer.ok("forge_get_build_contracts", contract_types=["phases"])["items"][0]["content"]
    heading = next(line[3:] for line in phases.splitlines() if line.startswith("## "))
    before = report(world, "birds")["roles"]["fixer"]["contracts"]
    fixer.ok("forge_get_build_contracts", contract_types=["phases"], section=heading)
    assert report(world, "birds")["roles"]["fixer"]["contracts"] > before


@pytest.mark.req("FORGE-119")
def test_a_generation_is_counted_over_all_its_requests_beside_snowball(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    project, family = new_project("greenfield", root), next(iter(MODELS))
    with writing(family, written("greenfield")) as server:
        ran = run_aop(root, "forge", "generate", project, env=env_for(family, server))
    assert ran.code == 0, ran.err
    told = run_aop(root, "forge", "tokens", project, "--json").json["data"]["generation"]
    rows, used = told["contracts"], told["tool_use"]
    assert [row["contract_type"] for row in rows] == list(CONTRACT_TYPES)
    assert (used["requests"], used["sent"]) == (len(server.asked), sum(row["sent"] for row in rows))
    assert 0 < used["cached"] < used["sent"]
    assert used["reported_input"] > 0
    assert told["snowball"]["requests"] == 9
    assert told["snowball"]["sent"] == sum(row["snowball"] for row in rows)
    sizes = [row["snowball"] for row in rows]
    assert sizes[-1] > sizes[0]
    shown = run_aop(root, "forge", "tokens", project).out
    assert f"Generation with tools: {used['sent']:,} tokens in {used['requests']} requests" in shown
    assert f"The same by snowball: {told['snowball']['sent']:,} tokens in 9 requests." in shown


@pytest.mark.req("FORGE-119")
def test_a_person_sees_the_counts_and_that_they_are_estimates(world: World) -> None:
    ran = run_aop(world.root, "forge", "tokens", "birds")
    assert ran.code == 0, ran.err
    assert [line.split()[0] for line in ran.out.splitlines()[1:6]] == ROLES
    assert ran.out.splitlines()[-1] == (
        "Estimates, counted with o200k; models with another vocabulary count differently."
    )
    assert "No generation is recorded." in ran.out


@pytest.mark.parametrize("target", ["nothing", "birds-b2", "../x"])
def test_an_unknown_project_or_build_is_refused(world: World, target: str) -> None:
    ran = run_aop(world.root, "forge", "tokens", target)
    assert (ran.code, ran.out, "[unknown_project]" in ran.err) == (1, "", True)
