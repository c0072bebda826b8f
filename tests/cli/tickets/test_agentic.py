"""`aop ticket` in the agentic mode: real processes, LOCAL, and an endpoint as the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.brains.ports import FINISH
from tests.brains import endpoints
from tests.cli.tickets.test_ticket import Place
from tests.tickets.local_worlds import BRANCH, KEY, PROJECT
from tests.tickets.recorded_plans import PLAN
from tests.tickets.scaffold.test_agentic import AGENTIC

ENV = {"AOP_MODEL_REPLAY": "", "AOP_MODELS": "vllm:local", "AGENTIC_MAX_COST_USD": "none"}
SCRIPT = [
    ("vcs_vcs_list_tree", {"ref": "main"}),
    ("vcs_vcs_create_branch", {}),
    ("vcs_vcs_push_files", {"files": msgspec.to_builtins(PLAN.files)}),
    ("vcs_vcs_create_merge_request", {"text": "Made orders."}),
    (FINISH, {"summary": "Done."}),
]


def steps(*calls: tuple[str, Any]) -> list[endpoints.Step]:
    return [endpoints.Step(calls=(call,)) for call in calls]


@pytest.mark.req("SCAF-83", "SCAF-86", "REV-76")
def test_a_model_with_tools_scaffolds_and_another_reviews_what_it_made(tmp_path: Path) -> None:
    place = Place(tmp_path, AGENTIC)
    with endpoints.serving("vllm", *steps(*SCRIPT)) as server:
        made = place.aop("scaffold", KEY, "--json", VLLM_BASE_URL=server.url, **ENV)
    assert (made.code, made.json["data"]["mode"]) == (0, "AGENTIC_ACT_LOOP"), made.err
    assert (place.ticket["status"], place.commits()) == ("In Review", ["SHOP-12: Scaffold orders", "First commit"])
    shown = place.aop("show", made.json["data"]["run"], "--json").json["data"]["steps"]
    (listed,) = [step["outcome"]["value"] for step in shown if step["name"] == "call_1_1"]
    assert (listed["tool"], listed["ok"], "README.md" in listed["text"]) == ("vcs.vcs_list_tree", True, True)
    found = {"file_path": "pyproject.toml", "line_number": 1, "severity": "MINOR", "description": "No name.",
             "recommendation": "Name it."}  # fmt: skip
    report = {"verdict": "COMMENT", "summary": "A start.", "findings": [found]}
    read = ("vcs_vcs_read_file", {"ref": BRANCH, "path": "pyproject.toml"})
    env = {**ENV, "CODE_REVIEW_MAX_DIFF_CHARS": "100"}
    with endpoints.serving("vllm", *steps(read, (FINISH, report)), *steps((FINISH, report)) * 9) as server:
        told = place.aop("review", KEY, "--json", VLLM_BASE_URL=server.url, **env)
    assert (told.code, told.json["data"]["mode"]) == (0, "AGENTIC_ACT_LOOP"), told.err
    notes: Any = place.local.repositories.notes(PROJECT, 1)
    assert [(note["path"], note["line"]) for note in notes] == [("pyproject.toml", 1), (None, None)]


def test_a_dry_run_of_a_model_with_tools_writes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, AGENTIC)
    with endpoints.serving("vllm", *steps(*SCRIPT)) as server:
        ran = place.aop("scaffold", KEY, "--dry-run", "--json", VLLM_BASE_URL=server.url, **ENV)
    assert ran.code == 0, ran.err
    assert [write["operation"] for write in ran.json["data"]["writes"]] == [
        "add_comment", "create_branch", "commit_changes", "create_merge_request", "update_task_description",
        "add_comment", "update_status",
    ]  # fmt: skip
    assert (place.ticket["status"], place.ticket["comments"]) == ("To Do", [])


def test_a_cost_limit_needs_a_price(tmp_path: Path) -> None:
    place = Place(tmp_path, AGENTIC)
    ran = place.aop(
        "scaffold", KEY, "--json", VLLM_BASE_URL="http://127.0.0.1:9", **{**ENV, "AGENTIC_MAX_COST_USD": "1"}
    )
    assert (ran.code, ran.json["error"]["details"]["cause"]) == (1, "model_price_unknown")
    bad = place.aop("scaffold", KEY, "--json", **{**ENV, "AGENTIC_MAX_COST_USD": "much"})
    assert (bad.code, bad.json["error"]["details"]["missing"]) == (2, ["AGENTIC_MAX_COST_USD"])
