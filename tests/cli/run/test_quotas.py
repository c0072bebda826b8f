"""The quota of a model: a feature waits until the time that the provider named, and continues by itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.brains.endpoints import Step, serving
from tests.cli.run.bad_agents import bad_agent
from tests.cli.shops import SECONDS, Shop
from tests.racing import until
from tests.world import run_aop

WAITS = "Waits for the model's quota until "


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, "version: 1\nsupervisor: {max_active_features: 1, max_parallel_agent_turns: 1}\n")


def test_a_feature_at_its_quota_gives_its_place_to_another_and_continues_by_itself(shop: Shop) -> None:
    shop.wants("limited_one", "other")
    (shop.agent / "when").write_text("3 seconds")
    child = shop.started("--wait")
    until(lambda: shop.statuses() == {"limited_one": "planning", "other": "ready_to_merge"}, seconds=SECONDS)
    (shop.agent / "paid").touch()
    assert (child.wait(SECONDS), shop.statuses()["limited_one"]) == (0, "ready_to_merge")
    events = shop.events()
    assert events["quota_wait_began", "limited_one"] == events["quota_wait_ended", "limited_one"] >= 1


def test_a_wait_is_shown_survives_a_restart_and_ends_at_once_when_a_person_resumes_it(shop: Shop) -> None:
    shop.wants("limited_one")
    (shop.agent / "when").write_text("2 hours")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: "quota" in run_aop(shop.root, "status").out, seconds=SECONDS)
    (row,) = json.loads(run_aop(shop.root, "status", "--json").out)["data"]["features"]
    assert (row["waits"].startswith(WAITS), row["next_command"]) == (True, "aop resume limited_one")
    (wait,) = json.loads(run_aop(shop.root, "inbox", "--json").out)["data"]["quotas"]
    assert (wait["feature_id"], wait["reason"]) == ("limited_one", row["waits"])
    assert "quota" in run_aop(shop.root, "inbox").out
    assert shop.aop("stop").code == 0
    assert shop.aop("resume").code == 0
    until(shop.is_supervised, seconds=SECONDS)
    (shop.agent / "paid").touch()
    resumed = shop.aop("resume", "limited_one")
    assert (resumed.code, "continues: limited_one" in resumed.err) == (0, True), resumed.err
    shop.until_supervisor_ended()
    assert shop.statuses() == {"limited_one": "ready_to_merge"}
    assert shop.events()["quota_wait_began", "limited_one"] == 1


def test_a_person_is_asked_about_an_account_that_names_no_time_and_may_resume(shop: Shop) -> None:
    shop.wants("limited_one")
    (shop.agent / "when").write_text("a while, perhaps")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: "quota" in run_aop(shop.root, "status").out, seconds=SECONDS)
    assert shop.aop("resume", "limited_one").code == 0

    def questions() -> list[Any]:
        listed: list[Any] = json.loads(run_aop(shop.root, "inbox", "--json").out)["data"]["questions"]
        return listed

    until(lambda: bool(questions()), seconds=SECONDS)
    (question,) = questions()
    assert (question["question_id"], question["gate"], question["choices"]) == ("q1", "escalation", ["resume", "stop"])
    assert "It says: Rate limit exceeded: try again in a while, perhaps" in question["text"]
    (shop.agent / "paid").touch()
    assert shop.aop("answer", "q1", "resume").code == 0
    shop.until_supervisor_ended()
    assert shop.statuses() == {"limited_one": "ready_to_merge"}


@pytest.mark.parametrize(
    ("refused", "says", "code"),
    [
        (Step(status=429, body="{}", headers={"retry-after": "1"}), "The provider limits the requests of the agent", 0),
        (Step(status=401, body="{}"), "The provider rejects the key of the agent (HTTP status 401).", 4),
    ],
    ids=["limited", "key rejected"],
)
def test_the_refusal_that_the_meter_saw_decides_what_becomes_of_a_vendors_agent(
    shop: Shop, tmp_path: Path, refused: Step, says: str, code: int
) -> None:
    shop.wants("metered_one")
    path = os.pathsep.join([str(bad_agent(tmp_path / "bin", "claude")), os.environ["PATH"]])
    with serving("anthropic", refused, Step(text="Hello.")) as endpoint:
        env = {"PATH": path, "ANTHROPIC_API_KEY": "sk-none", "ANTHROPIC_BASE_URL": endpoint.url}
        ran = shop.run("-fl", str(shop.specs), "--wait", "--agent-provider", "claude", env=env)
    assert (ran.code, says in ran.err) == (code, True), ran.err
    assert (WAITS in ran.err) is (code == 0)
