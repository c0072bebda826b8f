"""`aop ticket` in real processes on LOCAL: a scaffold, its record, and failures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.tickets.systems.local.repositories import PushedFile
from aop.adapters.tickets.systems.local.server import Local
from aop.tickets.scaffold_plan import ScaffoldPlan
from tests.tickets import killed_command
from tests.tickets.local_worlds import BRANCH, KEY, PAGE, PROJECT, local_world, plain_ids
from tests.tickets.mission.test_blocks import BLOCK, fenced
from tests.tickets.recorded_plans import record_plan
from tests.tickets.test_plans_and_modes import file
from tests.world import Ran, run_aop

URL = f"local://{PROJECT}/-/merge_requests/1"
STEPS = [
    "parse", "report_start", "check_branch", "read_project_docs", "read_architecture_docs", "ask_model",
    "validate_plan", "create_branch", "commit", "open_merge_request", "resolve_project", "update_description",
    "report_success", "move_ticket",
]  # fmt: skip

WITHOUT_BASE = BLOCK.replace(BRANCH, f"{BRANCH}, target_base_branch: absent")
WRITES = ("report_start", "create_branch", "commit", "open_merge_request", "update_description", "report_success")


class Place:
    """A managed repository, a LOCAL beside it, and the environment for both."""

    def __init__(self, folder: Path, description: str = fenced(BLOCK)) -> None:
        self.repo = folder / "managed"
        subprocess.run(["git", "init", "-q", self.repo], check=True)
        self.local: Local = local_world(folder / "local", description)
        self.env = {
            "VCS_PROVIDER": "LOCAL",
            "TRACKER_PROVIDER": "LOCAL",
            "KNOWLEDGE_PROVIDER": "LOCAL",
            "AOP_LOCAL_FOLDER": str(folder / "local"),
            "WORKFLOW_STATE_INITIAL": "To Do",
            "WORKFLOW_STATE_SUCCESS": "In Review",
            "ARCHITECTURE_DOC_PAGE_ID": PAGE,
            "AOP_MODEL_REPLAY": str(record_plan(folder / "replay.jsonl")),
        }

    def aop(self, *words: str, **env: str) -> Ran:
        return run_aop(self.repo, "ticket", *words, env={**self.env, **env})

    @property
    def ticket(self) -> Any:
        return self.local.tickets.get(KEY)

    def commits(self) -> list[str]:
        where = Path(self.env["AOP_LOCAL_FOLDER"]) / "repositories" / f"{PROJECT}.git"
        told = subprocess.run(
            ["git", "--git-dir", where, "log", "--format=%s", BRANCH], capture_output=True, text=True, check=True
        )
        return told.stdout.splitlines()


@pytest.mark.req("SCAF-01", "SCAF-60", "SCAF-63", "SCAF-64", "SCAF-66", "SCAF-67", "SCAF-87")
def test_a_ticket_becomes_a_branch_a_commit_and_a_merge_request_and_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    ran = place.aop("scaffold", KEY, "--json")
    assert ran.code == 0, ran.err
    made = ran.json["data"]
    assert (plain_ids(made["run"]), made["outcome"], made["branch"], made["merge_request"]["url"]) == (
        "scaffold-SHOP-12-1", "scaffolded", BRANCH, URL,
    )  # fmt: skip
    ticket = place.ticket
    assert (ticket["status"], place.commits()) == ("In Review", ["SHOP-12: Scaffold orders", "First commit"])
    assert [comment.partition("\n")[0] for comment in ticket["comments"]] == [
        "Scaffolding of `orders` (python-fastapi) started: branch `feature/SHOP-12-orders` of `group/orders`.",
        f"Scaffolding done: {URL}",
    ]
    assert f'gitlab_project_id: "1"\n  source_branch_name: {BRANCH}' in ticket["description"]
    shown = place.aop("show", made["run"], "--json").json["data"]
    assert (shown["state"], [step["name"] for step in shown["steps"]]) == ("scaffolded", STEPS)
    again = place.aop("scaffold", KEY)
    assert (again.code, again.out) == (0, f"{BRANCH}: already exists, nothing was written; {URL} (opened)\n")
    assert len(place.commits()) == 2
    runs = place.aop("runs").out.splitlines()
    assert [plain_ids(line).split()[:2] for line in runs] == [
        ["scaffold-SHOP-12-2", "branch_exists"], ["scaffold-SHOP-12-1", "scaffolded"],
    ]  # fmt: skip


@pytest.mark.req("SCAF-38", "SCAF-39")
def test_a_ticket_that_cannot_be_read_gets_one_comment_that_says_what_to_do(tmp_path: Path) -> None:
    place = Place(tmp_path, "Please make something nice.")
    ran = place.aop("scaffold", KEY, "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "mission_missing")
    (comment,) = place.ticket["comments"]
    assert plain_ids(comment) == (
        "Scaffolding failed at step `parse` (reading the ticket): The description has no block"
        " `scaffolding`.\nCurrent state: Nothing in the code: no branch, no commit, no merge request.\n"
        "To fix it: Add one fenced `yaml` block to the ticket's description;"
        " `aop demo tickets --keep` makes an example.\n"
        "Then: start again with `aop ticket scaffold SHOP-12`, or by the webhook.\n"
        "All steps: `aop ticket show scaffold-SHOP-12-1`. Code: `mission_missing`."
        "\n\nAOP-Run: scaffold-SHOP-12-1/report_failure"
    )


def test_a_dry_run_prints_every_write_and_writes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    ran = place.aop("scaffold", KEY, "--dry-run", "--json")
    assert ran.code == 0, ran.err
    assert [write["operation"] for write in ran.json["data"]["writes"]] == [
        "add_comment", "create_branch", "commit_changes", "create_merge_request", "update_task_description",
        "add_comment", "update_status",
    ]  # fmt: skip
    ticket = place.ticket
    assert (ticket["status"], ticket["comments"], ticket["description"]) == ("To Do", [], fenced(BLOCK))
    assert place.aop("runs").out == "There are no ticket runs yet.\n"


@pytest.mark.parametrize(
    ("block", "env", "step", "code"),
    [
        ("Nothing.", {}, "parse", "mission_missing"),
        (fenced(WITHOUT_BASE), {}, "create_branch", "remote_not_found"),
        (fenced(BLOCK), {"WORKFLOW_STATE_SUCCESS": "Shipped"}, "move_ticket", "remote_rejected"),
    ],
)
def test_a_dry_run_fails_where_the_real_one_does_and_says_so(
    block: str, env: dict[str, str], step: str, code: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, block)
    record_plan(Path(place.env["AOP_MODEL_REPLAY"]), block=WITHOUT_BASE, files=())
    dry = place.aop("scaffold", KEY, "--dry-run", **env)
    assert (place.ticket["comments"], dry.out.splitlines()[0]) == (
        [], f"Nothing was written. A real run would fail at step `{step}` and write:",
    )  # fmt: skip
    real = place.aop("scaffold", KEY, "--json", **env)
    assert (real.json["error"]["code"], real.json["evidence"]["step"]) == (code, step)
    assert (dry.code, f"[{code}]" in dry.err) == (real.code, True)


@pytest.mark.req("SCAF-26", "SCAF-27", "SCAF-28", "SCAF-29", "SCAF-30", "SCAF-32")
@pytest.mark.parametrize(
    ("changed", "exit_code", "code", "named"),
    [
        ({"WORKFLOW_STATE_SUCCESS": "", "ARCHITECTURE_DOC_PAGE_ID": ""}, 2, "ticket_setting_missing", "missing"),
        ({"SCAFFOLDING_TRACKER_PROVIDER": "GITLAB"}, 1, "ticket_provider_unsupported", "variable"),
        ({"SCAFFOLDING_KNOWLEDGE_PROVIDER": "NOTION"}, 1, "ticket_provider_unsupported", "variable"),
    ],
)
def test_a_setting_that_is_missing_or_wrong_is_named_before_anything_is_called(
    changed: dict[str, str], exit_code: int, code: str, named: str, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    ran = place.aop("scaffold", KEY, "--json", **changed)
    error = ran.json["error"]
    assert (ran.code, error["code"]) == (exit_code, code)
    expected = [*changed] if named == "missing" else next(iter(changed)).removeprefix("SCAFFOLDING_")
    assert error["details"][named] == expected
    assert place.ticket["comments"] == []


def test_a_code_hosting_that_is_not_supported_is_told_in_the_ticket(tmp_path: Path) -> None:
    place = Place(tmp_path)
    ran = place.aop("scaffold", KEY, "--json", SCAFFOLDING_VCS_PROVIDER="BITBUCKET")
    (comment,) = place.ticket["comments"]
    assert (ran.code, ran.json["error"]["code"]) == (1, "ticket_provider_unsupported")
    assert "`VCS_PROVIDER` is `BITBUCKET`, which AOP does not support." in comment


def test_a_second_machine_reports_its_own_run_and_writes_nothing_twice(tmp_path: Path) -> None:
    place = Place(tmp_path)
    first = place.aop("scaffold", KEY, "--json").json["data"]
    shutil.rmtree(place.repo / ".aop/tickets")
    second = place.aop("scaffold", KEY, "--json").json["data"]
    assert (first["outcome"], second["outcome"]) == ("scaffolded", "branch_exists")
    assert plain_ids(first["run"]) == plain_ids(second["run"])
    assert first["run"] != second["run"]
    assert [comment.rpartition("AOP-Run: ")[2] for comment in place.ticket["comments"]] == [
        f"{first['run']}/report_start", f"{first['run']}/report_success",
        f"{second['run']}/report_start", f"{second['run']}/report_existing",
    ]  # fmt: skip
    assert place.commits() == ["SHOP-12: Scaffold orders", "First commit"]


def test_a_branch_that_a_failed_run_left_is_gone_on_with(tmp_path: Path) -> None:
    place = Place(tmp_path)
    repositories, answers = place.local.repositories, Path(place.env["AOP_MODEL_REPLAY"])
    answers.unlink()
    record_plan(answers, ScaffoldPlan(files=(file("README.md", "# Mine\n"),), summary="Replaces a file."))
    refused = place.aop("scaffold", KEY, "--json").json["error"]
    assert (refused["code"], "`README.md`" in refused["message"]) == ("scaffold_plan_rejected", True)
    assert place.commits() == ["First commit"]
    answers.unlink()
    record_plan(answers)
    again = place.aop("scaffold", KEY, "--json").json["data"]
    assert (again["outcome"], place.commits()) == ("scaffolded", ["SHOP-12: Scaffold orders", "First commit"])
    request: Any = repositories.merge_request("group/orders", 1)
    assert request["description"].startswith("Generated for SHOP-12.\n\nOrders.\n\nFiles:\n- `pyproject.toml`")


def test_files_of_a_branch_without_a_merge_request_get_one_from_the_next_run(tmp_path: Path) -> None:
    place = Place(tmp_path)
    repositories = place.local.repositories
    repositories.create_branch("group/orders", BRANCH, "main")
    message = "SHOP-12: Scaffold orders\n\nAOP-Run: scaffold-SHOP-12-1-0a1b2c3d/commit"
    repositories.push_files("group/orders", BRANCH, message, [PushedFile(path="a.py", content="a = 1\n")])
    made = place.aop("scaffold", KEY, "--json").json["data"]
    assert (made["outcome"], made["merge_request"]["url"]) == ("scaffolded", URL)
    assert place.commits() == ["SHOP-12: Scaffold orders", "First commit"]


def test_a_run_and_a_ticket_that_are_not_there_are_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.aop("show", "absent", "--json").json["error"]["code"] == "ticket_run_not_found"
    assert place.aop("scaffold", "SHOP-404", "--json").json["error"]["code"] == "remote_not_found"
    assert place.aop("scaffold", "--json").code == 2


@pytest.mark.slow
def test_killed_after_each_write_and_started_again_nothing_is_written_twice(tmp_path: Path) -> None:
    place = Place(tmp_path)
    killer = Path(killed_command.__file__)
    for step in (
        "report_start",
        "create_branch",
        "commit",
        "open_merge_request",
        "update_description",
        "report_success",
    ):
        died = subprocess.run(
            [sys.executable, killer, step, KEY],
            cwd=place.repo, env={**os.environ, **place.env}, capture_output=True, check=False,
        )  # fmt: skip
        assert died.returncode == -9, died.stderr.decode()
    ran = place.aop("scaffold", KEY, "--json")
    assert (ran.code, ran.json["data"]["outcome"]) == (0, "scaffolded")
    ticket = place.ticket
    assert (ticket["status"], len(ticket["comments"]), place.commits()) == (
        "In Review", 2, ["SHOP-12: Scaffold orders", "First commit"],
    )  # fmt: skip
    assert ticket["description"].count("code_review_params") == 1
    (run,) = place.aop("runs", "--json").json["data"]["runs"]
    assert plain_ids(run["run_id"]) == "scaffold-SHOP-12-1"


def test_a_secret_in_a_ticket_is_in_no_file_that_a_killed_run_leaves(tmp_path: Path) -> None:
    secret = "ghp_" + "9aB3dE5fG7hJ" * 3
    place = Place(tmp_path, f"The token is {secret}.\n\n{fenced(BLOCK)}")
    killer = Path(killed_command.__file__)
    subprocess.run(
        [sys.executable, killer, "check_branch", KEY], cwd=place.repo, env={**os.environ, **place.env}, check=False
    )
    left = [path for path in (place.repo / ".aop").rglob("*") if path.is_file()]
    assert any(path.suffix == ".steps" and b"The token is" in path.read_bytes() for path in left)
    assert [path for path in left if secret.encode() in path.read_bytes()] == []
