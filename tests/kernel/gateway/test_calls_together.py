"""Calls together: brief tools share one durable change; each has its own answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from aop.core.errors import Fault
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.gateway.calls import Arguments, Call, Envelope, Outcome, Tool
from aop.kernel.gateway.gateway import Gateway, ToolRequest
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.projections import DECISIONS, SHOWN_DECISIONS, decision_files, decision_lines
from aop.wiring.build import Settings, build
from aop.wiring.catalogue import CATALOGUE
from tests.world import World

READER = Principal(role=Role.QA, actor="qa:one", features=frozenset())


def note(world: World, operation_id: str, *, feature: str = "one", **changes: Any) -> ToolRequest:
    arguments = {"feature_id": feature, "note": f"Said by {operation_id}"}
    asked: dict[str, Any] = {"principal": world.app.person, "tool": "feature.log_append", "arguments": arguments}
    return ToolRequest(**{**asked, "operation_id": operation_id, **changes})


def codes(answers: Sequence[Envelope]) -> list[str]:
    return ["ok" if answer.error is None else answer.error["code"] for answer in answers]


def noted(world: World) -> list[str]:
    with world.app.record.read() as view:
        return [entry.event.operation_id for entry in view.journal(kinds=("note_added",))]


def told(world: World, feature: str) -> str:
    return (world.root / f"agentic/features/{feature}/decisions.md").read_text()


def logged(world: World) -> list[tuple[str, str]]:
    lines = map(json.loads, (world.root / ".aop/calls.jsonl").read_text().splitlines())
    return [(line["operation_id"], line["outcome"]) for line in lines if line["tool"] == "feature.log_append"]


def test_each_gets_its_own_answer_and_a_refused_one_is_undone_alone(world: World) -> None:
    world.init("one")
    world.init("two")
    answers = world.app.gateway.call_together(
        [
            note(world, "op-1"),
            note(world, "op-2", feature="nowhere"),
            note(world, "op-3", arguments={"feature_id": "one"}),
            note(world, "op-4", principal=READER),
            note(world, "op-5", feature="two"),
        ]
    )
    expected = ["ok", "unknown_feature", "invalid_arguments", "forbidden_tool_for_role", "ok"]
    assert codes(answers) == expected
    assert noted(world) == ["op-1", "op-5"]
    assert "Said by op-1" in told(world, "one")
    assert "Said by op-5" in told(world, "two")
    assert logged(world) == [(f"op-{number}", code) for number, code in enumerate(expected, start=1)]
    with world.app.record.read() as view:
        assert (view.pending_operations(), view.unshown()) == ((), ())


def test_one_that_is_sent_twice_is_done_once_and_another_one_with_its_id_is_refused(world: World) -> None:
    world.init("one")
    first, again, other = world.app.gateway.call_together(
        [
            note(world, "op-1"),
            note(world, "op-1"),
            note(world, "op-1", arguments={"feature_id": "one", "note": "Another one"}),
        ]
    )
    assert codes([first, other]) == ["ok", "idempotency_mismatch"]
    assert first == again == world.call("feature.log_append", operation="op-1", feature_id="one", note="Said by op-1")
    assert noted(world) == ["op-1"]


def test_a_refused_one_leaves_its_id_free(world: World) -> None:
    world.init("one")
    late = note(world, "op-1", arguments={"feature_id": "one", "note": "Late", "expected_version": 7})
    assert codes(world.app.gateway.call_together([late, note(world, "op-1")])) == ["version_conflict", "ok"]


class Done(Struct, frozen=True, kw_only=True):
    seq: int


def broken(call: Call, _arguments: Arguments) -> Outcome:
    call.commit(lambda tx: Done(seq=tx.append(call.event("done", None)).seq))
    raise Fault("The machine broke.")


def test_what_breaks_in_one_leaves_nothing_of_any_and_each_can_be_sent_again(world: World) -> None:
    world.init("one")
    row = Tool(
        name="test.break",
        summary="Break.",
        arguments=Arguments,
        output=Done,
        roles=frozenset({Role.ORCHESTRATOR}),
        run=broken,
        mutates=True,
        brief=True,
    )
    gateway = Gateway(world.app.gateway.kernel, {**world.app.gateway.tools, row.name: row})
    calls = [note(world, "op-1"), note(world, "op-2", tool=row.name, arguments={})]
    before = world.fingerprint()
    with pytest.raises(Fault, match="The machine broke"):
        gateway.call_together(calls)
    assert world.fingerprint() == before
    assert codes(gateway.call_together(calls[:1])) == ["ok"]
    assert noted(world) == ["op-1"]


@pytest.mark.parametrize("tool", [tool for tool in CATALOGUE.values() if tool.brief], ids=lambda tool: tool.name)
def test_a_brief_tool_changes_the_record_and_has_nothing_to_settle(tool: Tool) -> None:
    assert (tool.mutates, tool.resolve, tool.reveal) == (True, None, None)


def test_decisions_are_those_of_the_journal_whatever_this_process_read_of_it_before(world: World) -> None:
    world.init("one")
    other = build(world.root, Settings.from_env({}))
    for number in range(SHOWN_DECISIONS + 5):
        app = (world.app, other)[number % 2]
        app.gateway.call_together([note(world, f"op-{number}")])
    with closing(other), world.app.record.read() as view:
        newest = view.journal(feature_id=FeatureId("one"), kinds=tuple(DECISIONS), newest=SHOWN_DECISIONS)
        assert told(world, "one").encode() in decision_files(FeatureId("one"), decision_lines(newest)).values()


def test_kept_lines_of_another_journal_are_not_shown(world: World) -> None:
    world.init("one")
    world.app.gateway.call_together([note(world, "op-1")])
    kept = world.app.gateway.kernel.decision_lines
    entry, lines = kept[FeatureId("one")]
    kept[FeatureId("one")] = (msgspec.structs.replace(entry, hash="0" * 64), ("- Another journal\n", *lines))
    world.app.gateway.call_together([note(world, "op-2")])
    shown = told(world, "one")
    assert ("Another journal" in shown, shown.count("Said by op-1"), shown.count("Said by op-2")) == (False, 1, 1)
