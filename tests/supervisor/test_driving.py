"""One feature, driven through the real gateway by workers that answer what a test wrote down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.agents.replay import RecordedTurn, ReplayWorker, read_transcript
from aop.core.errors import Fault
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.documents import Status
from aop.supervisor.driving import Outcome, drive, telling_line
from aop.supervisor.workers import (
    Note,
    PatchProposal,
    PlanSubmission,
    ProviderChoice,
    Request,
    Usage,
    WorkerInput,
    WorkerOutput,
)
from tests.world import FILES, PATCH, World, files, git, make_repository, plan_for

ONE = FeatureId("one")
PLAN = PlanSubmission(plan=plan_for("one", files=files(create=("src/broken.txt",), modify=("src/a.txt",))))
GOOD = PatchProposal(unified_diff=PATCH)
BREAK = PatchProposal(unified_diff="--- /dev/null\n+++ b/src/broken.txt\n@@ -0,0 +1 @@\n+broken\n")
REPAIR = PatchProposal(unified_diff="--- a/src/broken.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-broken\n")

CHECK = 'if test -e src/broken.txt; then echo "CheckError: src/broken.txt is there"; exit 1; fi\n'
POLICY = "version: 1\nsupervisor: {max_iterations_per_phase: 3}\n"
LATE_GATES = """\
version: 1
profiles:
  default:
    modes:
      fast: [{name: quick, cmd: ["true"]}]
      full: [{name: check, cmd: [sh, check.sh]}]
      merge: [{name: check, cmd: [sh, check.sh]}]
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    """A managed repository whose check says what it does not like, and whose policy grants three turns a phase."""
    world = World(make_repository(tmp_path / "repo", repository_files()))
    yield world
    world.close()


def repository_files(**more: str) -> dict[str, str]:
    return {**FILES, "check.sh": CHECK, "agentic/orchestrator/policy.yaml": POLICY, **more}


class Watched:
    """A recorded worker that keeps what it was given."""

    def __init__(self, *turns: tuple[Role, WorkerOutput]) -> None:
        self._worker = ReplayWorker(RecordedTurn(role=role, output=output) for role, output in turns)
        self.given: list[WorkerInput] = []

    def turn(self, given: WorkerInput) -> WorkerOutput:
        self.given.append(given)
        return self._worker.turn(given)


def planner(output: WorkerOutput) -> tuple[Role, WorkerOutput]:
    return Role.PLANNER, output


def builder(output: WorkerOutput) -> tuple[Role, WorkerOutput]:
    return Role.BUILDER, output


def driven(world: World, worker: Watched, told: list[str] | None = None) -> Outcome:
    provider = ProviderChoice(provider="replay", model="tape", provider_config_ref="REPLAY_CONFIG")
    return drive(world.app.gateway, ONE, worker, provider, (told if told is not None else []).append)


def journal(world: World) -> list[tuple[str, str]]:
    with world.app.record.read() as view:
        return [(entry.event.actor, entry.event.kind) for entry in view.journal()]


# --- the way to ready_to_merge ---------------------------------------------------------------------


def test_a_feature_is_planned_built_and_proven_each_step_by_its_own_role(shop: World) -> None:
    outcome = driven(shop, Watched(planner(PLAN), builder(GOOD)))
    status = shop.ok("repo.status", feature_id="one")
    assert outcome == Outcome(
        feature_id=ONE,
        status=Status.READY_TO_MERGE,
        tree=status["tree"],
        gates={"plan": "pass", "fast": "pass", "full": "pass", "merge": "na"},
        problem=None,
    )
    assert journal(shop) == [
        ("orchestrator:one", "feature_initialised"),
        ("planner:one", "plan_accepted"),
        ("builder:one", "patch_applied"),
        ("builder:one", "gates_ran"),
        ("qa:one", "gates_ran"),
    ]


def test_a_drive_ends_before_anything_is_committed_or_merged(shop: World) -> None:
    before = git(shop.root, "rev-parse", "main")
    driven(shop, Watched(planner(PLAN), builder(GOOD)))
    assert git(shop.root, "rev-parse", "main", "one") == before * 2


@pytest.mark.req("AOP-235")
def test_a_failing_gate_goes_back_to_the_builder_with_the_end_of_its_log(shop: World) -> None:
    worker, told = Watched(planner(PLAN), builder(BREAK), builder(REPAIR)), list[str]()
    assert driven(shop, worker, told).status is Status.READY_TO_MERGE
    (result,) = worker.given[2].last_tool_results
    assert (result.tool, result.ok, result.log_tail) == ("gates.run", False, "CheckError: src/broken.txt is there\n")
    assert result.error is not None
    assert result.error["code"] == "gate_failed"
    assert "builder: the log says: CheckError: src/broken.txt is there" in told


