"""Many features at once through a provider that limits requests: one wait, no question, all ready afterwards."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.adapters.agents.scripted_provider import Answer, answering, whole
from tests.cli.run.bad_agents import bad_agent
from tests.cli.shops import Shop
from tests.world import run_aop

POLICY = "version: 1\nsupervisor: {max_active_features: 50, max_parallel_agent_turns: 4}\n"
LIMITED = {"error": {"type": "rate_limit_error", "message": "slow down"}}
REPLY = {"type": "message", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}


class LimitedModel:
    """Answers 429 for some seconds since its first request, and says how long that still takes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began: float | None = None
        self.statuses: Counter[int] = Counter()

    def answer(self) -> Answer:
        self._began = self._began or time.monotonic()
        left = max(0.0, self._began + self._seconds - time.monotonic())
        status, said = (429, LIMITED) if left else (200, REPLY)
        self.statuses[status] += 1
        # Whole seconds, rounded up, as providers do it.
        return whole(said, status=status, **{"retry-after": str(int(left) + 1)})


@pytest.mark.parametrize(
    ("features", "seconds"),
    [(4, 3.0), pytest.param(50, 20.0, marks=pytest.mark.soak)],
    ids=["4 features", "50 features"],
)
def test_features_of_a_limited_provider_share_one_wait_and_all_are_ready_afterwards(
    tmp_path: Path, features: int, seconds: float
) -> None:
    shop = Shop(tmp_path, POLICY)
    names = [f"metered_{number}" for number in range(features)]
    shop.wants(*names)
    path = os.pathsep.join([str(bad_agent(tmp_path / "bin", "claude")), os.environ["PATH"]])
    model = LimitedModel(seconds)
    with answering(model.answer) as provider:
        env = {"PATH": path, "ANTHROPIC_API_KEY": "sk-none", "ANTHROPIC_BASE_URL": provider.url}
        words = ["run", "-fl", str(shop.specs), "--wait", "--agent-provider", "claude"]
        ran = run_aop(shop.root, *words, env=env, seconds=900)
    assert ran.code == 0, ran.err[-3000:]
    assert shop.statuses() == dict.fromkeys(names, "ready_to_merge")
    kinds = Counter(kind for kind, _ in shop.events().elements())
    # A late refusal of a turn from before the end makes the same wait longer, which then ends once more.
    assert (kinds["provider_wait_began"], kinds["provider_wait_ended"] >= 1, kinds["question_asked"]) == (1, True, 0)
    assert model.statuses == {429: model.statuses[429], 200: features}
    # Turns that are under way, or begin before the wait is recorded, are refused too; the others do not ask.
    assert model.statuses[429] <= max(4, features // 4)
