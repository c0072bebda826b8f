"""Operations: an operation id is one request, which takes effect once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Struct

from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.core.errors import Fault, InvalidStatusTransition, Json
from aop.core.ids import OperationId
from aop.core.roles import Role
from aop.kernel.gateway.calls import Arguments, Call, Envelope, Outcome, Tool
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.port import Transaction
from tests.racing import race
from tests.world import PATCH, World, files, git, plan_for

CALL = """
import msgspec
from aop.wiring.build import Settings, build
root, role, tool, arguments, operation_id = sys.argv[1:]
app = build(Path(root), Settings.from_env(os.environ))
who = msgspec.structs.replace(app.person, role=role)
ready()
while True:
    answer = app.gateway.call(who, tool, json.loads(arguments), operation_id=operation_id)
    if answer.error is None or answer.error["code"] != "worktree_busy":
        break
print(json.dumps(answer.as_json()))
"""
"""Calls a tool; on a busy machine others may hold the worktree for longer than a call waits, so it is sent again."""

BROKEN = "--- /dev/null\n+++ b/src/broken.txt\n@@ -0,0 +1 @@\n+x\n"
REPAIRED = "--- a/src/broken.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


def events(world: World, kind: str) -> list[str]:
    with world.app.record.read() as view:
        return [entry.event.operation_id for entry in view.journal(kinds=(kind,))]


@pytest.mark.req("AOP-259", "AOP-326")
@pytest.mark.parametrize(
    ("role", "tool", "arguments", "event"),
    [
        ("builder", "repo.apply_patch", {"unified_diff": PATCH}, "patch_applied"),
        ("orchestrator", "gates.run", {"mode": "full"}, "gates_ran"),
    ],
    ids=["patch", "gates"],
)
def test_sent_by_three_processes_at_once_it_runs_once_and_all_get_the_one_answer(
    world: World, role: str, tool: str, arguments: dict[str, Any], event: str
) -> None:
    world.plan("one")
    payload = json.dumps({"feature_id": "one", **arguments})
    answers = race(CALL, [(world.root, role, tool, payload, "op-1")] * 3)
    assert answers[0]["ok"], answers[0]
    assert answers == [answers[0]] * 3
    assert events(world, event) == ["op-1"]
    assert world.ok("feature.state_get", feature_id="one")["version"] == 3


@pytest.mark.req("AOP-027", "AOP-028")
def test_what_processes_do_at_once_is_all_in_the_files_afterwards(world: World) -> None:
    names = [f"feature-{number}" for number in range(4)]
    made = race(
        CALL,
        [
            (world.root, "orchestrator", "feature.init", json.dumps({"feature_id": name}), f"op-{name}")
            for name in names
        ],
    )
    assert [answer["data"]["created"] for answer in made] == [True] * 4
    index = json.loads((world.root / "agentic/features/index.json").read_bytes())
    assert (index["version"], index["active"]) == (4, names)
    world.ok("plan.submit", feature_id=names[0], plan_json=plan_for(names[0]))
    gates = json.dumps({"feature_id": names[0], "mode": "full", "force": True})
    ran = race(CALL, [(world.root, "orchestrator", "gates.run", gates, f"op-{number}") for number in range(3)])
    assert sorted(answer["data"]["version"] for answer in ran) == [3, 4, 5]
    state = (world.root / f"agentic/features/{names[0]}/state.md").read_text()
    assert state.startswith("---\nversion: 5\n")
    with world.app.record.read() as view:
        assert view.unshown() == ()


@pytest.mark.req("AOP-326")
@pytest.mark.hostile("S18")
def test_an_id_that_was_used_for_another_request_is_refused(world: World) -> None:
    assert world.call("feature.init", feature_id="one", operation="op-1").ok
    before = world.fingerprint()
    others: list[tuple[str, dict[str, Any]]] = [
        ("feature.init", {"feature_id": "two"}),
        ("feature.init", {"feature_id": "one", "expected_version": 1}),
        ("repo.ensure_worktree", {"feature_id": "one"}),
    ]
    errors = [world.call(tool, operation="op-1", **arguments).error for tool, arguments in others]
    assert [(error or {})["code"] for error in errors] == ["idempotency_mismatch"] * 3
    assert world.fingerprint() == before


def test_the_order_of_the_keys_does_not_make_another_request(world: World) -> None:
    gateway, person = world.app.gateway, world.app.person
    first = gateway.call(person, "feature.init", {"feature_id": "one", "actor_id": person.actor}, operation_id="op-1")
    again = gateway.call(person, "feature.init", {"actor_id": person.actor, "feature_id": "one"}, operation_id="op-1")
    assert (first.ok, again) == (True, first)


@pytest.mark.req("AOP-326")
def test_a_refused_call_may_be_sent_again_with_its_id(world: World) -> None:
    world.init("one")
    patch: dict[str, Any] = {"feature_id": "one", "unified_diff": PATCH}
    refused = world.call("repo.apply_patch", role=Role.BUILDER, operation="op-1", **patch)
    with world.app.record.read() as view:
        assert view.operation(OperationId("op-1")) is None
    world.ok("plan.submit", feature_id="one", plan_json=plan_for("one"))
    taken = world.call("repo.apply_patch", role=Role.BUILDER, operation="op-1", **patch)
    assert ((refused.error or {})["code"], taken.ok) == ("plan_required", True)
    assert events(world, "patch_applied") == ["op-1"]


@pytest.mark.req("AOP-259")
def test_the_answer_stays_what_it_was_when_the_feature_has_moved_on(world: World) -> None:
    world.plan("one", files=files(("src/broken.txt",), ("src/a.txt",)))
    patch: dict[str, Any] = {"feature_id": "one", "unified_diff": PATCH}
    first = world.call("repo.apply_patch", role=Role.BUILDER, operation="op-1", **patch)
    world.patch("one", BROKEN)
    before = world.fingerprint()
    again = world.call("repo.apply_patch", role=Role.BUILDER, operation="op-1", **patch)
    assert (first.ok, again) == (True, first)
    assert world.fingerprint() == before


def test_a_verdict_that_failed_is_an_answer_and_is_not_run_again(world: World) -> None:
    world.plan("one", files=files(("src/broken.txt",)))
    world.patch("one", BROKEN)
    gates: dict[str, Any] = {"feature_id": "one", "mode": "fast"}
    failed = world.call("gates.run", operation="op-1", **gates)
    world.patch("one", REPAIRED)
    before = world.fingerprint()
    again = world.call("gates.run", operation="op-1", **gates)
    assert ((failed.error or {})["code"], again) == ("gate_failed", failed)
    assert world.fingerprint() == before
    assert world.call("gates.run", operation="op-2", **gates).ok
    assert events(world, "gates_ran") == ["op-1", "op-2"]


def approve(world: World, operation: str) -> Envelope:
    status = world.ok("repo.status", feature_id="one")
    return world.call(
        "feature.approve", feature_id="one", tree=status["tree"], base=status["base_head"], operation=operation
    )


def test_an_approval_that_is_asked_for_again_gives_its_token_again_and_no_record_holds_it(world: World) -> None:
    world.ready("one")
    first, again = approve(world, "op-1"), approve(world, "op-1")
    assert (first.ok, again) == (True, first)
    token = first.data["token"]
    assert token.startswith("aop1.")
    with world.app.record.read() as view:
        assert len(list(view.all(Approval))) == 1
    record = world.app.record
    assert isinstance(record, SqliteRecord)
    dump = "\n".join(record._connection().iterdump())
    private = b"".join(path.read_bytes() for path in (world.root / ".aop").rglob("*") if path.is_file())
    assert token.rpartition(".")[2] not in dump
    assert token.rpartition(".")[2].encode() not in private


@pytest.mark.req("AOP-259")
@pytest.mark.hostile("T11", "T23")
def test_of_two_processes_that_merge_with_one_approval_one_merges(world: World) -> None:
    world.ready("one")
    base = git(world.root, "rev-parse", "main")
    merge = json.dumps({"feature_id": "one", "user_approval_token": world.approval("one")})
    answers = race(
        CALL, [(world.root, "orchestrator", "feature.ready_to_merge", merge, name) for name in ("op-1", "op-2")]
    )
    won, lost = sorted(answers, key=lambda answer: not answer["ok"])
    assert (won["ok"], lost["ok"]) == (True, False)
    assert lost["error"]["code"] == "invalid_status_transition"
    assert git(world.root, "rev-parse", "main").strip() == won["data"]["merge_commit"]
    assert git(world.root, "rev-parse", "main^1") == base
    merged_by = events(world, "feature_merged")
    assert len(merged_by) == 1
    with world.app.record.read() as view:
        assert [approval.spent_by for approval in view.all(Approval)] == merged_by
    again = world.call("feature.ready_to_merge", operation="op-3", **json.loads(merge))
    assert (again.error or {})["code"] == "invalid_status_transition"


@pytest.mark.req("AOP-259")
def test_a_merge_that_is_sent_again_answers_as_before_and_moves_nothing(world: World) -> None:
    world.ready("one")
    merge: dict[str, Any] = {"feature_id": "one", "user_approval_token": world.approval("one")}
    first = world.call("feature.ready_to_merge", operation="op-1", **merge)
    before = world.fingerprint()
    again = world.call("feature.ready_to_merge", operation="op-1", **merge)
    assert (first.ok, again) == (True, first)
    assert world.fingerprint() == before


class Said(Struct, frozen=True, kw_only=True):
    said: str


class Breaking:
    """A tool that breaks after its effect the first time, and what was done by it."""

    def __init__(self, *, intends: bool = True, resolves: str | None = "finished") -> None:
        self.did: list[str] = []
        self.intends = intends
        self.resolves = resolves

    def run(self, call: Call, _arguments: Arguments) -> Outcome:
        if self.intends:
            call.intend({"say": "hello"})
        self.did.append("ran")
        if self.did == ["ran"]:
            raise Fault("The machine broke.")
        return self.finish(call, "ran again")

    def resolve(self, call: Call, intent: Mapping[str, Json]) -> Outcome | None:
        self.did.append(f"resolved {intent['say']} by {call.principal.actor}")
        return None if self.resolves is None else self.finish(call, self.resolves)

    def finish(self, call: Call, said: str) -> Outcome:
        def decide(tx: Transaction) -> Outcome:
            tx.append(call.event("said", None, said=said))
            return Said(said=said)

        return call.commit(decide)

    def tool(self, **fields: Any) -> Tool:
        row: dict[str, Any] = {
            "name": "test.say",
            "summary": "Say something.",
            "arguments": Arguments,
            "output": Said,
            "roles": frozenset({Role.ORCHESTRATOR}),
            "run": self.run,
            "mutates": True,
            "resolve": self.resolve,
        }
        return Tool(**{**row, **fields})


def gateway_of(world: World, breaking: Breaking, **fields: Any) -> Gateway:
    """Return a gateway as a new process would have it: it has not looked for dead operations yet."""
    tool = breaking.tool(**fields)
    return Gateway(world.app.gateway.kernel, {**world.app.gateway.tools, tool.name: tool})


def break_off(world: World, breaking: Breaking) -> None:
    with pytest.raises(Fault, match="The machine broke"):
        gateway_of(world, breaking).call(world.app.person, "test.say", {}, operation_id="op-1")
    with world.app.record.read() as view:
        assert [operation.operation_id for operation in view.pending_operations()] == ["op-1"]


@pytest.mark.parametrize(
    ("breaking", "did", "said"),
    [
        pytest.param(Breaking(), ["ran", "resolved hello by person:ada"], "finished", id="finished"),
        pytest.param(Breaking(resolves=None), ["ran", "resolved hello by person:ada", "ran"], "ran again", id="undone"),
        pytest.param(Breaking(intends=False), ["ran", "ran"], "ran again", id="nothing was begun"),
    ],
)
def test_a_call_that_broke_is_settled_when_it_is_sent_again(
    world: World, breaking: Breaking, did: list[str], said: str
) -> None:
    gateway = gateway_of(world, breaking)
    with pytest.raises(Fault, match="The machine broke"):
        gateway.call(world.app.person, "test.say", {}, operation_id="op-1")
    answer = gateway.call(world.app.person, "test.say", {}, operation_id="op-1")
    assert (answer, breaking.did) == (Envelope(ok=True, data={"said": said}), did)
    assert gateway.call(world.app.person, "test.say", {}, operation_id="op-1") == answer
    assert (breaking.did, events(world, "said")) == (did, ["op-1"])


@pytest.mark.parametrize(
    ("breaking", "did", "answered"),
    [
        pytest.param(Breaking(), ["ran", "resolved hello by person:ada"], True, id="finished"),
        pytest.param(Breaking(resolves=None), ["ran", "resolved hello by person:ada"], False, id="undone"),
        pytest.param(Breaking(intends=False), ["ran"], False, id="nothing was begun"),
    ],
)
def test_the_first_call_of_the_next_process_settles_what_died_and_never_runs_it(
    world: World, breaking: Breaking, did: list[str], *, answered: bool
) -> None:
    break_off(world, breaking)
    assert gateway_of(world, breaking).call(world.app.person, "report.dashboard", {}).ok
    with world.app.record.read() as view:
        operation = view.operation(OperationId("op-1"))
        assert view.pending_operations() == ()
    assert breaking.did == did
    assert (operation is not None) is answered
    assert events(world, "said") == (["op-1"] if answered else [])


def test_an_operation_whose_caller_is_alive_is_left_to_it(world: World) -> None:
    breaking = Breaking()
    break_off(world, breaking)
    with world.app.gateway.kernel.locks.operation(OperationId("op-1"), wait_seconds=0.0):
        assert gateway_of(world, breaking).call(world.app.person, "report.dashboard", {}).ok
    with world.app.record.read() as view:
        assert len(view.pending_operations()) == 1
    assert breaking.did == ["ran"]


def refuse(_call: Call, _intent: Mapping[str, Json]) -> Outcome:
    raise InvalidStatusTransition("The feature `one` is `failed`.")


def test_an_operation_that_can_neither_be_finished_nor_undone_stops_nobody_else(world: World) -> None:
    breaking, told = Breaking(), list[str]()
    break_off(world, breaking)
    gateway = gateway_of(world, breaking, resolve=refuse)
    assert gateway.call(world.app.person, "report.dashboard", {}, report=told.append).ok
    assert told == [
        "The operation `op-1` was interrupted and cannot be finished or undone: The feature `one` is `failed`."
    ]
    again = gateway.call(world.app.person, "test.say", {}, operation_id="op-1")
    assert (again.error or {})["code"] == "invalid_status_transition"
    with world.app.record.read() as view:
        assert [operation.operation_id for operation in view.pending_operations()] == ["op-1"]


def test_an_operation_of_a_tool_that_this_process_does_not_serve_is_left_alone(world: World) -> None:
    break_off(world, Breaking())
    assert Gateway(world.app.gateway.kernel, world.app.gateway.tools).call(world.app.person, "report.dashboard", {}).ok
    with world.app.record.read() as view:
        assert len(view.pending_operations()) == 1


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_whatever_ends_a_call_half_way_leaves_it_to_be_settled(world: World, raised: type[BaseException]) -> None:
    def stop(call: Call, _arguments: Arguments) -> Outcome:
        call.intend({"say": "hello"})
        raise raised()

    breaking = Breaking()
    gateway = gateway_of(world, breaking, run=stop)
    with pytest.raises(raised) as stopped:
        gateway.call(world.app.person, "test.say", {}, operation_id="op-1")
    assert stopped.type is raised
    assert gateway.call(world.app.person, "test.say", {}, operation_id="op-1").data == {"said": "finished"}
