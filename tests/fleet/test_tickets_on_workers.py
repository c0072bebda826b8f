"""Ticket runs on workers: asked for on one machine, carried out on another, each write once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.tickets.systems.local.server import Local
from tests.fleet.platforms import Platform
from tests.tickets.local_worlds import BRANCH, KEY, PAGE, PROJECT, local_world
from tests.tickets.recorded_plans import record_plan

pytestmark = pytest.mark.fleet
URL = f"local://{PROJECT}/-/merge_requests/1"


class Desk:
    """A LOCAL, and the variables that a worker has for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "local"
        self.local: Local = local_world(self.folder)
        self.env = {
            "VCS_PROVIDER": "LOCAL",
            "TRACKER_PROVIDER": "LOCAL",
            "KNOWLEDGE_PROVIDER": "LOCAL",
            "AOP_LOCAL_FOLDER": str(self.folder),
            "WORKFLOW_STATE_INITIAL": "To Do",
            "WORKFLOW_STATE_SUCCESS": "In Review",
            "ARCHITECTURE_DOC_PAGE_ID": PAGE,
            "AOP_MODEL_REPLAY": str(record_plan(folder / "replay.jsonl")),
        }

    def ticket(self) -> Any:
        return self.local.tickets.get(KEY)

    def commits(self) -> list[str]:
        where = self.folder / "repositories" / f"{PROJECT}.git"
        words = ["git", "--git-dir", str(where), "log", "--format=%s", BRANCH]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_scaffold_is_asked_for_here_and_carried_out_by_a_worker_with_its_own_settings(
    platform: Platform, tmp_path: Path
) -> None:
    desk = Desk(tmp_path)
    worker = platform.worker("one", "--queues", "tickets", env=desk.env)
    ran = platform.aop("ticket", "scaffold", KEY, "--json")
    assert ran.code == 0, ran.out + ran.err + worker.errors.read_text()
    made = ran.json["data"]
    assert (made["outcome"], made["branch"], made["merge_request"]["url"]) == ("scaffolded", BRANCH, URL)
    assert f"carried out by the worker {worker.id}" in ran.err
    assert (desk.ticket()["status"], desk.commits()) == ("In Review", ["SHOP-12: Scaffold orders", "First commit"])
    shown = platform.aop("ticket", "show", made["run"], "--json").json["data"]
    assert (shown["state"], shown["steps"][-1]["name"]) == ("scaffolded", "move_ticket")
    assert [run["run_id"] for run in platform.aop("ticket", "runs", "--json").json["data"]["runs"]] == [made["run"]]
    assert platform.rows("SELECT count(*) FROM dbos.workflow_status WHERE queue_name = 'tickets'") == [(0,)]
