"""Epochs: an older supervisor changes nothing once a newer one leads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aop.core.roles import Role
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.gateway.gateway import Gateway, ToolRequest
from aop.kernel.record.port import Transaction
from tests.kernel.gateway.test_operations import Said, events
from tests.world import World

pytestmark = pytest.mark.req("AOP-336")


def gateway_of(world: World, *more: Tool) -> Gateway:
    """Return a gateway as another process would have it."""
    return Gateway(world.app.gateway.kernel, {**world.app.gateway.tools, **{tool.name: tool for tool in more}})


def test_every_change_of_a_replaced_supervisor_is_refused_and_it_may_still_look(world: World) -> None:
    older, newer, person = gateway_of(world), gateway_of(world), world.app.person
    older.lead()
    assert older.call(person, "feature.init", {"feature_id": "one"}).ok
    newer.lead()
    before, note = world.fingerprint(), {"feature_id": "one", "note": "x"}
    asked = ToolRequest(principal=person, tool="feature.log_append", arguments=note, operation_id="op-together")
    refused = [older.call(person, "feature.init", {"feature_id": "two"}), *older.call_together([asked])]
    assert [(each.error or {}).get("code") for each in refused] == ["supervisor_replaced"] * 2
    assert (world.fingerprint(), older.is_replaced(), newer.is_replaced()) == (before, True, False)
    assert older.call(person, "report.dashboard", {}).ok
    assert newer.call(person, "feature.log_append", note).ok
    world.ok("feature.log_append", feature_id="one", note="y")


def test_what_was_under_way_when_a_newer_supervisor_came_is_not_stored(world: World) -> None:
    def say(call: Call) -> Outcome:
        def decide(tx: Transaction) -> Outcome:
            tx.append(call.event("said", None))
            return Said(said="too late")

        return call.commit(decide)

    assert code_when_replaced(world, say) == "supervisor_replaced"
    assert events(world, "said") == []


def test_a_replaced_supervisor_does_nothing_outside_the_record_either(world: World) -> None:
    moved: list[str] = []

    def move(call: Call) -> Outcome:
        call.intend({"moves": "a branch"})
        moved.append("a branch")
        return Said(said="too late")

    assert code_when_replaced(world, move) == "supervisor_replaced"
    assert moved == []


def code_when_replaced(world: World, do: Callable[[Call], Outcome]) -> object:
    """Return how a call ends while which a newer supervisor comes."""
    newer = gateway_of(world)

    def run(call: Call, _arguments: Arguments) -> Outcome:
        newer.lead()
        return do(call)

    everybody = frozenset({Role.ORCHESTRATOR})
    slow = Tool(
        name="test.say", summary="Say.", arguments=Arguments, output=Said, roles=everybody, run=run, mutates=True
    )
    older = gateway_of(world, slow)
    older.lead()
    return (older.call(world.app.person, "test.say", {}, operation_id="op-1").error or {})["code"]
