"""Roles through MCP: each sees exactly the tools that the gateway allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.tokens import TOKEN_ROLES
from aop.wiring.catalogue import CATALOGUE
from tests.mcpserver.clients import MODES, Served, over_http, over_stdio, served, token_for
from tests.world import FILES, World, make_repository

REVISIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("roles") / "repo"))
    made.init("one")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


def reachable(world: World, role: Role) -> list[str]:
    return [tool.name for tool in world.app.gateway.tools_for(Principal(role=role, actor=f"{role}:one"))]


@pytest.mark.req("AOP-152", "AOP-327", "AOP-328")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("role", sorted(TOKEN_ROLES))
def test_a_role_is_shown_exactly_its_tools_over_http(world: World, server: Served, role: Role, mode: str) -> None:
    with over_http(server.url, token_for(world, role, "one"), mode=mode) as client:
        assert (client.revision, client.names()) == (REVISIONS[mode], reachable(world, role))


@pytest.mark.req("AOP-152", "AOP-327", "AOP-328")
@pytest.mark.parametrize(("role", "mode"), [(Role.ORCHESTRATOR, "auto"), (Role.BUILDER, "legacy"), (Role.QA, "auto")])
def test_a_role_is_shown_exactly_its_tools_over_stdio(world: World, role: Role, mode: str) -> None:
    with over_stdio(world.root, token_for(world, role, "one"), mode=mode) as client:
        assert (client.revision, client.names()) == (REVISIONS[mode], reachable(world, role))


@pytest.mark.hostile("T15")
def test_no_token_opens_what_only_a_person_may_do(world: World, server: Served) -> None:
    persons = [tool.name for tool in CATALOGUE.values() if tool.person_only]
    roles = sorted(TOKEN_ROLES)
    for number, role in enumerate(roles):
        with over_http(server.url, token_for(world, role)) as client:
            # Each tool by one role: the gateway's own test asks for every tool in every role.
            codes = {client.call(name, {"feature_id": "one"}).code for name in persons[number :: len(roles)]}
            assert (codes, set(persons) & set(client.names())) == ({"forbidden_tool_for_role"}, set())


def test_the_policy_narrows_what_a_token_opens(tmp_path: Path) -> None:
    policy = "version: 1\nrbac: {builder: [repo.status, repo.diff]}\n"
    world = World(make_repository(tmp_path / "repo", {**FILES, "agentic/orchestrator/policy.yaml": policy}))
    with over_stdio(world.root, token_for(world, Role.BUILDER)) as client:
        assert client.names() == ["repo.diff", "repo.status"]
    world.close()


def test_every_tool_is_published_whole(world: World, server: Served) -> None:
    with over_http(server.url, token_for(world, Role.ORCHESTRATOR)) as client:
        tools = client.tools()
    for tool in tools:
        row = CATALOGUE[tool.name]
        for schema in (tool.input_schema, tool.output_schema or {}):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert (schema["type"], "$ref" in str(schema)) == ("object", False), tool.name
        own = row.arguments.__struct_fields__
        assert ("operation_id" in tool.input_schema["properties"]) is (row.mutates or "operation_id" in own), tool.name
        hints = tool.annotations
        assert hints is not None
        assert (tool.description, hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (
            row.summary,
            not row.mutates,
            False,
            False,
        )
    hinted = {tool.name: (tool.title, tool.annotations and tool.annotations.idempotent_hint) for tool in tools}
    assert {name: hinted[name] for name in ("feature.init", "gates.run", "repo.ensure_worktree", "repo.status")} == {
        "feature.init": ("Feature: init", True),
        "gates.run": ("Gates: run", False),
        "repo.ensure_worktree": ("Repo: ensure worktree", True),
        "repo.status": ("Repo: status", True),
    }
