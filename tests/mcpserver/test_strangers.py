"""Strangers: requests without a valid token, or beyond its rights, change nothing."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest

from aop.core.roles import Role
from aop.kernel.contracts.schemas import error_schema
from tests.mcpserver.clients import AOP, MODES, Mcp, Served, over_http, over_stdio, served, token_for
from tests.world import PATCH, World, make_repository, plan_for, run_aop

FORBIDDEN = "forbidden_tool_for_role"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A feature `one` with a plan, and a feature `two` without."""
    made = World(make_repository(tmp_path_factory.mktemp("strangers") / "repo"))
    made.plan("one")
    made.init("two")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.fixture(scope="module")
def builder(world: World, server: Served) -> Iterator[Mcp]:
    with over_http(server.url, token_for(world, Role.BUILDER, "one")) as client:
        yield client


def unsigned(token: str) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    return f"{header}.{token.split('.')[1]}."


def of_another_repository(tmp_path: Path) -> str:
    other = World(make_repository(tmp_path / "other"))
    token = token_for(other, Role.BUILDER)
    other.close()
    return token


def revoked(world: World) -> str:
    token = token_for(world, Role.BUILDER)
    world.app.tokens.revoke(token, by="person:ada")
    return token


BAD_TOKENS: dict[str, tuple[Callable[[World, Path], str], str]] = {
    "none": (lambda _w, _t: "", "no token|not set"),
    "of another repository": (lambda _w, tmp_path: of_another_repository(tmp_path), "was not made by"),
    "alg none": (lambda world, _t: unsigned(token_for(world, Role.BUILDER)), "was not made by"),
    "tampered": (lambda world, _t: token_for(world, Role.BUILDER)[:-4] + "AAAA", "was not made by"),
    "expired": (lambda world, _t: token_for(world, Role.BUILDER, age=3700), "has expired"),
    "revoked": (lambda world, _t: revoked(world), "was revoked"),
}


@pytest.mark.req("AOP-327")
@pytest.mark.hostile("T01", "T05", "T10", "T22")
@pytest.mark.parametrize("kind", BAD_TOKENS)
def test_without_a_good_token_nothing_is_served_over_stdio(world: World, kind: str, tmp_path: Path) -> None:
    make, said = BAD_TOKENS[kind]
    token = make(world, tmp_path)
    before = world.fingerprint()
    ran = run_aop(world.root, "mcp", env={"AOP_TOKEN": token})
    assert (ran.code, ran.out) == (4, "")
    assert any(words in ran.err for words in said.split("|"))
    assert "`aop token ROLE --feature ID`" in ran.err
    assert token not in ran.err or not token
    assert world.fingerprint() == before


@pytest.mark.req("AOP-327")
@pytest.mark.hostile("T01", "T05", "T10")
@pytest.mark.parametrize("kind", BAD_TOKENS)
def test_without_a_good_token_nothing_is_served_over_http(
    world: World, server: Served, kind: str, tmp_path: Path
) -> None:
    make, said = BAD_TOKENS[kind]
    token = make(world, tmp_path)
    before = world.fingerprint()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = httpx2.post(server.url, json=INITIALIZE, headers={**ACCEPT, **headers}, timeout=300)
    assert (answer.status_code, answer.headers["www-authenticate"].split()[0]) == (401, "Bearer")
    body = answer.json()
    jsonschema.Draft202012Validator(error_schema()).validate(body)
    assert body["error"]["code"] == "token_invalid"
    assert any(words in body["error"]["message"] for words in said.split("|"))
    assert world.fingerprint() == before


ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.mark.hostile("T17")
@pytest.mark.parametrize("query", ["?token={token}", "?access_token={token}", "?AOP_TOKEN={token}"])
def test_a_token_in_the_address_opens_nothing(world: World, server: Served, query: str) -> None:
    address = server.url + query.format(token=token_for(world, Role.BUILDER))
    assert httpx2.post(address, json=INITIALIZE, headers=ACCEPT, timeout=300).status_code == 401


# --- a good token, and what it does not open -----------------------------------------------------


