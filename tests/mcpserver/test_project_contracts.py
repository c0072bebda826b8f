"""Contracts through real MCP servers: every client reads its own project and build, whatever happens beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from aop.core.roles import Role
from aop.forge.contracts.types import ContractType
from tests.forge.broker.shelves import pin, shelve
from tests.forge.sample_contracts import CONTRACTS
from tests.mcpserver.clients import Mcp, over_http, over_stdio, served, token_for
from tests.world import World, make_repository, run_aop

STACK = ContractType.STACK
PROJECTS = ("birds", "boats")
READS = 25


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two projects with a pinned build each; every text of one names it, and no text of the other."""
    made = World(make_repository(tmp_path / "repo"))
    for name in PROJECTS:
        pin(made, shelve(made, name, {each: texts(name, 0)[each] for each in CONTRACTS}))
    yield made
    made.close()


def texts(project: str, edition: int) -> dict[ContractType, str]:
    mark = f"\n\nThis is edition {edition} of {project}.\n"
    return {each: text if each is ContractType.BOUNDARIES else text + mark for each, text in CONTRACTS.items()}


def edit_until(world: World, over: Event, folder: Path) -> int:
    """Edit the stack of both projects at the real door, again and again; return how often."""
    edition = 0
    while not over.is_set():
        edition += 1
        for name in PROJECTS:
            text = folder / f"{name}.md"
            text.write_text(CONTRACTS[STACK] + f"\n## Edition {edition} of {name}\n\nMore of it.\n")
            ran = run_aop(world.root, "forge", "edit", name, "stack", "--file", str(text))
            assert ran.code == 0, ran.err
    return edition


def read_often(client: Mcp, *, pinned: bool) -> list[Any]:
    arguments = {"contract_type": "stack"}
    answers = [client.call("forge_get_project_contract", arguments).data for _ in range(READS)]
    assert all((answer["source"] == "snapshot") is pinned for answer in answers)
    return answers


@pytest.mark.req("FORGE-043", "FORGE-078", "FORGE-080", "FORGE-095", "FORGE-106")
def test_eight_clients_of_one_server_read_their_own_while_both_projects_are_edited(
    world: World, tmp_path: Path
) -> None:
    over = Event()
    with ExitStack() as stack:
        server = stack.enter_context(served(world.root))
        clients = []
        for number in range(8):
            project, is_pinned = PROJECTS[number % 2], number < 4
            scope = {"project": project, "build": f"{project}-b1" if is_pinned else None}
            token = token_for(world, Role.CODER, project=scope["project"], build=scope["build"])
            client = stack.enter_context(over_http(server.url, token))
            clients.append((project, is_pinned, client))
        threads = stack.enter_context(ThreadPoolExecutor(9))
        editing = threads.submit(edit_until, world, over, tmp_path)
        reading = [threads.submit(read_often, client, pinned=is_pinned) for _, is_pinned, client in clients]
        answered = [each.result(timeout=250) for each in reading]
        over.set()
        assert editing.result(timeout=250) > 0
    for (project, is_pinned, _), answers in zip(clients, answered, strict=True):
        other = next(name for name in PROJECTS if name != project)
        assert {answer["project_id"] for answer in answers} == {project}
        assert not any(f"of {other}" in answer["content"] for answer in answers)
        if is_pinned:
            assert {(answer["content"], answer["version"]) for answer in answers} == {(texts(project, 0)[STACK], 1)}
        else:
            versions = [answer["version"] for answer in answers]
            assert versions == sorted(versions)


@pytest.mark.req("FORGE-087")
def test_a_server_for_a_project_needs_no_token_and_leaves_none_behind(world: World) -> None:
    with over_stdio(world.root, "", "--project", "birds", "--role", "auditor") as client:
        answer = client.call("forge_get_project_contract", {"contract_type": "stack"}).data
        assert (answer["project_id"], answer["source"]) == ("birds", "db")
        refused = client.call("forge_get_project_contract", {"contract_type": "stack", "project_id": "boats"})
        assert refused.code == "unknown_project"
        assert "forge_get_phase_window" not in client.names()
    (token,) = world.app.tokens.all()
    assert (token.role, token.project_id, bool(token.revoked_at)) == (Role.AUDITOR, "birds", True)


def test_a_server_for_a_build_narrows_the_token_that_it_is_given(world: World) -> None:
    token = token_for(world, Role.SCOUT, project="birds")
    with over_stdio(world.root, token, "--build", "birds-b1") as client:
        assert client.call("forge_get_project_context").data["build_id"] == "birds-b1"
    for words in (("--project", "boats"), ("--build", "boats-b1"), ("--project", "birds", "--role", "coder")):
        ran = run_aop(world.root, "mcp", *words, env={"AOP_TOKEN": token})
        assert (ran.code in (1, 2), ran.out) == (True, "")


@pytest.mark.req("FORGE-114")
def test_a_host_that_opens_a_workspace_reads_its_project_and_switches_with_the_workspace(world: World) -> None:
    for project in PROJECTS:
        configured = json.loads(run_aop(world.root, "mcp", "config", "claude", "--project", project).out)
        words = configured["mcpServers"]["aop"]["args"]
        assert words[-4:] == ["--repo", str(world.root), "--project", project]
        with over_stdio(world.root, "", *words[-2:]) as client:
            assert client.call("forge_get_project_context").data["project"]["id"] == project


def test_the_configuration_of_a_host_names_the_project_of_its_token(world: World) -> None:
    ran = run_aop(world.root, "mcp", "config", "claude", "--role", "scout", "--project", "birds")
    assert ran.err.endswith("#   export AOP_TOKEN=$(aop token scout --project birds)\n")
    assert run_aop(world.root, "mcp", "config", "claude", "--project", "nothing").code == 1
