"""Troubles of a model's provider: features wait together and continue by themselves, or a person is asked once."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.agents.scripted_provider import HANG, events, providing, streamed
from tests.brains.endpoints import Step, serving
from tests.cli.run.bad_agents import bad_agent
from tests.cli.shops import SECONDS, Shop
from tests.racing import until
from tests.world import run_aop

WAITS = "Waits for custom until "


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, "version: 1\nsupervisor: {max_active_features: 1, max_parallel_agent_turns: 1}\n")


def inbox(shop: Shop) -> Any:
    return json.loads(run_aop(shop.root, "inbox", "--json").out)["data"]


def test_a_wait_is_shared_holds_no_place_is_shown_survives_a_restart_and_ends_at_once_when_a_person_resumes_it(
    shop: Shop,
) -> None:
    names = ["limited_one", "limited_two"]
    shop.wants(*names)
    (shop.agent / "when").write_text("2 hours")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: [len(wait["features"]) for wait in inbox(shop)["waits"]] == [2], seconds=SECONDS)
    rows = json.loads(run_aop(shop.root, "status", "--json").out)["data"]["features"]
    (wait,) = inbox(shop)["waits"]
    assert (wait["provider"], sorted(wait["features"])) == ("custom", names)
    assert {row["waits"] for row in rows} == {wait["reason"]}
    assert wait["reason"].startswith(WAITS)
    assert wait["reason"].endswith("It says: Rate limit exceeded: try again in 2 hours")
    assert all(name in run_aop(shop.root, "inbox").out for name in names)
    assert "provider_wait_began" in run_aop(shop.root, "logs").out
    assert shop.aop("stop").code == 0
    assert shop.aop("resume").code == 0
    until(shop.is_supervised, seconds=SECONDS)
    (shop.agent / "paid").touch()
    resumed = shop.aop("resume", "limited_one")
    assert (resumed.code, "continues: " in resumed.err) == (0, True), resumed.err
    shop.until_supervisor_ended()
    assert shop.statuses() == dict.fromkeys(names, "ready_to_merge")
    kinds = Counter(kind for kind, _ in shop.events().elements())
    assert (kinds["provider_wait_began"], kinds["provider_wait_ended"], kinds["question_asked"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("refused", "says", "code"),
    [
        (
            Step(status=429, body="{}", headers={"retry-after": "1"}),
            "anthropic limits the requests (HTTP status 429). It says: {}",
            0,
        ),
        (Step(status=401, body="{}"), "anthropic rejects the key (HTTP status 401). It says: {}", 4),
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
    assert ("Waits for anthropic until " in ran.err) is (code == 0)


def test_an_answer_that_does_not_end_is_a_provider_that_does_not_answer_in_time(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "version: 1\nsupervisor: {turn_timeout_seconds: 20}\n")
    shop.wants("metered_one")
    path = os.pathsep.join([str(bad_agent(tmp_path / "bin", "claude")), os.environ["PATH"]])
    with providing(streamed(*events({"type": "ping"}), HANG)) as endpoint:
        env = {"PATH": path, "ANTHROPIC_API_KEY": "sk-none", "ANTHROPIC_BASE_URL": endpoint.url}
        assert shop.run("-fl", str(shop.specs), "--agent-provider", "claude", env=env).code == 0
        until(lambda: inbox(shop)["waits"] != [], seconds=SECONDS)
        assert shop.aop("stop").code == 0
    (wait,) = inbox(shop)["waits"]
    late = f"no whole answer from 127.0.0.1:{endpoint.server_port} within the time of the turn."
    assert f"anthropic did not answer in time: {late}" in wait["reason"]
    assert shop.events()["question_asked", "metered_one"] == 0
