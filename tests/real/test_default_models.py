"""Real coding agents with the models that they take by themselves, from specs to merges."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.agents.vendors.catalogue import vendors_of
from aop.adapters.models.settings import known_prices
from aop.brains.conversation import TokenCounts
from tests.cli.shops import Shop
from tests.real.conftest import BIN
from tests.real.fake_vendors import Asked, Call, FakeVendors, fake_vendors
from tests.real.scenes import KEY, SECONDS, called, files_with, is_planner, logs, needs, requests_of
from tests.world import World, plan_for, run_aop

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

NAMES = ("one", "two", "three")
TRIED = {name: vendor for name, vendor in vendors_of(None, {}).items() if vendor.row.tried}
ASKED_TOKENS = TokenCounts(input_tokens=10, output_tokens=5)


@pytest.mark.req("AOP-229")
@pytest.mark.parametrize("provider", ["claude", "codex", "claude-acp"])
def test_three_features_go_from_spec_to_merge_with_the_agent_s_own_model_and_cost_what_the_provider_bills(
    tmp_path: Path, provider: str
) -> None:
    needs(TRIED[provider].program)
    shop = Shop(tmp_path)
    shop.wants(*NAMES)
    with fake_vendors(works) as model:
        env = environment(provider, model)
        words = ["-fl", str(shop.specs), "--wait", "--agent-provider", provider, "--json"]
        ran = run_aop(shop.root, "run", *words, env=env, seconds=SECONDS)
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


def environment(provider: str, model: FakeVendors) -> dict[str, str]:
    """Return what leads an agent to a model of ours."""
    row = TRIED[provider].row
    assert row.endpoint is not None
    assert row.key_variable is not None
    url = model.url + ("/v1" if row.endpoint.family == "openai" else "")
    return {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        row.key_variable: KEY,
        row.endpoint.url_variable: url,
    }


def works(asked: Asked) -> Call | str:
    """Plan one file, and submit it."""
    feature = re.search(r"of the feature `(\w+)`", asked.prompt)
    if feature is None or asked.results:
        return "done"
    name = feature[1]
    if is_planner(asked):
        plan = plan_for(name, files={"create": [f"src/{name}.txt"], "modify": [], "delete": []})
        return called(asked, "submit_plan", {"feature_id": name, "plan": plan})
    patch = f"--- /dev/null\n+++ b/src/{name}.txt\n@@ -0,0 +1 @@\n+Write {name}.\n"
    return called(asked, "submit_patch", {"feature_id": name, "unified_diff": patch})


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
