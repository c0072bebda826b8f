"""Scans over HTTP: the renovation plan, and what a generation of contracts still needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from aop.forge.projects.documents import ScoutRun
from aop.kernel.record.documents.base import revise
from tests.forge.scan.shop import FILES
from tests.mcpserver.clients import Served, served
from tests.web.forge.forge_servers import EVES_KEY, KEY, SECONDS, bearer, put_key
from tests.world import World, make_repository, run_aop

READ_KEY = "fg_" + "read" * 10


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo", FILES))
    put_key(made, KEY, scopes=("read", "write"))
    put_key(made, READ_KEY)
    put_key(made, EVES_KEY, owner="eve", scopes=("read", "write"))
    for words in (("new", "Shop"), ("scan", "shop")):
        assert run_aop(made.root, "forge", *words).code == 0
    yield made
    made.close()


@pytest.fixture
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


def post(server: Served, action: str, *, run: str = "shop-s1", key: str = KEY) -> httpx2.Response:
    return httpx2.post(f"{server.origin}/scout/runs/{run}/{action}", headers=bearer(key), timeout=SECONDS)


def refused(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.req("FORGE-125", "FORGE-124")
def test_contracts_need_a_plan_which_is_made_over_http_and_a_person_who_starts_them(
    world: World, server: Served
) -> None:
    missing = post(server, "generate-contracts")
    assert refused(missing) == (400, "renovation_plan_missing")
    assert "POST `/scout/runs/shop-s1/upgrade-plan`" in missing.json()["error"]["message"]
    planned = post(server, "upgrade-plan")
    made = planned.json()
    assert (planned.status_code, made["project_id"], made["run_id"], made["online"]) == (200, "shop", "shop-s1", False)
    with world.app.record.read() as view:
        run = view.get(ScoutRun, "shop-s1")
        actors = [entry.event.actor for entry in view.journal(kinds=("renovation_planned",))]
    assert run is not None
    assert run.plan is not None
    assert (run.plan["executive_brief"], actors) == (made["executive_brief"], [f"key:{KEY[:12]}"])
    ready = post(server, "generate-contracts")
    assert refused(ready) == (403, "terminal_only")
    assert ready.json()["error"]["details"]["command"] == "aop forge generate shop"


def test_scans_that_a_key_does_not_open_are_refused(world: World, server: Served) -> None:
    for action in ("upgrade-plan", "generate-contracts"):
        foreign, unknown = post(server, action, key=EVES_KEY), post(server, action, run="shop-s9", key=EVES_KEY)
        assert (foreign.status_code, foreign.text.replace("s1", "s9")) == (404, unknown.text)
        assert refused(post(server, action, key=READ_KEY)) == (403, "forge_key_scope_missing")
        assert refused(post(server, action, key="fg_unknown")) == (401, "forge_key_invalid")


@pytest.mark.req("FORGE-126")
@pytest.mark.parametrize(
    ("change", "code"), [({"status": "running"}, "scan_not_completed"), ({"scan_type": "quick"}, "scan_not_deep")]
)
def test_a_scan_that_is_not_deep_or_not_completed_is_no_base_for_contracts(
    world: World, server: Served, change: dict[str, str], code: str
) -> None:
    with world.app.record.write() as tx:
        run = tx.get(ScoutRun, "shop-s1")
        assert run is not None
        tx.put(revise(run, **change), "shop-s1")
    assert refused(post(server, "generate-contracts")) == (400, code)
    assert refused(post(server, "upgrade-plan")) == (400, "not_scanned")


def test_only_the_newest_scan_is_a_base_for_contracts(world: World, server: Served) -> None:
    assert run_aop(world.root, "forge", "scan", "shop").code == 0
    older = post(server, "generate-contracts")
    assert refused(older) == (400, "not_scanned")
    assert older.json()["error"]["details"]["run_id"] == "shop-s2"
