"""`aop run` with a plain model in every role: a real process, and an endpoint on this machine that plays a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.brains.endpoints import Step, serving
from tests.cli.shops import Shop, error_of
from tests.world import run_aop

KEY = "sk-ant-not-for-anybody-0123456789"
FINISH = "hand_in_result"
PLAN = {
    "feature_id": "one", "plan_version": 1, "summary": "Write a new file", "base_ref": "main",
    "allowed_areas": ["src"], "forbidden_areas": [], "files": {"create": ["src/one.txt"], "modify": [], "delete": []},
    "contracts": {"openapi": "none", "events": "none", "db": "none"},
    "acceptance_criteria": ["It is there"], "gate_profile": "default",
}  # fmt: skip


def step(name: str, **given: Any) -> Step:
    return Step(calls=((name, given),))


def environment(url: str) -> dict[str, str]:
    return {
        "AOP_AGENT_PROVIDER": "model",
        "AOP_AGENT_MODEL": "anthropic:claude-sonnet-5",
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
    }


@pytest.mark.slow
@pytest.mark.req("AOP-229")
def test_a_model_plans_reads_and_edits_and_the_feature_is_ready_to_merge(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.wants("one")
    script = [
        step("repo_search", query="nothing", feature_id="another"),
        step(FINISH, plan=PLAN),
        step("tree_write_file", path="../outside.txt", content="x"),
        step("tree_write_file", path="src/one.txt", content="Write two.\n"),
        step("tree_replace_text", path="src/one.txt", old="two", new="one"),
        step(FINISH, summary="Wrote it."),
    ]
    with serving("anthropic", *script) as model:
        ran = shop.run("-fl", str(shop.specs), "--wait", "--json", env=environment(model.url))
    assert ran.code == 0, ran.err
    assert shop.statuses() == {"one": "ready_to_merge"}
    assert (shop.root / ".worktrees/one/src/one.txt").read_text() == "Write one.\n"
    results = json.dumps([heard.body["messages"][-1] for heard in model.heard])
    assert "`repo.search` refuses (" in results
    assert "[path_out_of_bounds]" in results
    assert not (shop.root.parent / "outside.txt").exists()
    builder = [json.loads(line) for line in (shop.root / ".aop/logs/one/builder.log").read_text().splitlines()]
    assert [event["type"] for event in builder][:3] == ["replied", "called", "observed"]
    assert shop.events()["turn_taken", "one"] == 2
    kept = b"".join(path.read_bytes() for path in (shop.root / ".aop").rglob("*") if path.is_file())
    assert KEY.encode() not in kept


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"ANTHROPIC_API_KEY": ""}, "model_key_missing"),
        ({"AOP_AGENT_MODEL": ""}, "model_not_configured"),
        ({"AOP_AGENT_MODEL": "sonnet"}, "model_not_configured"),
    ],
)
def test_a_model_that_cannot_be_asked_is_refused_before_anything_happens(
    tmp_path: Path, change: dict[str, str], code: str
) -> None:
    shop = Shop(tmp_path)
    shop.wants("one")
    env = {**environment("http://127.0.0.1:9"), **change}
    ran = shop.run("-fl", str(shop.specs), "--wait", "--json", env=env)
    assert (ran.code, error_of(ran)["code"]) == (2, code)
    assert not (shop.root / "agentic/features").exists()


@pytest.mark.parametrize("answer", [pytest.param("uncapped", marks=pytest.mark.slow), "stop"])
def test_under_a_cap_of_cost_a_model_without_a_price_is_a_question_before_the_first_request(
    tmp_path: Path, answer: str
) -> None:
    shop = Shop(tmp_path, "version: 1\ncost: {max_usd_per_feature: 5}\n")
    shop.wants("one")
    script = [
        step(FINISH, plan=PLAN),
        step("tree_write_file", path="src/one.txt", content="Write one.\n"),
        step(FINISH, summary="Wrote it."),
    ]
    with serving("anthropic", *script) as model:
        env = {**environment(model.url), "AOP_AGENT_MODEL": "anthropic:claude-sonnet-5,anthropic:claude-newest-9"}
        ran = shop.run("-fl", str(shop.specs), "--wait", env=env)
        assert (ran.code, "no price for `anthropic:claude-newest-9`" in ran.err) == (4, True), ran.err
        assert (model.heard, shop.events()["turn_taken", "one"]) == ([], 0)
        assert shop.aop("answer", "q1", answer).code == 0
        ran = run_aop(shop.root, "resume", "--wait", env=env)
    assert shop.statuses() == {"one": "blocked" if answer == "stop" else "ready_to_merge"}, ran.err
    if answer == "stop":
        (row,) = json.loads(shop.aop("status", "--json").out)["data"]["features"]
        assert row["status_reason"] == (
            "`anthropic:claude-newest-9`, the model of the feature `one`, has no price, and the policy caps the cost."
        )
