"""`aop run` with an agent that speaks the Agent Client Protocol: what it may do, what it costs, how bad ones end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.agents.scripted_provider import providing, whole
from tests.cli.run.acp_agents import acp_command
from tests.cli.shops import Shop
from tests.world import Ran, World, run_aop

pytestmark = pytest.mark.slow

KEY = "AIza-the-key-of-a-person"
ALLOWED = {"outcome": "selected", "optionId": "allow-once"}
REJECTED = {"outcome": "selected", "optionId": "reject-once"}


class Scene:
    """A shop whose agent speaks the protocol."""

    def __init__(self, folder: Path, manner: str, policy: str = "") -> None:
        self.shop = Shop(folder, f"version: 1\n{policy}")
        self.shop.env["AOP_CUSTOM_AGENT"] = acp_command(folder / "agent", manner)
        self.shop.wants("good")

    def run(self, *words: str) -> Ran:
        return self.shop.all_at_once("--json", *words)

    def spent(self) -> Any:
        world = World(self.shop.root)
        summary = world.ok("report.feature_summary", feature_id="good")
        world.close()
        return summary["spent"]

    def problem(self) -> str:
        """Return what the supervisor says of the first turn."""
        line = next(line for line in self.run().err.splitlines() if " failed: " in line)
        return line.partition(" failed: ")[2]


@pytest.mark.req("AOP-234")
@pytest.mark.parametrize("manner", ["works", "locked"])
def test_an_agent_brings_a_feature_to_ready_to_merge_and_is_denied_what_leaves_its_tree(
    tmp_path: Path, manner: str
) -> None:
    scene = Scene(tmp_path, manner)
    ran = scene.run("--agent-model", "a-model")
    assert ran.code == 0, (ran.out, ran.err)
    assert scene.shop.statuses() == {"good": "ready_to_merge"}
    assert json.loads((scene.shop.root / ".worktrees/good/src/good.txt").read_text()) == {
        "inside": ALLOWED,
        "outside": REJECTED,
        "around": REJECTED,
        "fetch": REJECTED,
        "nothing to choose": {"outcome": "cancelled"},
    }
    assert scene.spent() == {
        "turns": 2,
        "input_tokens": {"known": 40, "unknown_turns": 0},
        "output_tokens": {"known": 10, "unknown_turns": 0},
        "cached_input_tokens": {"known": None, "unknown_turns": 2},
        "cost_usd": {"known": 0.5, "unknown_turns": 0},
        "self_reported_turns": 2,
        "estimated_turns": 0,
    }
    said = (scene.shop.root / ".aop/logs/good/builder-says.log").read_text()
    assert "I begin" in said
    assert "denied: edit /etc/passwd" in said


@pytest.mark.parametrize(
    ("manner", "problem"),
    [
        ("mumbles", "The agent exited before it answered `initialize`."),
        ("dies", "The agent exited with code 3. It printed nothing."),
        ("old", "The agent does not support MCP servers over HTTP, which AOP's tools need."),
        ("floods", "The agent wrote a line of more than 8388608 bytes, or more than 268435456 bytes in total."),
    ],
)
def test_an_agent_that_does_not_keep_to_the_protocol_is_told_apart(tmp_path: Path, manner: str, problem: str) -> None:
    assert Scene(tmp_path, manner).problem() == problem


def test_an_agent_that_never_ends_is_asked_to_stop_before_it_is_ended(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "hangs", "supervisor: {turn_timeout_seconds: 20}\n")
    assert scene.problem() == "The agent stopped (`cancelled`) without a submission or a changed file."


def test_an_agent_that_says_it_is_over_its_cap_is_asked_to_stop(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "spends", "cost: {max_usd_per_feature: 5}\n")
    ran = scene.run()
    assert ran.code == 4, (ran.out, ran.err)
    assert [question["gate"] for question in json.loads(ran.out)["data"]["questions"]] == ["authorisation"]
    assert scene.spent()["cost_usd"] == {"known": 9.5, "unknown_turns": 0}


def test_an_agent_whose_family_is_known_asks_its_model_through_the_meter_and_has_a_placeholder_for_the_key(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, "works", "execution: {env_allowlist: [LANG, GEMINI_API_KEY]}\n")
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5}
    said = whole({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage})
    with providing(said) as provider:
        scene.shop.env |= {
            "AOP_CUSTOM_AGENT": acp_command(tmp_path / "agent", "works", "gemini"),
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": provider.url,
        }
        ran = scene.run()
        listed = run_aop(scene.shop.root, "agents", env=scene.shop.env).out
    assert ran.code == 0, (ran.out, ran.err)
    assert (scene.shop.root / ".worktrees/good/src/good.txt").read_text().startswith("aop-")
    asked = [(heard.headers["x-goog-api-key"], json.loads(heard.body)) for heard in provider.heard]
    assert asked == [(KEY, {"tools": [{"functionDeclarations": []}]})] * 2
    assert scene.spent()["input_tokens"] == {"known": 20, "unknown_turns": 0}
    noted = (scene.shop.root / ".aop/logs/good/builder-meter.log").read_text()
    assert noted == "Removed from 1 request: the provider's own tool `googleSearch`.\n"
    assert "AOP meters its model, and hides the key in GEMINI_API_KEY" in listed
