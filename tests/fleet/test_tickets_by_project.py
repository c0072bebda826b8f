"""Tickets by project: each worker serves its own, with the settings and keys of that project alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from aop.adapters.tickets.systems.local.server import Local
from tests.fleet.platform_servers import platform_server
from tests.fleet.platforms import SECONDS, Platform, WorkerProcess, user_of
from tests.fleet.test_tickets_on_workers import SETTINGS
from tests.mcpserver.clients import Served, served
from tests.racing import until
from tests.tickets.local_worlds import BRANCH, KEY, PROJECT, local_world
from tests.tickets.mission.test_blocks import BLOCK, fenced
from tests.tickets.recorded_plans import record_plan
from tests.tickets.webhook_worlds import SCAFFOLD, SECRET, delivery, post

pytestmark = pytest.mark.fleet
SHOP, BILLING = KEY, "BILLING-7"
HOOKS = {
    "JIRA_WEBHOOK_SECRET": SECRET,
    "SCAFFOLDING_TRIGGER_STATE": "In Progress",
    "JIRA_WEBHOOK_PROJECTS": "SHOP,BILLING",
}


class Tracker(Struct, frozen=True):
    """A LOCAL that knows the one ticket of one project, and the variables of a machine that can reach it."""

    key: str
    folder: Path
    env: dict[str, str]

    def left(self) -> tuple[Any, ...]:
        """Return what work on the ticket left: its state, its comments, its branches with a merge request."""
        local = Local(self.folder, os.environ)
        ticket: Any = local.tickets.get(self.key)
        requests: Any = local.repositories.merge_requests(PROJECT, BRANCH.replace(KEY, self.key))
        return ticket["status"], len(ticket["comments"]), len(requests)


DONE, UNTOUCHED = ("In Review", 2, 1), ("To Do", 0, 0)


@pytest.fixture
def trackers(platform: Platform, tmp_path: Path) -> dict[str, Tracker]:
    # Tests share the database, and each expects the first runs, and no queue of a project.
    platform.rows("TRUNCATE fleet.ticket_runs, fleet.ticket_steps, fleet.ticket_numbers, fleet.ticket_deliveries")
    platform.rows("TRUNCATE dbos.workflow_status, dbos.operation_outputs, dbos.workflow_input CASCADE")
    platform.rows("DELETE FROM dbos.queues WHERE name LIKE 'tickets/%%'")
    return {key: tracker_of(key, tmp_path / key) for key in (SHOP, BILLING)}


def tracker_of(key: str, folder: Path) -> Tracker:
    block = BLOCK.replace(KEY, key)
    folder.mkdir()
    local_world(folder / "local", fenced(block), key)
    replay = str(record_plan(folder / "replay.jsonl", block=block))
    env = {**SETTINGS, "AOP_LOCAL_FOLDER": str(folder / "local"), "AOP_MODEL_REPLAY": replay}
    return Tracker(key, folder / "local", env)


def worker_for(platform: Platform, tracker: Tracker) -> WorkerProcess:
    project = tracker.key.partition("-")[0]
    words = ("--queues", f"tickets/{project}")
    return platform.worker(project, *words, env=tracker.env, url=user_of(platform, "aop_worker"))


def make_queues(platform: Platform, projects: str) -> Any:
    made = platform.aop("platform", "init", "--projects", projects, "--json")
    assert made.code == 0, made.out + made.err
    return made.json["data"]


@contextmanager
def server_of(platform: Platform, door: str, **env: str) -> Iterator[Served]:
    """Run a server that takes webhooks: of one repository, or of the platform."""
    url = user_of(platform, "aop_leader")
    if door == "platform":
        with platform_server(platform.folder / "server", url, **HOOKS, **env) as server:
            yield server.served
    else:
        with served(platform.root, **{**platform.env, "AOP_DATABASE": url, **HOOKS, **env}) as server:
            yield server


def await_ends(platform: Platform, number: int) -> None:
    ended = "SELECT count(*) FROM fleet.ticket_runs WHERE answer IS NOT NULL"
    until(lambda: platform.rows(ended) == [(number,)], seconds=SECONDS)


@pytest.mark.parametrize("door", ["repository", "platform"])
def test_each_delivery_is_carried_out_once_by_the_worker_of_its_project(
    platform: Platform, trackers: dict[str, Tracker], door: str
) -> None:
    make_queues(platform, "SHOP,BILLING")
    workers = {key: worker_for(platform, tracker) for key, tracker in trackers.items()}
    with server_of(platform, door) as server:
        for key in (SHOP, BILLING, SHOP, BILLING):
            status, answer = post(server, SCAFFOLD, delivery(key))
            assert (status, answer["status"] in ("accepted", "duplicate")) == (202, True), answer
        await_ends(platform, 2)
    states = platform.rows("SELECT ticket, state FROM fleet.ticket_runs ORDER BY ticket")
    assert states == [(BILLING, "scaffolded"), (SHOP, "scaffolded")]
    assert {key: tracker.left() for key, tracker in trackers.items()} == {SHOP: DONE, BILLING: DONE}
    taken = platform.rows("SELECT queue_name, executor_id FROM dbos.workflow_status ORDER BY queue_name")
    assert taken == [("tickets/BILLING", workers[BILLING].id), ("tickets/SHOP", workers[SHOP].id)]


def test_a_project_without_a_live_worker_is_worked_on_here_and_the_others_by_theirs(
    platform: Platform, trackers: dict[str, Tracker]
) -> None:
    make_queues(platform, "SHOP,BILLING")
    billing = worker_for(platform, trackers[BILLING])
    ran = platform.aop("ticket", "scaffold", SHOP, "--json", env=trackers[SHOP].env)
    assert (ran.code, platform.rows("SELECT count(*) FROM fleet.ticket_runs")) == (0, [(0,)]), ran.err
    asked = platform.aop("ticket", "scaffold", BILLING, "--json")
    assert asked.code == 0, asked.out + asked.err
    assert f"carried out by the worker {billing.id}" in asked.err
    assert {key: tracker.left() for key, tracker in trackers.items()} == {SHOP: DONE, BILLING: DONE}


def test_a_server_works_on_deliveries_of_projects_whose_workers_are_not_live(
    platform: Platform, trackers: dict[str, Tracker]
) -> None:
    make_queues(platform, "SHOP,BILLING")
    worker_for(platform, trackers[BILLING])
    with server_of(platform, "repository", **trackers[SHOP].env) as server:
        own, queued = (post(server, SCAFFOLD, delivery(key))[1] for key in (SHOP, BILLING))
        await_ends(platform, 1)
        until(lambda: trackers[SHOP].left() == DONE, seconds=SECONDS)
    assert platform.rows("SELECT run_id FROM fleet.ticket_runs") == [(queued["run_id"],)]
    assert trackers[BILLING].left() == DONE
    runs = platform.aop("ticket", "runs", "--json").json["data"]["runs"]
    assert {run["run_id"] for run in runs} == {own["run_id"], queued["run_id"]}


def test_queues_of_projects_are_added_listed_and_take_what_waited_for_their_project(
    platform: Platform, trackers: dict[str, Tracker]
) -> None:
    with server_of(platform, "platform") as server:
        for key in (SHOP, BILLING):
            assert post(server, SCAFFOLD, delivery(key))[0] == 202
    assert waiting(platform) == {"tickets": 2}
    assert (make_queues(platform, "SHOP")["changed"], make_queues(platform, "SHOP")["changed"]) == (True, False)
    assert waiting(platform) == {"tickets": 1, "tickets/SHOP": 1}
    make_queues(platform, "BILLING")
    assert waiting(platform) == {"tickets": 0, "tickets/SHOP": 1, "tickets/BILLING": 1}
    worker_for(platform, trackers[SHOP])
    await_ends(platform, 1)
    assert (trackers[SHOP].left(), trackers[BILLING].left()) == (DONE, UNTOUCHED)


def waiting(platform: Platform) -> dict[str, int]:
    shown = platform.aop("platform", "status", "--json").json["data"]["queues"]
    return {queue["name"]: queue["waiting"] for queue in shown if queue["name"].startswith("tickets")}


def test_metrics_name_the_queues_of_projects(platform: Platform, trackers: dict[str, Tracker]) -> None:
    make_queues(platform, "SHOP")
    platform.feature("search")
    with platform_server(platform.folder / "server", user_of(platform, "aop_leader"), **HOOKS) as server:
        assert post(server.served, SCAFFOLD, delivery(SHOP))[0] == 202
        every = server.metrics(server.token("--all-repositories")).text
        some = server.metrics(server.token("--repositories", platform.env["AOP_REPOSITORY"])).text
    assert 'aop_queue_waiting{queue="tickets/SHOP"} 1\n' in every
    assert 'aop_queue_waiting{queue="tickets/SHOP"} 0\n' in some


def test_a_queue_that_nobody_made_is_refused_with_the_command_that_makes_it(
    platform: Platform, trackers: dict[str, Tracker]
) -> None:
    worker = platform.worker("one", "--queues", "tickets/SHOP", env=trackers[SHOP].env, waits=False)
    assert worker.process.wait(SECONDS) == 2
    assert "There is no queue `tickets/SHOP`." in worker.said()
    assert "aop platform init --projects SHOP" in worker.said()
    for name in ("tickets/shop", "tickets/", "gates/SHOP"):
        refused = platform.aop("worker", "--queues", name, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (2, "invalid_cli_args"), name
    wrong = platform.aop("platform", "init", "--projects", "SHOP,../x", "--json")
    assert (wrong.code, wrong.json["error"]["code"]) == (2, "invalid_cli_args")
    assert waiting(platform) == {"tickets": 0}
