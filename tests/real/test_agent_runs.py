"""Real coding agents, with a model that does as a test says, bring a feature from its spec to `ready_to_merge`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shops import Shop
from tests.real.conftest import BIN
from tests.real.fake_vendors import Asked, Call, fake_vendors
from tests.world import World, plan_for, run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

KEY = "sk-the-real-key-of-a-person-0123456789"
VARIABLES = {
    "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
    "codex": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", ""),
}
PLAN = plan_for("good", files={"create": ["src/good.txt"], "modify": [], "delete": []})
PATCH = "--- /dev/null\n+++ b/src/good.txt\n@@ -0,0 +1 @@\n+Write good.\n"


def works(asked: Asked) -> Call | str:
    """Plan one file, and write it: with the agent's own tool where it has one, with a patch where not."""
    if asked.results:
        return "done"
    if "You are the planner" in asked.prompt:
        return called(asked, "submit_plan", {"feature_id": "good", "plan": PLAN})
    tool = asked.tool("Write") or asked.tool("write_file")
    if tool is None:
        return called(asked, "submit_patch", {"feature_id": "good", "unified_diff": PATCH})
    return Call(name=tool, arguments={"file_path": "src/good.txt", "content": "Write good.\n"})


def called(asked: Asked, name: str, arguments: dict[str, object]) -> Call | str:
    tool = asked.tool(name)
    if tool is None:
        return f"`{name}` is not offered: {sorted(asked.offered)}"
    space = asked.offered[tool]
    return Call(name=f"{tool}@{space}" if space else tool, arguments=arguments)


@pytest.mark.req("AOP-229", "AOP-234", "AOP-315")
@pytest.mark.parametrize("vendor", VARIABLES)
def test_a_coding_agent_brings_a_feature_to_ready_to_merge(tmp_path: Path, vendor: str) -> None:
    if not (BIN / vendor).exists():
        pytest.skip("The programs are not installed: `make real` does that, where there is `npm`.")
    shop = Shop(tmp_path)
    shop.wants("good")
    key, url, below = VARIABLES[vendor]
    with fake_vendors(works) as model:
        env = {"PATH": f"{BIN}:{os.environ['PATH']}", key: KEY, url: model.url + below}
        words = ["--agent-provider", vendor, "--agent-model", "a-model", "--json"]
        ran = shop.run("-fl", str(shop.specs), "--wait", *words, env=env)
    told = [(asked.prompt[-300:], asked.results, sorted(asked.offered)) for asked in model.asked]
    assert ran.code == 0, (ran.out, ran.err, told, logs(shop))
    assert shop.statuses() == {"good": "ready_to_merge"}
    assert (shop.root / ".worktrees/good/src/good.txt").read_text() == "Write good.\n"
    assert {asked.model for asked in model.asked} == {"a-model"}
    assert model.keys == {KEY}
    assert holders_of(KEY, shop.root) == []
    assert spent(shop)["turns"] == 2
    assert spent(shop)["input_tokens"] == {"known": 10 * len(model.asked), "unknown_turns": 0}


def logs(shop: Shop) -> dict[str, str]:
    return {path.name: path.read_text()[-3000:] for path in (shop.root / ".aop/logs").rglob("*.log")}


def holders_of(text: str, folder: Path) -> list[Path]:
    """Return the files that hold a text."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def spent(shop: Shop) -> Any:
    world = World(shop.root)
    summary = world.ok("report.feature_summary", feature_id="good")
    world.close()
    return summary["spent"]


@pytest.mark.parametrize("vendor", VARIABLES)
def test_an_agent_is_tried_with_one_real_turn(tmp_path: Path, vendor: str) -> None:
    if not (BIN / vendor).exists():
        pytest.skip("The programs are not installed: `make real` does that, where there is `npm`.")
    key, url, below = VARIABLES[vendor]
    with fake_vendors(notes) as model:
        env = {"PATH": f"{BIN}:{os.environ['PATH']}", key: KEY, url: model.url + below}
        ran = run_aop(tmp_path, "agents", "test", vendor, "--agent-model", "a-model", "--json", env=env)
    assert ran.code == 0, (ran.out, ran.err, model.asked)
    assert json.loads(ran.out)["data"]["usage"]["input_tokens"] == 10 * len(model.asked)


def notes(asked: Asked) -> Call | str:
    wanted = re.search(r"with the note `([^`]+)`", asked.prompt)
    if asked.results or wanted is None:
        return "done"
    return called(asked, "submit_note", {"feature_id": "trial", "note": wanted[1]})


def test_an_agent_that_is_over_its_cap_is_stopped_and_a_person_is_asked(tmp_path: Path) -> None:
    if not (BIN / "claude").exists():
        pytest.skip("The programs are not installed: `make real` does that, where there is `npm`.")
    shop = Shop(tmp_path, "version: 1\ncost: {max_tokens_per_feature: 40}\n")
    shop.wants("good")
    with fake_vendors(reads_for_ever) as model:
        env = {"PATH": f"{BIN}:{os.environ['PATH']}", "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.url}
        ran = shop.run("-fl", str(shop.specs), "--wait", "--agent-provider", "claude", "--json", env=env)
    assert ran.code == 4, (ran.out, ran.err)
    assert [question["gate"] for question in json.loads(ran.out)["questions"]] == ["authorisation"]
    assert spent(shop)["turns"] == 1
    assert len(model.asked) <= 5


def reads_for_ever(asked: Asked) -> Call | str:
    return called(asked, "feature_state_get", {"feature_id": "good"})