def test_a_failure_of_the_full_gates_is_repaired_and_all_gates_run_again(tmp_path: Path) -> None:
    late = repository_files(**{"agentic/orchestrator/gates.yaml": LATE_GATES})
    world = World(make_repository(tmp_path / "repo", late))
    outcome = driven(world, Watched(planner(PLAN), builder(BREAK), builder(REPAIR)))
    ran = journal(world)[3:]
    world.close()
    assert (outcome.status, outcome.problem) == (Status.READY_TO_MERGE, None)
    assert ran == [
        ("builder:one", "gates_ran"),
        ("qa:one", "gates_ran"),
        ("builder:one", "patch_applied"),
        ("builder:one", "gates_ran"),
        ("qa:one", "gates_ran"),
    ]


def test_a_refused_plan_goes_back_to_the_planner_with_what_is_wrong(shop: World) -> None:
    outside = PlanSubmission(plan=plan_for("one", files=files(modify=("README.md",))))
    worker = Watched(planner(outside), planner(PLAN), builder(GOOD))
    assert driven(shop, worker).status is Status.READY_TO_MERGE
    (result,) = worker.given[1].last_tool_results
    assert result.error is not None
    assert (result.tool, result.error["code"]) == ("plan.submit", "invalid_plan")


def test_a_refused_patch_goes_back_to_the_builder(shop: World) -> None:
    unplanned = PatchProposal(unified_diff=PATCH.replace("src/a.txt", "src/b.txt").replace("two", "beta"))
    worker = Watched(planner(PLAN), builder(unplanned), builder(GOOD))
    assert driven(shop, worker).status is Status.READY_TO_MERGE
    assert [result.ok for result in worker.given[2].last_tool_results] == [False]


def test_a_drive_that_was_broken_off_goes_on_where_the_feature_is(shop: World) -> None:
    first = driven(shop, Watched(planner(PLAN)))
    assert first.problem is not None
    assert (first.status, first.problem["code"]) == (Status.BUILDING, "replay_diverged")
    assert driven(shop, Watched(builder(GOOD))).status is Status.READY_TO_MERGE


# --- where it ends earlier -------------------------------------------------------------------------


def test_a_phase_ends_when_its_turns_are_used_up(shop: World) -> None:
    breaks = PatchProposal(unified_diff=PATCH.replace("two", "no such line"))
    worker = Watched(planner(PLAN), builder(breaks), builder(breaks), builder(breaks), builder(GOOD))
    outcome = driven(shop, worker)
    assert outcome.problem is not None
    assert (outcome.status, outcome.problem["code"]) == (Status.BUILDING, "turns_used_up")
    assert shop.app.gateway.kernel.config().policy.supervisor.max_iterations_per_phase == 3
    assert [given.role for given in worker.given] == [Role.PLANNER, Role.BUILDER, Role.BUILDER, Role.BUILDER]


@pytest.mark.parametrize("request_", ["lock", "amend_plan", "question"])
def test_what_only_a_person_can_grant_ends_the_drive(shop: World, request_: Any) -> None:
    asks = Request(request=request_, detail={"why": "the plan is too narrow"})
    outcome = driven(shop, Watched(planner(PLAN), builder(asks)))
    assert outcome.status is Status.BUILDING
    assert outcome.problem is not None
    assert outcome.problem["code"] == "worker_asks"
    assert outcome.problem["details"] == {
        "retryable": False,
        "requires_human": True,
        "suggested_next_actions": [
            "Give the worker what `request` and `detail` ask for, or do this step by hand, and go on from there."
        ],
        "feature_id": "one",
        "request": request_,
        "detail": {"why": "the plan is too narrow"},
    }


def test_a_feature_that_cannot_be_made_ends_the_drive(shop: World) -> None:
    git(shop.root, "checkout", "-q", "-b", "one")
    git(shop.root, "commit", "-q", "--allow-empty", "-m", "Mine")
    outcome = driven(shop, Watched())
    assert (outcome.status, outcome.tree, outcome.gates) == (None, "", {})
    assert outcome.problem is not None
    assert outcome.problem["code"] == "branch_exists"


def test_a_note_is_told_and_a_question_for_context_costs_a_turn(shop: World) -> None:
    told: list[str] = []
    turns = [planner(PLAN), builder(Note(note="Looks easy.")), builder(Request(request="context")), builder(GOOD)]
    assert driven(shop, Watched(*turns), told).status is Status.READY_TO_MERGE
    assert "builder: Looks easy." in told


def test_an_answer_that_belongs_to_another_step_is_given_back(shop: World) -> None:
    worker = Watched(planner(GOOD), planner(PLAN), builder(GOOD))
    assert driven(shop, worker).status is Status.READY_TO_MERGE
    (result,) = worker.given[1].last_tool_results
    assert result.error is not None
    assert result.error["message"] == "This answer does not belong to this step."


