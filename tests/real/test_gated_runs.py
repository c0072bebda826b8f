"""Real coding agents with a scripted model: a pull request from plan to approval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gated.agents import PLAN_TEXT, gated_repository
from tests.gated.scripted import PLAN, calls_for
from tests.real.fake_vendors import Asked, Call, fake_vendors
from tests.real.scenes import KEY, VENDORS, called, environment, files_with, needs, requests_of
from tests.world import World, git, run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

TOOLS = {"escalate_for_external_help", "get_task", "list_directory", "read_file", "request_scope_reduction"}
TOOLS |= {"safe_patch", "search_code", "submit_work"}


def works(asked: Asked) -> Call | str:
    """Call what the newest task asks for, one call after the other; then ask for the next task."""
    answers = [answer_in(text) for text in asked.results]
    newest = max((number for number, answer in enumerate(answers) if "task" in answer), default=-1)
    if newest < 0:
        return called(asked, "get_task", {})
    task = str(answers[newest]["task"])
    if task.startswith("Your goal: none"):
        return "done"
    known = {PLAN: PLAN_TEXT, "src/one.txt": "one\n" if "REFACTOR" in task.partition("\n")[0] else ""}
    left = calls_for(task, lambda path: known.get(path, ""))[len(answers) - newest - 1 :]
    return called(asked, *left[0]) if left else called(asked, "get_task", {})


def answer_in(text: str) -> dict[str, Any]:
    """Return what a tool answered, whatever the host has put around it."""
    begin = text.find("{")
    try:
        found, _end = json.JSONDecoder().raw_decode(text[max(begin, 0) :])
    except json.JSONDecodeError:
        return {"unreadable": text}
    if "response" in found:
        return answer_in(found["response"].get("output") or json.dumps(found["response"]))
    return dict(found.get("data") or found)


@pytest.mark.req("GATED-01", "GATED-100", "GATED-107")
@pytest.mark.parametrize("vendor", VENDORS)
def test_a_coding_agent_takes_a_pull_request_through_red_green_and_refactor(tmp_path: Path, vendor: str) -> None:
    needs(vendor)
    root = gated_repository(tmp_path / "repo")
    with fake_vendors(works) as model:
        words = ["--agent-provider", vendor, "--agent-model", "a-model", "--max-minutes", "2", "--json"]
        ran = run_aop(root, "gated", "run", *words, env=environment(vendor, model), seconds=240.0)
    assert ran.code == 4, (ran.out, ran.err, requests_of(model))
    assert (ran.json["data"]["ending"], ran.json["data"]["turns"]) == ("waits_for_approval", 1), ran.err
    assert git(root, "show", "feat/say-one:src/one.txt") == "one\nAnd that is all.\n"
    offered = {name.removeprefix("mcp__aop__").removeprefix("mcp_aop_") for name in model.asked[-1].offered}
    assert offered - HARMLESS[vendor] == TOOLS
    assert "You are a software engineer who works one step at a time." in model.asked[-1].prompt
    assert (model.keys, files_with(KEY, root)) == ({KEY}, [])
    assert spent(root)["input_tokens"] == {"known": 10 * len(model.asked), "unknown_turns": 0}


HARMLESS: dict[str, set[str]] = {
    "claude": set(),
    "codex": {"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "request_user_input"},
    "gemini": set(),
}
"""Tools of the agents' own that cannot be switched off, and reach neither files nor programs."""


def spent(root: Path) -> Any:
    world = World(root)
    summary = world.ok("report.feature_summary", feature_id="gated")
    world.close()
    return summary["spent"]
