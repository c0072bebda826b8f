"""Role briefs and tool definitions: what an agent is sent before it asks is short, and holds no contract."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from aop.adapters.models.tokenizer import O200kTokenizer
from aop.core.roles import Role
from aop.forge.broker.role_briefs import BRIEFED_ROLES, role_brief, role_prompt
from aop.forge.contracts.examples import all_examples
from aop.forge.measure.token_counts import FIXED_CONTEXT_LIMIT, definitions_text
from aop.forge.tools.broker.token_report import definitions_for
from tests.forge.broker.shelves import shelve
from tests.mcpserver.clients import over_http, served, token_for
from tests.world import World, make_repository

MOST_TOKENS = {Role.SCOUT: 800, Role.CODER: 600, Role.AUDITOR: 500, Role.FIXER: 400, Role.FORGE_BUILDER: 5000}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("briefs") / "repo"))
    shelve(made, "birds")
    yield made
    made.close()


@pytest.mark.req("FORGE-046", "FORGE-064", "FORGE-108")
@pytest.mark.parametrize("role", BRIEFED_ROLES)
def test_a_brief_with_its_tools_is_short(world: World, role: Role) -> None:
    tokenizer = O200kTokenizer()
    brief = tokenizer.count(role_brief(role))
    tools = tokenizer.count(definitions_text(definitions_for(world.app.gateway.kernel, role)))
    assert 0 < brief <= MOST_TOKENS[role]
    assert brief + tools <= FIXED_CONTEXT_LIMIT == 6_000


@pytest.mark.req("FORGE-105")
@pytest.mark.parametrize(
    ("role", "contracts"),
    [
        (Role.SCOUT, ("manifesto", "stack")),
        (Role.CODER, ("stack", "physics", "boundaries")),
        (Role.AUDITOR, ("boundaries", "physics")),
        (Role.FIXER, ("forge_get_build_contracts",)),
    ],
)
def test_a_brief_says_which_contracts_to_pull_by_tools_that_the_role_has(
    world: World, role: Role, contracts: tuple[str, ...]
) -> None:
    brief = role_brief(role)
    own = {str(each["name"]) for each in definitions_for(world.app.gateway.kernel, role)}
    named = {word for word in brief.replace("(", "`").split("`") if word.startswith("forge_")}
    assert (named <= own, [each for each in contracts if f"`{each}`" not in brief]) == (True, [])


@pytest.mark.req("FORGE-105", "FORGE-107")
@pytest.mark.parametrize("name", [*BRIEFED_ROLES, "builder_contract", "recovery_planner"])
def test_no_brief_holds_a_contract_or_names_this_product(name: str) -> None:
    text = role_prompt(str(name))
    lines = {line.strip() for example in all_examples() for line in example.splitlines() if len(line.strip()) > 30}
    assert [line for line in lines if line in text] == []
    assert [word for word in ("AOP", "ForgeGuard", "TaskFlow") if word in text] == []


@pytest.mark.req("FORGE-064")
def test_the_definitions_that_are_counted_are_those_that_a_server_sends(world: World) -> None:
    with served(world.root) as server:
        for role in BRIEFED_ROLES:
            with over_http(server.url, token_for(world, role, project="birds")) as client:
                sent = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in client.tools()]
            counted = definitions_for(world.app.gateway.kernel, role)
            assert sent == msgspec.json.decode(definitions_text(counted))