@pytest.mark.req("AOP-148", "AOP-152", "AOP-318")
@pytest.mark.hostile("T09")
@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        pytest.param("feature.state_get", {"feature_id": "two"}, FORBIDDEN, id="another feature"),
        pytest.param("feature.state_get", {"feature_id": "nobody"}, FORBIDDEN, id="an unknown feature"),
        pytest.param("feature.init", {"feature_id": "one"}, FORBIDDEN, id="another role's tool"),
        pytest.param("plan.submit", {"feature_id": "one", "plan_json": plan_for("one")}, FORBIDDEN, id="a plan"),
        pytest.param("feature.ready_to_merge", {"feature_id": "one"}, FORBIDDEN, id="a person's tool"),
        pytest.param("feature.explode", {}, "unknown_tool", id="no tool"),
        pytest.param("../x", {}, "unknown_tool", id="a path"),
        pytest.param("", {}, "unknown_tool", id="no name"),
        pytest.param("repo.status", {}, "invalid_arguments", id="missing"),
        pytest.param("repo.status", None, "invalid_arguments", id="no arguments at all"),
        pytest.param("repo.status", {"feature_id": "one", "force": True}, "invalid_arguments", id="extra"),
        pytest.param("repo.status", {"feature_id": 1}, "invalid_arguments", id="wrong type"),
        pytest.param("repo.status", {"feature_id": "One"}, "invalid_feature_slug", id="no feature id"),
        pytest.param("repo.status", {"feature_id": "../x"}, "invalid_feature_slug", id="a path as a feature"),
        pytest.param("repo.status", {"feature_id": "one", "actor_type": "qa"}, FORBIDDEN, id="another role's name"),
        pytest.param("repo.status", {"feature_id": "one", "actor_id": "person:ada"}, FORBIDDEN, id="a person's name"),
        pytest.param(
            "repo.status", {"feature_id": "one", "operation_id": "a"}, "invalid_arguments", id="an id for a look"
        ),
        pytest.param(
            "repo.read_file", {"feature_id": "one", "path": "/etc/hostname"}, "path_out_of_bounds", id="absolute"
        ),
        pytest.param(
            "repo.read_file", {"feature_id": "one", "path": "a", "offset": "1"}, "invalid_arguments", id="text"
        ),
        pytest.param("repo.read_file", {"feature_id": "one", "path": "a" * 3_000_000}, "path_out_of_bounds", id="huge"),
        pytest.param(
            "repo.apply_patch",
            {"feature_id": "one", "unified_diff": PATCH, "expected_version": 7},
            "version_conflict",
            id="stale",
        ),
        pytest.param(
            "repo.apply_patch",
            {"feature_id": "one", "unified_diff": PATCH, "operation_id": "no id"},
            "invalid_arguments",
            id="no operation id",
        ),
        pytest.param(
            "repo.apply_patch",
            {"feature_id": "one", "unified_diff": PATCH, "operation_id": ["a"]},
            "invalid_arguments",
            id="a list as an operation id",
        ),
        pytest.param(
            "repo.apply_patch",
            {"feature_id": "one", "unified_diff": "x" * 3_000_000},
            "invalid_patch",
            id="a huge patch",
        ),
    ],
)
def test_a_token_opens_no_more_than_it_says(world: World, builder: Mcp, tool: str, arguments: Any, code: str) -> None:
    before = world.fingerprint()
    answer = builder.call(tool, arguments)
    assert (answer.is_error, answer.structured) == (True, None)
    assert answer.code == code
    jsonschema.Draft202012Validator(error_schema()).validate(answer.error)
    assert len(answer.text) < 20_000
    assert str(world.root) not in answer.text
    assert world.fingerprint() == before


def test_an_unknown_feature_is_said_to_be_unknown_to_whoever_may_see_all(world: World, server: Served) -> None:
    with over_http(server.url, token_for(world, Role.QA)) as client:
        assert client.call("feature.state_get", {"feature_id": "nobody"}).code == "unknown_feature"


def test_what_a_host_adds_to_every_call_is_dropped(builder: Mcp) -> None:
    assert builder.call("repo.status", {"feature_id": "one", "wait_for_previous": True}).data["feature_id"] == "one"


@pytest.mark.hostile("T10")
@pytest.mark.parametrize("mode", MODES)
def test_a_token_that_is_revoked_ends_a_running_conversation(world: World, server: Served, mode: str) -> None:
    token = token_for(world, Role.BUILDER, "one")
    with over_stdio(world.root, token, mode=mode) as client:
        assert client.call("repo.status", {"feature_id": "one"}).code is None
        world.app.tokens.revoke(token, by="person:ada")
        assert client.call("repo.status", {"feature_id": "one"}).code == "token_invalid"
    with httpx2.Client(headers={**ACCEPT, "Authorization": f"Bearer {token}"}, timeout=300) as http:
        assert http.post(server.url, json=INITIALIZE).status_code == 401


def test_standard_output_carries_the_protocol_and_nothing_else(world: World) -> None:
    lines = [json.dumps(INITIALIZE), "not JSON", json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})]
    lines.append(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
    ran = run_aop(world.root, "mcp", stdin="\n".join(lines) + "\n", env={"AOP_TOKEN": token_for(world, Role.QA)})
    assert ran.code == 0
    assert {json.loads(line).get("jsonrpc") for line in ran.out.splitlines()} == {"2.0"}


def test_a_server_for_a_folder_that_is_no_repository_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [*AOP, "serve", "--port", "0"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "[not_a_repository]" in done.stderr
