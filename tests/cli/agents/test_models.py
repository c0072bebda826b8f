"""`aop models prices`: the table with its date, and a file of one's own over it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from aop.core.ids import FeatureId
from aop.kernel.record.spending import overrun
from tests.cli.run.bad_agents import PYTHON, bad_agent
from tests.cli.shops import Shop
from tests.kernel.tools.worlds import configured
from tests.world import Ran, run_aop

MODEL = "anthropic:claude-newest-9"
OWN = json.dumps({MODEL: {"input": 1, "output": 2}})


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a home of its own."""
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": "", "AOP_MODEL_PRICES": ""}


def prices(folder: Path, env: dict[str, str], *words: str) -> Ran:
    return run_aop(folder, "models", "prices", *words, "--json", env=env)


def test_the_prices_have_a_date_and_those_of_a_file_are_kept_and_come_first(
    tmp_path: Path, env: dict[str, str]
) -> None:
    (tmp_path / "own.json").write_text('{"anthropic:claude-sonnet-5": {"input": 0, "output": 0}}')
    (tmp_path / "more.json").write_text(OWN)
    assert prices(tmp_path, env, "--file", "own.json").code == 0
    told = json.loads(prices(tmp_path, env, "--file", "more.json").out)["data"]
    kept = tmp_path / "home/.config/aop/prices.json"
    assert (told["date"], told["file"], told["answered"]) == ("2026-11-17", str(kept), [])
    told = json.loads(prices(tmp_path, env).out)["data"]
    assert {row["model"] for row in told["prices"] if row["own"]} == {"anthropic:claude-sonnet-5", MODEL}
    assert {row["model"]: row["input"] for row in told["prices"]}["anthropic:claude-sonnet-5"] == 0


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        pytest.param(None, (2, "input_path_not_found"), id="no such file"),
        pytest.param('{"a:b": {"input": "much"}}', (4, "invalid_configuration"), id="no prices"),
        pytest.param('{"a:b": {"input": -1, "output": 0}}', (4, "invalid_configuration"), id="below zero"),
    ],
)
def test_a_file_without_prices_is_refused_and_nothing_is_kept(
    tmp_path: Path, env: dict[str, str], text: str | None, refused: tuple[int, str]
) -> None:
    if text is not None:
        (tmp_path / "own.json").write_text(text)
    ran = prices(tmp_path, env, "--file", "own.json")
    assert (ran.code, json.loads(ran.out)["error"]["code"]) == refused
    assert not (tmp_path / "home").exists()


def test_an_agent_sets_no_prices(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "own.json").write_text(OWN)
    ran = prices(tmp_path, {**env, "AOP_TOKEN": "x"}, "--file", "own.json")
    assert json.loads(ran.out)["error"]["code"] == "person_required"
    assert not (tmp_path / "home").exists()


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["file", "uncapped", "stop"])
def test_under_a_cap_of_cost_a_model_without_a_price_is_one_question_before_the_first_turn_of_all_features(
    tmp_path: Path, env: dict[str, str], answer: str
) -> None:
    shop = Shop(tmp_path, "version: 1\ncost: {max_usd_per_feature: 5}\n")
    shop.wants("good_one", "good_two")
    path = os.pathsep.join([str(bad_agent(tmp_path / "bin", "claude")), os.path.dirname(PYTHON), os.environ["PATH"]])
    agent = {"PATH": path, "ANTHROPIC_API_KEY": "k1"}
    words = ("--agent-provider", "claude", "--agent-model", "claude-newest-9")
    ran = run_aop(shop.root, "run", "-fl", str(shop.specs), "--wait", *words, env={**env, **agent})
    assert (ran.code, "no price for `anthropic:claude-newest-9`" in ran.err) == (4, True), ran.err
    asked = json.loads(run_aop(shop.root, "inbox", "--json").out)["data"]["questions"]
    assert [(each["question_id"], each["choices"]) for each in asked] == [("q1", ["priced", "uncapped", "stop"])]
    assert turns(shop) == 0
    if answer == "file":
        (tmp_path / "own.json").write_text(OWN)
        ran = prices(shop.root, env, "--file", str(tmp_path / "own.json"))
        assert json.loads(ran.out)["data"]["answered"] == ["q1"]
    else:
        assert run_aop(shop.root, "answer", "q1", answer).code == 0
    ran = run_aop(shop.root, "resume", "--wait", env={**env, **agent})
    status = "blocked" if answer == "stop" else "ready_to_merge"
    assert shop.statuses() == dict.fromkeys(("good_one", "good_two"), status), ran.err


def test_priced_without_a_price_asks_again(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy={"cost": {"max_usd_per_run": 5}})
    rules = world.app.gateway.kernel.config().policy.cost
    world.init("one")
    for answer, is_asked in (("priced", True), ("uncapped", False)):
        with world.app.record.read() as view:
            over = overrun(view, rules, FeatureId("one"), "run-1", unpriced=MODEL)
        assert over is not None
        asked: dict[str, Any] = {
            "gate": "authorisation",
            "text": "?",
            "about": over.about,
            "choices": ["priced", "uncapped"],
        }
        question = world.ok("inbox.ask", feature_id="one", **asked)["question_id"]
        world.ok("inbox.answer", feature_id="one", question_id=question, answer=answer)
        with world.app.record.read() as view:
            again = overrun(view, rules, FeatureId("one"), "run-1", unpriced=MODEL)
        assert (again is not None) is is_asked
    world.close()


def turns(shop: Shop) -> int:
    dashboard = json.loads(run_aop(shop.root, "status", "--json").out)["data"]
    return sum(row["spent"]["turns"] for row in dashboard["features"])
