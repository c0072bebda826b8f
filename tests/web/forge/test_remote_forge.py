"""`aop mcp --forge URL`: the read tools of forge, answered from another AOP."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters

from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from tests.forge.projects import NINE, stored
from tests.mcpserver.clients import Mcp, Served, served, words_of
from tests.web.forge.forge_servers import EVES_KEY, KEY, put_build, put_key, put_project, revoke_key
from tests.web.forge.recorded_server import Exchange, recorded
from tests.world import World, make_repository, run_aop

CONTEXT = "/api/mcp/context/shop"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("remote") / "repo"))
    put_key(made, KEY)
    put_key(made, EVES_KEY, owner="eve")
    put_project(made, "shop")
    put_build(made, "build-1", "shop", 1, stored(made, "shop").sha256)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@contextmanager
def remote(folder: Path, url: str, *words: str, key: str = KEY) -> Iterator[Mcp]:
    """Connect to an `aop mcp --forge`, in a folder that is no repository."""
    environment = {**os.environ, "FORGEGUARD_API_KEY": key}
    program, *arguments = words_of(["mcp", "--forge", url, *words], environment)
    server = StdioServerParameters(command=program, args=arguments, env=environment, cwd=folder)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(server)) as client:
        yield Mcp(portal, client)


@pytest.mark.req("FORGE-081", "FORGE-079")
def test_the_read_tools_answer_from_another_aop(tmp_path: Path, server: Served) -> None:
    with remote(tmp_path, server.origin, "--project", "shop") as agent:
        assert agent.names() == [
            "forge_get_contract",
            "forge_get_phase_window",
            "forge_get_project_context",
            "forge_get_project_contract",
            "forge_get_summary",
            "forge_list_contracts",
            "forge_list_project_contracts",
        ]
        answer = agent.call("forge_get_project_contract", {"contract_type": "ui"}).data
        assert {name: answer[name] for name in ("project_id", "batch", "version", "source", "content")} == {
            "project_id": "shop",
            "batch": 1,
            "version": 1,
            "source": "db",
            "content": NINE[ContractType.UI],
        }
        rows = agent.call("forge_list_project_contracts").data["items"]
        assert [row["contract_type"] for row in rows] == list(CONTRACT_TYPES)
        assert agent.call("forge_get_project_context").data["project"]["name"] == "shop"
    assert os.listdir(tmp_path) == []


@pytest.mark.req("FORGE-111")
def test_an_edit_is_seen_at_once_and_never_in_a_pinned_build(tmp_path: Path, world: World, server: Served) -> None:
    put_project(world, "blog")
    put_build(world, "build-2", "blog", 1, stored(world, "blog").sha256)
    wanted = {"contract_type": "ui"}
    with (
        recorded(server) as door,
        remote(tmp_path, door.url, "--project", "blog") as live,
        remote(tmp_path, door.url, "--build", "build-2") as pinned,
    ):
        context, batch = "/api/mcp/context/blog", "/api/projects/blog/contracts/history/"
        started = [Exchange(context, False, 200), Exchange("/api/mcp/build/build-2/contracts", False, 200)]
        assert door.exchanges == started
        live.call("forge_get_project_contract", wanted)
        assert door.since(2) == [Exchange(context, True, 304), Exchange(f"{batch}1", False, 200)]
        live.call("forge_get_project_contract", wanted)
        assert door.since(4) == [Exchange(context, True, 304)]
        pinned.call("forge_get_project_contract", wanted)
        stored(world, "blog", {ContractType.UI: "Edited.\n"}, author="person:ada")
        seen = len(door.exchanges)
        edited = live.call("forge_get_project_contract", wanted).data
        assert (edited["content"], edited["version"], edited["source"]) == ("Edited.\n", 2, "db")
        assert door.since(seen) == [Exchange(context, True, 200), Exchange(f"{batch}2", False, 200)]
        seen = len(door.exchanges)
        frozen = pinned.call("forge_get_project_contract", wanted).data
        assert (frozen["content"], frozen["version"], frozen["source"]) == (NINE[ContractType.UI], 1, "snapshot")
        # What is pinned is kept for good; that the project is still the key's owner's is asked each time.
        assert door.since(seen) == [Exchange(context, True, 200)]


def test_the_fixer_reads_the_pinned_contracts_of_its_build(tmp_path: Path, server: Served) -> None:
    with remote(tmp_path, server.origin, "--build", "build-1", "--role", "fixer") as fixer:
        assert fixer.names() == ["forge_get_build_contracts"]
        answer = fixer.call("forge_get_build_contracts", {"contract_types": ["ui", "stack"]}).data
    assert {each["contract_type"]: each["content"] for each in answer["items"]} == {
        each: NINE[each] for each in (ContractType.STACK, ContractType.UI)
    }


def refused_start(folder: Path, url: str, *words: str, key: str = KEY) -> tuple[int, str, str]:
    """Start an `aop mcp --forge` that ends at once; return its exit code, and code and message of the refusal."""
    ran = run_aop(folder, "mcp", "--forge", url, *words, "--json", env={"FORGEGUARD_API_KEY": key})
    return ran.code, ran.json["error"]["code"], ran.json["error"]["message"]


def test_another_owner_sees_nothing_of_it(tmp_path: Path, server: Served) -> None:
    unknown = (1, "unknown_project", "There is no project `shop`.")
    assert refused_start(tmp_path, server.origin, "--project", "shop", key=EVES_KEY) == unknown
    with remote(tmp_path, server.origin, key=EVES_KEY) as eve:
        wanted = {"contract_type": "ui", "project_id": "shop"}
        assert eve.call("forge_get_project_contract", wanted).code == "unknown_project"


def test_a_build_or_a_key_that_is_not_there_is_refused_at_the_start(tmp_path: Path, server: Served) -> None:
    unknown = (1, "unknown_build", "There is no build `build-9`.")
    assert refused_start(tmp_path, server.origin, "--build", "build-9") == unknown
    said = f"The AOP at {server.origin} refuses: The key is not one of this repository."
    assert refused_start(tmp_path, server.origin, key="fg_" + "none" * 10) == (4, "forge_key_invalid", said)


def test_a_key_that_is_revoked_opens_nothing_more(tmp_path: Path, world: World, server: Served) -> None:
    key = "fg_" + "late" * 10
    put_key(world, key)
    with remote(tmp_path, server.origin, "--build", "build-1", key=key) as agent:
        assert not agent.call("forge_get_project_contract", {"contract_type": "ui"}).is_error
        revoke_key(world, key)
        refused = agent.call("forge_get_project_contract", {"contract_type": "ui"})
    assert (refused.code, key in refused.text) == ("forge_key_invalid", False)


def test_a_server_that_is_gone_is_named(tmp_path: Path, world: World) -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        said = f"The AOP at {url} cannot be reached."
        assert refused_start(tmp_path, url) == (6, "forge_unreachable", said)
    with served(world.root) as running, remote(tmp_path, running.origin, "--project", "shop") as agent:
        running.stop()
        refused = agent.call("forge_get_project_contract", {"contract_type": "ui"})
    assert (refused.code, f"The AOP at {running.origin} cannot be reached." in refused.text) == (
        "forge_unreachable",
        True,
    )


@pytest.mark.parametrize("role", ["system", "nobody"])
def test_a_role_that_no_agent_has_is_not_offered(tmp_path: Path, role: str) -> None:
    ran = run_aop(tmp_path, "mcp", "--forge", "http://127.0.0.1:4777", "--role", role)
    assert (ran.code, ran.out) == (2, "")
    roles = "auditor, builder, coder, fixer, forge_builder, orchestrator, planner, qa, scout, swe"
    assert f"argument --role: there is no role `{role}`; use one of {roles}." in ran.err


@pytest.mark.parametrize(
    ("url", "key", "code"),
    [
        ("http://forge.example", KEY, "invalid_cli_args"),
        ("ftp://127.0.0.1", KEY, "invalid_cli_args"),
        ("http://me:secret@127.0.0.1", KEY, "invalid_cli_args"),
        ("http://127.0.0.1:many", KEY, "invalid_cli_args"),
        ("", KEY, "invalid_cli_args"),
        ("http://127.0.0.1:4777", "", "forge_key_invalid"),
        ("http://127.0.0.1:4777", "fg_é", "forge_key_invalid"),
    ],
)
def test_an_address_or_a_key_that_cannot_work_is_refused_at_once(tmp_path: Path, url: str, key: str, code: str) -> None:
    ran = run_aop(tmp_path, "mcp", "--forge", url, "--json", env={"FORGEGUARD_API_KEY": key})
    assert (ran.json["error"]["code"], ran.code != 0) == (code, True)
    assert "secret" not in ran.out + ran.err
