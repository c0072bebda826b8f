"""Who reviews: a model on an endpoint of this machine that plays a script, a command, or nobody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aop.kernel.record.documents.usage import FeatureUsage
from tests.brains.endpoints import Step, serving
from tests.gated.agents import TEST_ONE, Agent, active_pr, gated_repository
from tests.world import World

KEY = "sk-ant-not-for-anybody-0123456789"
BY_MODEL = {"gated": {"review_model": "anthropic:claude-sonnet-5"}}
REPORT = {"verdict": "APPROVE", "summary": "Good."}


def finding(path: str, severity: str = "MINOR") -> dict[str, Any]:
    words = {"description": "No end.", "recommendation": "Add it."}
    return {"file_path": path, "line_number": 1, "severity": severity, "category": "Correctness", **words}


def says(*findings: Mapping[str, Any], **given: Any) -> Step:
    """Return the reply with a report."""
    return Step(calls=(("give_answer", {**REPORT, "findings": findings, **given}),))


def at_review(root: Path, url: str, env: Mapping[str, str] | None = None, **policy: Any) -> Agent:
    """Take a workflow to its review, by this model unless the policy says otherwise."""
    keys = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url, "AOP_MODEL_RETRIES": "0", **(env or {})}
    world = World(gated_repository(root, **{**BY_MODEL, **policy}), keys)
    world.ok("gated.start", feature_id="gated")
    agent = Agent(world)
    agent.plan(active_pr("feat: Say one", "Say it"))
    agent.task()
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.green("src/said.txt", "one\n")
    return agent


@pytest.mark.req("GATED-52", "GATED-53", "GATED-86", "GATED-87", "GATED-88", "GATED-108")
def test_what_a_model_finds_becomes_a_task_and_what_it_approves_goes_on(tmp_path: Path) -> None:
    with serving("anthropic", says(finding("src/said.txt"), verdict="REQUEST_CHANGES"), says()) as model:
        agent = at_review(tmp_path / "repo", model.url)
        assert agent.task() == "Your goal: complete the next TDD step: GREEN: src/said.txt:1: No end. Add it."
        agent.green("src/end.txt", "end of it\n")
        assert agent.call("get_task")["status"] == "AWAITING_FINALIZATION"
    asked = json.dumps(model.heard[-1].body)
    assert all(text in asked for text in ("You review one pull request.", "So that it is said.", "+end of it"))
    with agent.world.app.record.read() as view:
        noted = [entry.event.payload for entry in view.journal() if entry.event.kind == "work_reviewed"]
        usage = view.get(FeatureUsage, "gated")
    assert [(each["verdict"], each["blocking"]) for each in noted] == [("REQUEST_CHANGES", 1), ("APPROVE", 0)]
    assert usage is not None
    assert usage.roles["reviewer"].turns == 2


@pytest.mark.req("GATED-92")
@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Step(text="It looks fine to me."), "replied with text"),
        (Step(calls=(("give_answer", {"verdict": "FINE"}),)), "The model gave no report"),
        (Step(status=500), "The model gave no report"),
        (Step(body="<html>"), "The model gave no report"),
        (Step(cut_off=True, text="It"), "The model gave no report"),
        (says(verdict="REQUEST_CHANGES"), "names none"),
        (says(finding("src/elsewhere.txt")), "`src/elsewhere.txt`"),
    ],
    ids=["text", "no-report", "breaks", "page", "cut-off", "nothing-named", "other-files"],
)
def test_a_model_that_gives_no_report_on_the_change_approves_nothing(tmp_path: Path, step: Step, reason: str) -> None:
    with serving("anthropic", step) as model:
        agent = at_review(tmp_path / "repo", model.url)
        told = agent.call("get_task")
    assert (told["status"], told["next_call"], reason in told["task"]) == ("CODE_REVIEW", "get_task", True), told


def test_after_the_last_round_a_person_is_called_with_the_reason(tmp_path: Path) -> None:
    with serving("anthropic", Step(status=500)) as model:
        agent = at_review(tmp_path / "repo", model.url, gated={**BY_MODEL["gated"], "review_rounds": 1})
        agent.task()
        assert agent.task().startswith("Your goal: none at this moment; a person was asked for help.")
        assert agent.task().startswith("Your goal: none at this moment; a person was asked for help.")
    assert len(model.heard) == 2
    (question,) = agent.world.ok("inbox.list")["questions"]
    assert question["text"].startswith("The reviewer did not approve within the rounds that the policy allows")
    assert "The model gave no report" in question["text"]


@pytest.mark.parametrize(
    ("policy", "env", "code"),
    [
        ({"gated": {}}, {}, "reviewer_not_configured"),
        (BY_MODEL, {"ANTHROPIC_API_KEY": ""}, "model_key_missing"),
        ({"gated": {"review_model": "default"}}, {"AOP_MODELS": ""}, "model_not_configured"),
    ],
)
def test_a_reviewer_that_nobody_configured_is_a_refusal_that_changes_nothing(
    tmp_path: Path, policy: dict[str, Any], env: dict[str, str], code: str
) -> None:
    agent = at_review(tmp_path / "repo", "http://127.0.0.1:9", env, **policy)
    before = agent.world.ok("gated.status")
    assert agent.refused("get_task") == code
    assert agent.world.ok("gated.status") == before


def test_two_reviewers_are_one_too_many(tmp_path: Path) -> None:
    world = World(gated_repository(tmp_path / "repo", gated={"review_model": "default", "review_command": ["true"]}))
    answer = world.call("gated.start", feature_id="gated")
    assert answer.error is not None
    assert answer.error["code"] == "invalid_configuration"
