"""Ticket runs on workers: asked for on one machine, carried out on another, each write once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.fleet.liveness import FENCED
from aop.adapters.tickets.systems.local.repositories import PushedFile
from tests.adapters.tickets.test_troubles import expected
from tests.fleet.platforms import SECONDS, Platform, user_of
from tests.mcpserver.clients import served
from tests.racing import until
from tests.tickets.local_worlds import BRANCH, KEY, PAGE, PROJECT, local_world
from tests.tickets.recorded_plans import record_plan
from tests.tickets.shaken_worlds import WAYS, effects, made_world
from tests.tickets.webhook_worlds import SCAFFOLD, delivery, post
from tests.tickets.webhook_worlds import SECRET as HOOK_SECRET
from tests.web.pages.page_visits import entered

pytestmark = pytest.mark.fleet
ROOT = Path(__file__).parents[2]
URL = f"local://{PROJECT}/-/merge_requests/1"
SETTINGS = {
    "VCS_PROVIDER": "LOCAL",
    "TRACKER_PROVIDER": "LOCAL",
    "KNOWLEDGE_PROVIDER": "LOCAL",
    "WORKFLOW_STATE_INITIAL": "To Do",
    "WORKFLOW_STATE_SUCCESS": "In Review",
    "ARCHITECTURE_DOC_PAGE_ID": PAGE,
}
SECRET = "ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"


class Desk:
    """A platform with a LOCAL, and workers that stop at a step."""

    def __init__(self, platform: Platform, local: Path) -> None:
        self.platform = platform
        self.local = local
        self.processes: list[subprocess.Popen[str]] = []
        # Tests share the database, and each expects the first run of its ticket.
        platform.rows("TRUNCATE fleet.ticket_runs, fleet.ticket_steps, fleet.ticket_numbers, fleet.ticket_deliveries")

    def worker(self, way: str, step: str = "-", number: int = signal.SIGKILL) -> subprocess.Popen[str]:
        """Start a worker that gets a signal after the effect of a step, and return when it takes runs."""
        home = self.platform.folder / f"{len(self.processes)}-{step}"
        home.mkdir()
        words = [sys.executable, "-m", "tests.fleet.ticket_worker", way, str(self.local), step, str(number)]
        environ = {**os.environ, **SETTINGS, "AOP_DATABASE": self.platform.url, "HOME": str(home)}
        with (home / "errors").open("w") as errors:
            made = subprocess.Popen(words, cwd=ROOT, env=environ, stderr=errors, text=True)
        self.processes.append(made)
        until(lambda: made.poll() is not None or " takes " in (home / "errors").read_text(), seconds=SECONDS)
        assert " takes " in (home / "errors").read_text(), (home / "errors").read_text()
        return made

    def asked(self, kind: str) -> subprocess.Popen[str]:
        """Ask for work on the ticket, as a person does who waits for it."""
        words = [sys.executable, "-m", "aop.cli.main", "ticket", kind, KEY, "--json"]
        environ = {**os.environ, **self.platform.env}
        pipe = subprocess.PIPE
        made = subprocess.Popen(words, cwd=self.platform.root, env=environ, stdout=pipe, stderr=pipe, text=True)
        self.processes.append(made)
        return made

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()


def answer_of(asked: subprocess.Popen[str]) -> Any:
    out, err = asked.communicate(timeout=SECONDS * 2)
    assert asked.returncode == 0, out + err
    return json.loads(out)["data"]


def with_model(desk: Desk, folder: Path) -> dict[str, str]:
    """Return the variables of a machine that can scaffold the ticket of a new LOCAL."""
    local_world(desk.local)
    replay = str(record_plan(folder / "replay.jsonl"))
    return {**SETTINGS, "AOP_LOCAL_FOLDER": str(desk.local), "AOP_MODEL_REPLAY": replay}


@pytest.fixture
def desk(platform: Platform, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(platform, tmp_path / "local")
    try:
        yield made
    finally:
        made.close()


def test_a_scaffold_is_asked_for_here_and_carried_out_by_a_worker_with_its_own_settings(
    desk: Desk, platform: Platform, tmp_path: Path
) -> None:
    env = with_model(desk, tmp_path)
    worker = platform.worker("one", "--queues", "tickets", env=env, url=user_of(platform, "aop_worker"))
    leader = {"AOP_DATABASE": user_of(platform, "aop_leader")}
    ran = platform.aop("ticket", "scaffold", KEY, "--json", env=leader)
    assert ran.code == 0, ran.out + ran.err + worker.errors.read_text()
    made = ran.json["data"]
    assert (made["outcome"], made["branch"], made["merge_request"]["url"]) == ("scaffolded", BRANCH, URL)
    assert f"carried out by the worker {worker.id}" in ran.err
    assert effects(desk.local) == expected("linear scaffold")
    shown = platform.aop("ticket", "show", made["run"], "--json").json["data"]
    assert (shown["state"], shown["steps"][-1]["name"]) == ("scaffolded", "move_ticket")
    assert [run["run_id"] for run in platform.aop("ticket", "runs", "--json").json["data"]["runs"]] == [made["run"]]
    assert platform.rows("SELECT count(*) FROM dbos.workflow_status WHERE queue_name = 'tickets'") == [(0,)]


@pytest.mark.parametrize(
    ("way", "steps"),
    [
        ("linear scaffold", ["report_start", "commit", "open_merge_request", "report_success"]),
        ("agentic scaffold", ["call_3_1"]),
        ("linear review", ["publish_review", "report_success"]),
    ],
)
def test_workers_killed_after_a_write_are_followed_by_others_and_nothing_is_written_twice(
    desk: Desk, way: str, steps: Sequence[str]
) -> None:
    made_world(desk.local, WAYS[way])
    first, *more = [*steps, "-"]
    dies = desk.worker(way, first)
    asked = desk.asked(WAYS[way].kind)
    for step in more:
        assert dies.wait(SECONDS) == -signal.SIGKILL
        dies = desk.worker(way, step)
    answer = answer_of(asked)
    assert answer["outcome"] == ("scaffolded" if "scaffold" in way else "reviewed")
    assert effects(desk.local) == expected(way)


def test_a_frozen_worker_that_goes_on_finds_its_run_done_and_ends_itself(desk: Desk) -> None:
    made_world(desk.local, WAYS["linear scaffold"])
    frozen = desk.worker("linear scaffold", "create_branch", signal.SIGSTOP)
    asked = desk.asked("scaffold")
    until(lambda: Path(f"/proc/{frozen.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", seconds=SECONDS)
    desk.worker("linear scaffold")
    assert answer_of(asked)["outcome"] == "scaffolded"
    frozen.send_signal(signal.SIGCONT)
    assert frozen.wait(SECONDS) == FENCED
    assert effects(desk.local) == expected("linear scaffold")


def test_a_result_with_a_secret_is_never_in_the_database(desk: Desk, platform: Platform) -> None:
    local = made_world(desk.local, WAYS["linear review"])
    text = f'TOKEN = "{SECRET}"\n'
    local.repositories.push_files(PROJECT, BRANCH, "More", [PushedFile(path="src/b.py", content=text)])
    dies = desk.worker("linear review", "ask_model")
    asked = desk.asked("review")
    assert dies.wait(SECONDS) == -signal.SIGKILL
    stored = platform.rows("SELECT function_name, output FROM dbos.operation_outputs")
    assert "withheld" in dict(stored)["read_diff"]
    assert SECRET not in str(stored) + str(platform.rows("SELECT outcome FROM fleet.ticket_steps"))
    desk.worker("linear review")
    assert answer_of(asked)["outcome"] == "reviewed"


def test_without_a_worker_for_tickets_the_command_works_itself(desk: Desk, platform: Platform, tmp_path: Path) -> None:
    ran = platform.aop("ticket", "scaffold", KEY, "--json", env=with_model(desk, tmp_path))
    assert (ran.code, ran.json["data"]["outcome"]) == (0, "scaffolded"), ran.err
    assert platform.rows("SELECT count(*) FROM fleet.ticket_runs") == [(0,)]
    runs = platform.aop("ticket", "runs", "--json").json["data"]["runs"]
    assert [run["state"] for run in runs] == ["scaffolded"]


def test_a_worker_without_any_setting_for_tickets_does_not_start(platform: Platform) -> None:
    worker = platform.worker("one", "--queues", "tickets", waits=False)
    assert worker.process.wait(SECONDS) == 2
    assert "Not set in the environment: `VCS_PROVIDER`" in worker.errors.read_text()
    assert [row for row in platform.listed().values() if row["state"] != "gone"] == []


def test_work_that_a_worker_has_no_settings_for_is_refused_by_name_and_ends(
    desk: Desk, platform: Platform, tmp_path: Path
) -> None:
    env = {**with_model(desk, tmp_path), "WORKFLOW_STATE_SUCCESS": ""}
    worker = platform.worker("one", "--queues", "tickets", env=env)
    assert "Each scaffold will be refused here" in worker.errors.read_text()
    ran = platform.aop("ticket", "scaffold", KEY, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (2, "ticket_setting_missing"), ran.out
    (run,) = platform.aop("ticket", "runs", "--json").json["data"]["runs"]
    assert run["state"] == "failed"


def test_a_webhook_is_stored_by_the_server_and_carried_out_by_a_worker(
    desk: Desk, platform: Platform, tmp_path: Path
) -> None:
    platform.worker("one", "--queues", "tickets", env=with_model(desk, tmp_path))
    env = {**platform.env, "JIRA_WEBHOOK_SECRET": HOOK_SECRET, "SCAFFOLDING_TRIGGER_STATE": "In Progress"}
    with served(platform.root, **env) as server:
        status, answer = post(server, SCAFFOLD, delivery())
        assert (status, answer["status"]) == (202, "accepted"), answer
        assert post(server, SCAFFOLD, delivery())[1] == {"status": "duplicate", "run_id": answer["run_id"]}
        ended = "SELECT state FROM fleet.ticket_runs WHERE run_id = %s AND answer IS NOT NULL"
        until(lambda: platform.rows(ended, answer["run_id"]) == [("scaffolded",)], seconds=SECONDS)
        assert post(server, SCAFFOLD, delivery())[1] == {"status": "duplicate", "run_id": answer["run_id"]}
        with entered(platform.aop("web", "--print", "--json").json["data"]["url"]) as browser:
            assert f'href="/tickets/{answer["run_id"]}"' in browser.get("/tickets").html
            assert 'id="step-move_ticket"' in browser.get(f"/tickets/{answer['run_id']}").html
    assert effects(desk.local) == expected("linear scaffold")
