"""The forge routes of a real `aop serve`: contracts and contexts for programs with a key."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import jsonschema
import pytest

from aop.core.digests import sha256_hex
from aop.core.roles import Role
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.projects.documents import ForgeKey
from tests.forge.projects import NINE, stored
from tests.mcpserver.clients import Served, served, token_for
from tests.web.forge.forge_servers import (
    EVES_KEY,
    KEY,
    NOW,
    SECONDS,
    bearer,
    get,
    put_build,
    put_key,
    put_project,
)
from tests.world import World, make_repository

READS = (
    "/api/projects/shop/contracts",
    "/api/projects/shop/contracts/ui",
    "/api/projects/shop/contracts/history/1",
    "/api/mcp/context/shop",
    "/api/mcp/context/shop/ui",
    "/api/mcp/build/build-1/contracts",
)
EDITED = "The ui of the shop, in blue.\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("routes") / "repo"))
    put_key(made, KEY)
    put_key(made, EVES_KEY, owner="eve")
    for project in ("shop", "empty"):
        put_project(made, project)
    batch = stored(made, "shop")
    put_build(made, "build-1", "shop", 1, batch.sha256)
    stored(made, "shop", {ContractType.UI: EDITED}, author="person:ada")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.mark.req("FORGE-092", "FORGE-098")
def test_the_context_of_a_project_has_facts_and_no_text(server: Served) -> None:
    answer = get(server, "/api/mcp/context/shop").json()
    times = [each.pop("updated_at") for each in answer["contracts"]]
    changed = max(times)
    texts = {**NINE, ContractType.UI: EDITED}
    assert (len(times), answer) == (
        9,
        {
            "project": {
                "id": "shop",
                "name": "shop",
                "status": "contracts_generated",
                "mode": "full",
                "flow": "greenfield",
                "created_at": NOW,
                "updated_at": changed,
            },
            "contracts": [
                {
                    "contract_type": each,
                    "version": 2 if each == "ui" else 1,
                    "size_chars": len(texts[each]),
                    "sha256": sha256_hex(texts[each].encode()),
                }
                for each in CONTRACT_TYPES
            ],
            "latest_batch": 2,
            "build_count": 0,
        },
    )


@pytest.mark.req("FORGE-091", "FORGE-093")
@pytest.mark.parametrize("path", ["/api/mcp/context/shop/ui", "/api/projects/shop/contracts/ui"])
def test_a_contract_is_read_as_it_is_now(server: Served, path: str) -> None:
    assert get(server, path).json() == {
        "contract_type": "ui",
        "content": EDITED,
        "version": 2,
        "sha256": sha256_hex(EDITED.encode()),
        "project_id": "shop",
        "batch": 2,
        "source": "project_db",
    }


@pytest.mark.req("FORGE-091")
def test_an_old_batch_stays_readable(server: Served) -> None:
    old, new = (get(server, f"/api/projects/shop/contracts/history/{number}").json() for number in (1, 2))
    assert {each["contract_type"]: each["content"] for each in old["contracts"]} == NINE
    assert [each["contract_type"] for each in new["contracts"]] == list(CONTRACT_TYPES)
    assert [(each["version"], each["content"]) for each in new["contracts"] if each["contract_type"] == "ui"] == [
        (2, EDITED)
    ]


def test_the_contracts_of_a_project_are_listed(server: Served) -> None:
    listed = get(server, "/api/projects/shop/contracts").json()
    assert (listed["project_id"], listed["latest_batch"]) == ("shop", 2)
    assert listed["contracts"] == get(server, "/api/mcp/context/shop").json()["contracts"]
    assert get(server, "/api/projects/empty/contracts").json() == {
        "project_id": "empty",
        "latest_batch": 0,
        "contracts": [],
    }


@pytest.mark.req("FORGE-094", "FORGE-095")
def test_a_build_sees_the_contracts_that_it_began_with(server: Served) -> None:
    answer = get(server, "/api/mcp/build/build-1/contracts").json()
    assert {name: answer[name] for name in ("build_id", "project_id", "batch", "pinned_at")} == {
        "build_id": "build-1",
        "project_id": "shop",
        "batch": 1,
        "pinned_at": NOW,
    }
    assert {each["contract_type"]: each["content"] for each in answer["contracts"]} == NINE


@pytest.mark.parametrize("path", READS)
def test_an_answer_that_is_known_is_not_sent_again(server: Served, path: str) -> None:
    first = get(server, path)
    tag = first.headers["etag"]
    again = [get(server, path, If_None_Match=known) for known in (tag, f'"other", W/{tag}', "*")]
    assert (tag, first.status_code) == (f'"{sha256_hex(first.content)}"', 200)
    assert [(each.status_code, each.content, each.headers["etag"]) for each in again] == [(304, b"", tag)] * 3
    assert get(server, path, If_None_Match='"other"').content == first.content


@pytest.mark.parametrize("path", READS)
def test_an_answer_says_whether_it_may_be_kept(server: Served, path: str) -> None:
    for_good = "history" in path or "build" in path
    expected = "private, max-age=31536000, immutable" if for_good else "private, no-cache"
    assert get(server, path).headers["cache-control"] == expected


@pytest.mark.parametrize("path", READS)
@pytest.mark.req("FORGE-096")
def test_without_a_key_nothing_is_read(world: World, server: Served, path: str) -> None:
    revoked, scopeless = "fg_" + "dead" * 10, "fg_" + "none" * 10
    with world.app.record.read() as view:
        is_first = view.get(ForgeKey, revoked[:12]) is None
    if is_first:
        put_key(world, revoked, revoked_at=NOW)
        put_key(world, scopeless, scopes=())
    wrong_end = KEY[:-1] + "x"
    token = token_for(world, Role.ORCHESTRATOR)
    for key in ("fg_unknown", wrong_end, revoked, token, "x" * 3000):
        response = get(server, path, key=key)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
        assert response.json()["error"]["code"] == "forge_key_invalid"
        assert key not in response.text
    assert httpx2.get(server.origin + path, timeout=SECONDS).status_code == 401
    assert get(server, path, key=scopeless).json()["error"]["code"] == "forge_key_scope_missing"
    assert get(server, path, key=scopeless).status_code == 403


@pytest.mark.parametrize("path", READS)
@pytest.mark.req("FORGE-096", "FORGE-078")
def test_what_belongs_to_others_is_answered_like_what_does_not_exist(server: Served, path: str) -> None:
    foreign = get(server, path, key=EVES_KEY)
    unknown = get(server, path.replace("shop", "shoq").replace("build-1", "build-0"), key=EVES_KEY)
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.text.replace("shop", "shoq").replace("build-1", "build-0") == unknown.text


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/mcp/context/shop/uii", "unknown_contract"),
        ("/api/mcp/context/shop/builder_contract", "unknown_contract"),
        ("/api/mcp/context/empty/ui", "no_contracts"),
        ("/api/projects/shop/contracts/history/3", "unknown_batch"),
        ("/api/projects/shop/contracts/history/0", "unknown_batch"),
        ("/api/projects/shop/contracts/history/-1", "unknown_batch"),
        ("/api/projects/shop/contracts/history/%D9%A1", "unknown_batch"),
        ("/api/projects/shop/contracts/history/" + "1" * 5000, "unknown_batch"),
        ("/api/mcp/context/%00", "unknown_project"),
        ("/api/mcp/context/%FF%FE", "unknown_project"),
        ("/api/mcp/context/" + "x" * 5000, "unknown_project"),
        ("/api/mcp/build/..%2f..%2fetc/contracts", "unknown_route"),
        ("/api/nope", "unknown_route"),
        ("/api/", "unknown_route"),
        ("/auth", "unknown_route"),
        ("/auth/nope", "unknown_route"),
        ("/scout/runs", "unknown_route"),
    ],
)
def test_what_does_not_exist_is_not_found(server: Served, path: str, code: str) -> None:
    response = get(server, path)
    assert (response.status_code, response.json()["error"]["code"]) == (404, code)


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "evil.example", 421),
        ("Host", "127.0.0.1:1", 421),
        ("Host", "127.0.0.1.evil.example", 421),
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
    ],
)
@pytest.mark.hostile("B01", "B02")
def test_pages_of_other_sites_are_turned_away(server: Served, header: str, value: str, status: int) -> None:
    for path in (*READS, "/api/openapi.json"):
        response = httpx2.get(server.origin + path, headers={**bearer(), header: value}, timeout=SECONDS)
        assert response.status_code == status
    assert get(server, READS[0], Origin=server.origin).status_code == 200


@pytest.mark.req("FORGE-116")
def test_a_key_and_a_build_that_ask_too_often_are_told_when_to_come_again(world: World) -> None:
    with served(world.root) as running, httpx2.Client(headers=bearer(), timeout=SECONDS) as client:
        address = running.origin + "/api/mcp/build/build-1/contracts"
        responses = (client.get(address) for _ in range(5000))
        response = next(each for each in responses if each.status_code != 200)
        error = response.json()["error"]
        assert (response.status_code, response.headers["retry-after"]) == (429, "1")
        assert (error["code"], error["message"]) == ("too_many_requests", "`build build-1` sends too many requests.")
        assert client.get(running.origin + "/api/mcp/context/shop").status_code == 200


def test_requests_are_in_the_log_of_calls_and_keys_are_not(world: World, server: Served) -> None:
    get(server, "/api/mcp/build/build-1/contracts")
    get(server, "/api/mcp/context/none")
    log = (world.root / ".aop/calls.jsonl").read_text()
    rows = [json.loads(line) for line in log.splitlines()][-2:]
    assert [(row["actor"], row["tool"], row["feature_id"], row["outcome"]) for row in rows] == [
        ("key:fg_mineminem", "GET /api/mcp/build/{build_id}/contracts", "build-1", "ok"),
        ("key:fg_mineminem", "GET /api/mcp/context/{project_id}", None, "unknown_project"),
    ]
    assert KEY not in log
    with world.app.record.read() as view:
        key = view.get(ForgeKey, KEY[:12])
    assert key is not None
    assert key.last_used > NOW


def test_the_routes_describe_themselves(server: Served) -> None:
    document = httpx2.get(f"{server.origin}/api/openapi.json", timeout=SECONDS).json()
    assert document["openapi"] == "3.1.0"
    for path in READS:
        answer = get(server, path)
        (described,) = (value["get"] for name, value in document["paths"].items() if _fits(name, path))
        schema = described["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
        refusal = get(server, path, key="fg_unknown").json()
        schema = described["responses"]["401"]["content"]["application/json"]["schema"]
        jsonschema.validate(refusal, {**schema, "components": document["components"]})


def _fits(template: str, path: str) -> bool:
    parts, given = template.split("/"), path.split("/")
    return len(parts) == len(given) and all(
        part == value or (part.startswith("{") and value != "history") for part, value in zip(parts, given, strict=True)
    )
