"""Real coding agents, with a model that does as a test says, bring a feature from its spec to `ready_to_merge`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shops import Shop
from tests.real.conftest import BIN
from tests.real.fake_vendors import Asked, Call, fake_vendors
from tests.world import World, plan_for

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
