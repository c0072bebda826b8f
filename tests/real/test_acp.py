"""Real coding agent that speaks the Agent Client Protocol, as a custom agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shops import Shop
from tests.real.conftest import BIN
from tests.real.fake_vendors import fake_vendors
from tests.real.scenes import KEY, SECONDS, environment, logs, needs, requests_of, spent, works
from tests.world import run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.mark.req("AOP-229", "AOP-234")
def test_gemini_brings_a_feature_to_ready_to_merge_over_acp(tmp_path: Path) -> None:
    needs("gemini")
    shop = Shop(tmp_path)
    shop.wants("good")
    with fake_vendors(works) as model:
        env = {"AOP_CUSTOM_AGENT": f"acp: {BIN / 'gemini'} --acp"}
        env |= environment("gemini", model)
        words = ["--agent-provider", "custom", "--agent-model", "gemini-2.5-pro", "--json"]
        ran = run_aop(shop.root, "run", "-fl", str(shop.specs), "--wait", *words, env=env, seconds=SECONDS)
    assert ran.code == 0, (ran.out, ran.err, requests_of(model), logs(shop))
    assert shop.statuses() == {"good": "ready_to_merge"}
    assert (shop.root / ".worktrees/good/src/good.txt").read_text() == "Write good.\n"
    assert "gemini-2.5-pro" in {asked.model for asked in model.asked}
    assert model.keys == {KEY}
    assert spent(shop)["input_tokens"] == {"known": 10 * len(model.asked), "unknown_turns": 0}
