"""Keys over HTTP: made, listed and revoked by a key that a person made for that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from aop.core.digests import sha256_hex
from aop.forge.projects.documents import ForgeKey
from aop.forge.projects.keys import principal_of_key, the_key
from tests.mcpserver.clients import Served, served
from tests.web.forge.forge_servers import EVES_KEY, KEY, SECONDS, bearer, get, put_key, put_project
from tests.world import World, make_repository, run_aop

PATH = "/auth/forge-keys"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("keys") / "repo"))
    put_key(made, KEY)
    put_key(made, EVES_KEY, owner="eve", scopes=("keys",))
    put_project(made, "shop")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.fixture(scope="module")
def master(world: World) -> str:
    """The key that a person makes at the terminal."""
    words = ("forge", "key", "new", "--label", "master", "--scope", "read", "--scope", "keys", "--json")
    key = run_aop(world.root, *words).json["data"]["key"]
    assert isinstance(key, str)
    return key


def post(server: Served, body: Any, key: str, **headers: str) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {**bearer(key), "Content-Type": "application/json", **headers}
    return httpx2.post(server.origin + PATH, content=content, headers=given, timeout=SECONDS)


def delete(server: Served, prefix: str, key: str) -> httpx2.Response:
    return httpx2.delete(f"{server.origin}{PATH}/{prefix}", headers=bearer(key), timeout=SECONDS)


@pytest.mark.req("FORGE-097")
def test_a_key_is_made_listed_used_and_revoked(world: World, server: Served, master: str) -> None:
    response = post(server, {"label": "build server"}, master)
    made = response.json()
    key = made["key"]
    assert (response.status_code, response.headers["cache-control"]) == (201, "no-store")
    assert (made["label"], made["scopes"], made["prefix"], key[:3]) == ("build server", ["read"], key[:12], "fg_")
    assert get(server, "/api/mcp/context/shop", key=key).status_code == 200
    listed = {each["prefix"]: each for each in get(server, PATH, key=master).json()["keys"]}
    assert set(listed) == {key[:12], master[:12], KEY[:12]}
    assert "key" not in listed[key[:12]]
    revoked = delete(server, key[:12], master)
    assert (revoked.status_code, revoked.json()["prefix"], revoked.json()["revoked_at"] > "") == (200, key[:12], True)
    assert get(server, "/api/mcp/context/shop", key=key).status_code == 401
    with world.app.record.read() as view:
        stored = view.get(ForgeKey, key[:12])
        kinds = [entry.event.kind for entry in view.journal() if entry.event.actor == f"key:{master[:12]}"]
    assert stored is not None
    assert stored.sha256 == sha256_hex(key.encode())
    assert kinds == ["forge_key_issued", "forge_key_revoked"]
    assert key.encode() not in (world.root / ".aop/record.db").read_bytes()
    assert key not in (world.root / ".aop/calls.jsonl").read_text()


def test_a_key_of_another_owner_cannot_be_seen_or_revoked(server: Served, master: str) -> None:
    assert [each["prefix"] for each in get(server, PATH, key=EVES_KEY).json()["keys"]] == [EVES_KEY[:12]]
    foreign, unknown = delete(server, master[:12], EVES_KEY), delete(server, "fg_unknown00", EVES_KEY)
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.text.replace(master[:12], "fg_unknown00") == unknown.text
    assert get(server, PATH, key=master).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"scopes": ["keys"]}, 400, "invalid_arguments"),
        ({"scopes": ["write"]}, 403, "forge_key_scope_missing"),
        ({"scopes": []}, 400, "invalid_arguments"),
        ({"scopes": ["root"]}, 400, "invalid_arguments"),
        ({"label": "x" * 101}, 400, "invalid_arguments"),
        ({"owner": "eve"}, 400, "invalid_arguments"),
        ([], 400, "invalid_arguments"),
        (b"{", 400, "invalid_arguments"),
        (b"\xff", 400, "invalid_arguments"),
        (b"[" * 60_000, 400, "invalid_arguments"),
        (b'"' + b"x" * 70_000 + b'"', 400, "invalid_arguments"),
    ],
)
def test_a_key_that_must_not_exist_is_not_made(
    world: World, server: Served, master: str, body: Any, status: int, code: str
) -> None:
    before = len(get(server, PATH, key=master).json()["keys"])
    response = post(server, body, master)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert len(get(server, PATH, key=master).json()["keys"]) == before


@pytest.mark.hostile("B03")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_that_a_page_of_another_site_can_send_is_not_read(server: Served, master: str, kind: str) -> None:
    refused = post(server, {}, master, **{"Content-Type": kind})
    assert (refused.status_code, refused.json()["error"]["code"]) == (415, "unsupported_content_type")
    without_key = httpx2.post(server.origin + PATH, json={}, timeout=SECONDS)
    assert without_key.status_code == 401


def test_another_method_is_told_which_ones_there_are(server: Served, master: str) -> None:
    response = httpx2.put(server.origin + PATH, headers=bearer(master), timeout=SECONDS)
    assert (response.status_code, set(response.headers["allow"].split(", "))) == (405, {"GET", "HEAD", "POST"})
    assert response.json()["error"]["code"] == "method_not_allowed"


def test_a_key_that_only_reads_manages_no_keys(server: Served) -> None:
    statuses = [
        post(server, {}, KEY).status_code,
        get(server, PATH).status_code,
        delete(server, KEY[:12], KEY).status_code,
        httpx2.get(server.origin + PATH, timeout=SECONDS).status_code,
    ]
    assert statuses == [403, 403, 403, 401]


def test_a_key_opens_the_tools_that_name_its_scope_and_no_others(world: World) -> None:
    every = "fg_" + "full" * 10
    put_key(world, every, scopes=("read", "write", "keys", ""))
    with world.app.record.read() as view:
        principal = principal_of_key(the_key(view, every))
    assert [tool.name for tool in world.app.gateway.tools_for(principal)] == [
        "forge.build_interject",
        "forge.build_status",
        "forge.build_verify_seal",
        "forge.clarify",
        "forge.error_dismiss",
        "forge.errors_list",
        "forge.key_list",
        "forge.key_new",
        "forge.key_revoke",
        "forge.note_get",
        "forge.note_put",
        "forge.plan",
    ]


def test_a_key_opens_no_tool_of_a_scope_that_it_lacks(world: World) -> None:
    reads = "fg_" + "read" * 10
    put_key(world, reads, scopes=("read",))
    with world.app.record.read() as view:
        principal = principal_of_key(the_key(view, reads))
    assert [tool.name for tool in world.app.gateway.tools_for(principal)] == [
        "forge.build_status",
        "forge.build_verify_seal",
        "forge.errors_list",
        "forge.note_get",
    ]
