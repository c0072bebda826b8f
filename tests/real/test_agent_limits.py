"""Real coding agents that try forbidden actions: refused, and the run continues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.shops import Shop
from tests.real.fake_vendors import Asked, Call, fake_vendors
from tests.real.scenes import (
    PATCH,
    VENDORS,
    called,
    is_planner,
    logs,
    named,
    needs,
    ran_with,
    requests_of,
    spent,
    works,
)
from tests.world import World

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def strays(asked: Asked) -> Call | str:
    """As the planner, reach for another feature, for what builders and people do, and only then plan."""
    if not is_planner(asked):
        return works(asked)
    plan = asked.tool("submit_plan")
    if plan is None:
        return f"`submit_plan` is not offered: {sorted(asked.offered)}"
    attempts = (
        called(asked, "submit_note", {"feature_id": "other", "note": "From next door."}),
        named(asked, plan.replace("plan", "patch"), {"feature_id": "good", "unified_diff": PATCH}, like=plan),
        named(asked, plan.replace("submit_plan", "feature_delete"), {"feature_id": "other"}, like=plan),
    )
    done = len(asked.results)
    return attempts[done] if done < len(attempts) else works(replace(asked, results=asked.results[len(attempts) :]))


@pytest.mark.req("AOP-227")
@pytest.mark.parametrize("vendor", VENDORS)
def test_what_an_agent_may_not_do_is_refused_and_its_turn_goes_on(tmp_path: Path, vendor: str) -> None:
    needs(vendor)
    shop = Shop(tmp_path)
    world = World(shop.root)
    world.init("other")
    before = world.ok("feature.state_get", feature_id="other")
    with fake_vendors(strays) as model:
        ran = ran_with(shop, vendor, model)
    assert ran.code == 0, (ran.out, ran.err, requests_of(model), logs(shop))
    assert shop.statuses() == {"good": "ready_to_merge", "other": "planning"}
    assert world.ok("feature.state_get", feature_id="other") == before
    world.close()
    answers = max((asked.results for asked in model.asked), key=len)
    assert len(answers) == 4
    assert "forbidden_tool_for_role" in answers[0]
    assert proposals(shop) == [("submit_note", "other", "forbidden_tool_for_role"), ("submit_plan", "good", "ok")]


def proposals(shop: Shop) -> list[tuple[str, str, str]]:
    """Return what the planner wanted to change, as the kernel noted it: what is not offered, no program passed on."""
    lines = map(json.loads, (shop.root / ".aop/calls.jsonl").read_text().splitlines())
    own = [
        line for line in lines if line["actor"] == "planner:good" and line["tool"].startswith(("submit_", "feature.d"))
    ]
    return [(line["tool"], line["feature_id"], line["outcome"]) for line in own]


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_agent_that_is_over_its_cap_is_stopped_and_a_person_is_asked(tmp_path: Path, vendor: str) -> None:
    needs(vendor)
    shop = Shop(tmp_path, "version: 1\ncost: {max_tokens_per_feature: 40}\n")
    with fake_vendors(reads_for_ever) as model:
        ran = ran_with(shop, vendor, model)
    assert ran.code == 4, (ran.out, ran.err, requests_of(model), logs(shop))
    assert [question["gate"] for question in json.loads(ran.out)["data"]["questions"]] == ["authorisation"]
    assert spent(shop)["turns"] == 1
    assert len(model.asked) <= 5


def reads_for_ever(asked: Asked) -> Call | str:
    return called(asked, "feature_state_get", {"feature_id": "good"})


@pytest.mark.parametrize("vendor", ["claude", "gemini"])
def test_the_shell_of_an_agent_reaches_no_port_but_its_own_two(tmp_path: Path, vendor: str) -> None:
    needs(vendor)
    shop = Shop(tmp_path)
    with fake_vendors(lambda asked: phones(asked, model.server_port)) as model:
        ran = ran_with(shop, vendor, model)
    assert ran.code == 0, (ran.out, ran.err, requests_of(model), logs(shop))
    assert (shop.root / ".worktrees/good/src/good.txt").read_text() == "refused\n"


def phones(asked: Asked, port: int) -> Call | str:
    """As the builder, write down whether a port of this machine answers."""
    tool = asked.tool("Bash") or asked.tool("run_shell_command")
    if asked.results or is_planner(asked) or tool is None:
        return works(asked)
    knock = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null"
    command = f"if {knock}; then echo reached; else echo refused; fi > src/good.txt"
    return Call(name=tool, arguments={"command": command, "description": "Knock."})
