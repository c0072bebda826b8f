"""Servers of a platform that take webhooks: they ask the database at each delivery, and find it after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.storage.postgres_clusters import running_cluster_at
from tests.fleet.platform_servers import Managed, platform_server
from tests.mcpserver.clients import served
from tests.tickets.webhook_worlds import SCAFFOLD, SECRET, delivery, post
from tests.web.pages.page_visits import entered

pytestmark = pytest.mark.fleet
HOOKS = {"JIRA_WEBHOOK_SECRET": SECRET, "SCAFFOLDING_TRIGGER_STATE": "In Progress", "JIRA_WEBHOOK_PROJECTS": "SHOP"}


def test_a_server_that_was_started_before_the_queues_takes_deliveries_once_they_exist(tmp_path: Path) -> None:
    with running_cluster_at("127.0.0.1") as own:
        managed = Managed(tmp_path / "shop", own.url, "shop")
        with platform_server(tmp_path / "server", own.url, **HOOKS) as server:
            status, refused = post(server.served, SCAFFOLD, delivery())
            assert (status, refused["error"]["code"]) == (503, "platform_missing")
            assert managed.aop("platform", "init").code == 0
            status, accepted = post(server.served, SCAFFOLD, delivery())
            assert (status, accepted["status"]) == (202, "accepted"), accepted
            with server.browser() as browser:
                assert accepted["run_id"] in browser.get("/tickets").text


def test_after_a_restart_of_the_database_the_first_view_and_the_first_delivery_are_answered(tmp_path: Path) -> None:
    with running_cluster_at("127.0.0.1") as own:
        managed = Managed(tmp_path / "shop", own.url, "shop")
        assert managed.aop("platform", "init").code == 0
        with (
            platform_server(tmp_path / "server", own.url, **HOOKS) as server,
            served(managed.root, **managed.env) as single,
            server.browser() as everything,
            entered(managed.aop("web", "--print", "--json").json["data"]["url"]) as one,
        ):
            first = post(server.served, SCAFFOLD, delivery())[1]
            pages = (everything, one)
            assert [first["run_id"] in page.get("/tickets").text for page in pages] == [True, True]
            own.stop()
            own.start()
            assert [first["run_id"] in page.get("/tickets").text for page in pages] == [True, True]
            own.stop()
            own.start()
            status, second = post(server.served, SCAFFOLD, delivery("SHOP-13"))
            assert (status, second["status"]) == (202, "accepted"), second
            assert single.process.poll() is None