# --- what workers get and give -----------------------------------------------------------------------


@pytest.mark.req("AOP-233", "AOP-236")
def test_a_worker_gets_everything_that_a_fresh_one_needs(shop: World) -> None:
    spec = shop.root / "agentic/features/one/spec.md"
    spec.parent.mkdir(parents=True)
    spec.write_text("Say TWO.\n")
    worker = Watched(planner(PLAN), builder(BREAK), builder(REPAIR))
    driven(shop, worker)
    given = worker.given[2]
    assert (given.role, given.feature_id, given.provider, given.model, given.provider_config_ref) == (
        Role.BUILDER,
        "one",
        "replay",
        "tape",
        "REPLAY_CONFIG",
    )
    assert given.instructions.startswith("Do what the plan says")
    bundle = given.context_bundle
    assert sorted(bundle) == ["diff_summary", "evidence", "feature_id", "plan", "qa_index", "spec", "state"]
    assert (bundle["spec"], bundle["state"]["status"]) == ("Say TWO.\n", "building")
    assert bundle["plan"]["summary"] == PLAN.plan["summary"]
    assert (bundle["evidence"]["fast"]["verdict"], bundle["evidence"]["fast"]["current"]) == ("fail", True)
    assert "src/broken.txt" in bundle["diff_summary"]
    assert [item["path"] for item in bundle["qa_index"]["items"]] == ["src/broken.txt"]


WIRE: Mapping[str, tuple[dict[str, Any], WorkerOutput]] = {
    "PLAN_SUBMISSION": ({"type": "PLAN_SUBMISSION", "plan": {"a": 1}}, PlanSubmission(plan={"a": 1})),
    "PATCH": ({"type": "PATCH", "unified_diff": "--- a"}, PatchProposal(unified_diff="--- a")),
    "NOTE": ({"type": "NOTE", "note": "Hello."}, Note(note="Hello.")),
    "REQUEST": (
        {"type": "REQUEST", "request": "lock", "detail": {"resource": "openapi"}},
        Request(request="lock", detail={"resource": "openapi"}),
    ),
    "usage": (
        {"type": "NOTE", "note": "Hello.", "usage": {"input_tokens": 7, "output_tokens": None, "cost_usd": None}},
        Note(note="Hello.", usage=Usage(input_tokens=7)),
    ),
}


@pytest.mark.req("AOP-234")
@pytest.mark.parametrize(("wire", "output"), WIRE.values(), ids=WIRE)
def test_an_answer_on_the_wire_says_what_it_is(wire: dict[str, Any], output: WorkerOutput) -> None:
    assert msgspec.convert(wire, WorkerOutput) == output
    assert msgspec.to_builtins(output) == wire


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "MERGE", "feature_id": "one"},
        {"type": "PATCH", "unified_diff": "x", "force": True},
        {"type": "PATCH"},
        {"type": "REQUEST", "request": "approval"},
        {"unified_diff": "x"},
    ],
)
def test_what_is_no_answer_is_not_taken_for_one(wire: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wire, WorkerOutput)


# --- recordings ------------------------------------------------------------------------------------


def asked(role: Role) -> WorkerInput:
    return WorkerInput(
        role=role,
        feature_id=ONE,
        context_bundle={},
        instructions="",
        last_tool_results=(),
        provider="replay",
        model=None,
        provider_config_ref=None,
    )


def test_a_recording_gives_its_turns_in_their_order_and_then_says_that_it_is_over() -> None:
    worker = ReplayWorker(read_transcript(b'{"role": "builder", "output": {"type": "NOTE", "note": "Hello."}}\n'))
    assert worker.turn(asked(Role.BUILDER)) == Note(note="Hello.")
    with pytest.raises(Exception, match="ends after 1 turns, and the builder of `one` is asked for one more") as over:
        worker.turn(asked(Role.BUILDER))
    assert getattr(over.value, "code", None) == "replay_diverged"


def test_a_recording_does_not_speak_for_another_role() -> None:
    worker = ReplayWorker([RecordedTurn(role=Role.PLANNER, output=PLAN)])
    with pytest.raises(Exception, match="Turn 1 of the recording is the planner's, and the builder is asked"):
        worker.turn(asked(Role.BUILDER))


def test_a_damaged_recording_is_named_by_its_line() -> None:
    with pytest.raises(Fault, match="Line 2 of the transcript is not a turn"):
        list(
            read_transcript(b'{"role": "builder", "output": {"type": "NOTE", "note": "Hello."}}\n{"role": "builder"\n')
        )


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("Traceback\n  ValueError: no\n\nFAILED (errors=1)\n", "ValueError: no"),
        ("one\ntwo\n\n", "two"),
        ("", "(it is empty)"),
    ],
)
def test_the_line_of_a_log_that_says_most(log: str, line: str) -> None:
    assert telling_line(log) == line
