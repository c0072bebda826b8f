"""Real coding agents with the models that they take by themselves, from specs to merges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.models.settings import known_prices
from aop.brains.conversation import TokenCounts
from tests.cli.shops import Shop
from tests.real.fake_vendors import FakeVendors, fake_vendors
from tests.real.scenes import (
    KEY,
    PROGRAMS,
    TRIED,
    environment,
    files_with,
    logs,
    needs,
    requests_of,
    submits,
)
from tests.world import World, run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

NAMES = ("one", "two", "three")
# AOP ships no price of these.
OWN_PRICES = {
    "google:gemini-3.5-flash-lite": {"input": 0.25, "output": 1.5},
    "openai:qwen3.7-max": {"input": 2.5, "output": 7.5},
}
ASKED_TOKENS = TokenCounts(input_tokens=10, output_tokens=5)


@pytest.mark.req("AOP-229")
@pytest.mark.parametrize("provider", PROGRAMS)
def test_three_features_go_from_spec_to_merge_with_the_agent_s_own_model_and_cost_what_the_provider_bills(
    tmp_path: Path, provider: str
) -> None:
    needs(provider)
    # With a cap of cost a model without a price would be a question.
    shop = Shop(tmp_path, "version: 1\ncost: {max_usd_per_feature: 5}\n")
    shop.wants(*NAMES)
    with fake_vendors(submits) as model:
        own = tmp_path / "prices.json"
        own.write_text(json.dumps(OWN_PRICES))
        env = {**environment(provider, model), "AOP_MODEL_PRICES": str(own)}
        words = ["-fl", str(shop.specs), "--wait", "--agent-provider", provider, "--json"]
        ran = run_aop(shop.root, "run", *words, env=env, seconds=800)
    assert ran.code == 0, (ran.out, ran.err, requests_of(model), logs(shop))
    assert shop.statuses() == dict.fromkeys(NAMES, "ready_to_merge")
    assert model.keys == {KEY}
    assert files_with(KEY, tmp_path) == []
    spent = [spent_on(shop, name) for name in NAMES]
    assert sum(each["input_tokens"]["known"] for each in spent) == 10 * len(model.asked)
    assert sum(each["cost_usd"]["known"] for each in spent) == pytest.approx(bill(provider, model, env), abs=1e-9)
    assert [each["cost_usd"]["unknown_turns"] for each in spent] == [0, 0, 0]
    for name in NAMES:
        merged = run_aop(shop.root, "merge", name, "--yes", "--json")
        assert merged.code == 0, (merged.out, merged.err)
    assert shop.statuses() == dict.fromkeys(NAMES, "merged")


def spent_on(shop: Shop, name: str) -> Any:
    world = World(shop.root)
    summary = world.ok("report.feature_summary", feature_id=name)
    world.close()
    return summary["spent"]


def bill(provider: str, model: FakeVendors, env: dict[str, str]) -> float:
    """Return what the provider asks for all requests that it answered."""
    endpoint, prices = TRIED[provider].row.endpoint, known_prices(env)
    assert endpoint is not None
    costs = [prices.cost(f"{endpoint.family}:{asked.model}", ASKED_TOKENS) for asked in model.asked]
    assert None not in costs, sorted({asked.model for asked in model.asked})
    return sum(cost for cost in costs if cost is not None)
