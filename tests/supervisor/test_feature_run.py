"""Features that go their way through the real gateway, with workers that answer what a test wrote down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aop.core.ids import FeatureId, RunId
from aop.core.roles import Role
from aop.kernel.locks.grants import lock_on
from aop.kernel.locks.leases import is_live, read_clock
from aop.kernel.record.documents.features import Status
from aop.supervisor.board import BoardEntry
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, WorkerOutput, WorkerRequest
from aop.testing.memory_engine import Memory
from tests.clocks import clocked
from tests.supervisor.worlds import ONE, Watched, brought, office
from tests.world import FILES, PATCH, World, files, git, make_repository, plan_for

TWO = FeatureId("two")
PLAN = PlanSubmission(plan=plan_for("one", files=files(create=("src/broken.txt",), modify=("src/a.txt",))))
GOOD = PatchProposal(unified_diff=PATCH)
BREAK = PatchProposal(unified_diff="--- /dev/null\n+++ b/src/broken.txt\n@@ -0,0 +1 @@\n+broken\n")
REPAIR = PatchProposal(unified_diff="--- a/src/broken.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-broken\n")

CHECK = 'if test -e src/broken.txt; then echo "CheckError: src/broken.txt is there"; exit 1; fi\n'
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
    """A managed repository whose check says what it does not like."""
    world = World(make_repository(tmp_path / "repo", {**FILES, "check.sh": CHECK}))
    yield world
    world.close()


def planner(output: WorkerOutput) -> tuple[Role, WorkerOutput]:
    return Role.PLANNER, output


def builder(output: WorkerOutput) -> tuple[Role, WorkerOutput]:
    return Role.BUILDER, output


def qa(output: WorkerOutput) -> tuple[Role, WorkerOutput]:
    return Role.QA, output


def journal(world: World) -> list[tuple[str, str]]:
    with world.app.record.read() as view:
        told = [(entry.event.actor, entry.event.kind) for entry in view.journal()]
    return [(actor, kind) for actor, kind in told if kind != "turn_taken"]


def status(world: World, feature: str = "one") -> tuple[str, str]:
    state = world.ok("feature.state_get", feature_id=feature)["front_matter"]
    return state["status"], state["status_reason"]


READY = {"status": Status.READY_TO_MERGE, "error": None}


# --- the way to ready_to_merge ---------------------------------------------------------------------


@pytest.mark.req("AOP-054", "AOP-056", "AOP-057", "AOP-232", "AOP-241", "AOP-242", "AOP-243", "AOP-247")
def test_a_feature_is_planned_built_and_proven_each_step_by_its_own_role(shop: World) -> None:
    entry = brought(shop, Watched(planner(PLAN), builder(GOOD)))
    assert (entry.does, entry.outcome) == ("ended", READY)
    assert status(shop) == ("ready_to_merge", "")
    assert journal(shop) == [
        ("orchestrator:one", "feature_initialised"),
        ("planner:one", "plan_accepted"),
        ("builder:one", "patch_applied"),
        ("builder:one", "gates_ran"),
        ("qa:one", "gates_ran"),
    ]


def test_what_a_planner_says_of_the_specs_obligations_goes_beside_its_plan(shop: World) -> None:
    spec = shop.root / "agentic/features/one/spec.md"
    spec.parent.mkdir(parents=True)
    spec.write_text("- The second line is loud\n- It is printed\n")
    mapped = ({"scope": "in_scope", "obligation": "O1", "paths": ["src/a.txt"]},)
    worker = Watched(planner(PlanSubmission(plan=PLAN.plan, obligations=mapped)), builder(GOOD))
    assert brought(shop, worker).outcome == READY
    assert [row["id"] for row in worker.given[0].context_bundle["obligations"]["rows"]] == ["O1", "O2"]
    review = shop.ok("report.feature_summary", feature_id="one")["obligations"]
    assert [row["standing"] for row in review["rows"]] == ["claimed", "unaccounted"]


@pytest.mark.req("AOP-242")
def test_where_the_policy_says_so_a_feature_gets_to_qa_only_by_its_full_gates(tmp_path: Path) -> None:
    policy = {"agentic/orchestrator/policy.yaml": "version: 1\ngates: {qa_after: full}\n"}
    gates = {"agentic/orchestrator/gates.yaml": LATE_GATES, "check.sh": CHECK}
    world = World(make_repository(tmp_path / "repo", {**FILES, **policy, **gates}))
    worker = Watched(planner(PLAN), builder(BREAK), builder(REPAIR))
    assert brought(world, worker).outcome == READY
    ran = [each for each in journal(world) if each[1].startswith("gates_")]
    world.close()
    assert ran == [*[("builder:one", "gates_ran")] * 4, ("qa:one", "gates_reused")]


@pytest.mark.req("AOP-243", "AOP-244", "AOP-245")
def test_a_run_ends_before_anything_is_committed_or_merged(shop: World) -> None:
    before = git(shop.root, "rev-parse", "main")
    brought(shop, Watched(planner(PLAN), builder(GOOD)))
    assert git(shop.root, "rev-parse", "main", "one") == before * 2


@pytest.mark.req("AOP-052", "AOP-235")
def test_a_failing_gate_goes_back_to_the_builder_with_its_log_and_what_was_tried(shop: World) -> None:
    worker = Watched(planner(PLAN), builder(BREAK), builder(REPAIR))
    assert brought(shop, worker).outcome == READY
    result, attempts = worker.given[2].last_tool_results
    assert (result.tool, result.ok, result.log_tail) == ("gates.run", False, "CheckError: src/broken.txt is there\n")
    assert result.error is not None
    assert result.error["code"] == "gate_failed"
    assert [(attempt["role"], attempt["outcome"]) for attempt in attempts.data] == [
        ("builder", "gates.run: gate_failed: CheckError: src/broken.txt is there")
    ]


@pytest.mark.req("AOP-058", "AOP-250", "AOP-261")
def test_a_failure_of_the_full_gates_is_repaired_by_qa_and_all_gates_run_again(tmp_path: Path) -> None:
    late = {**FILES, "check.sh": CHECK, "agentic/orchestrator/gates.yaml": LATE_GATES}
    world = World(make_repository(tmp_path / "repo", late))
    worker = Watched(planner(PLAN), builder(BREAK), qa(REPAIR))
    entry = brought(world, worker)
    ran = journal(world)[3:]
    world.close()
    assert entry.outcome == READY
    assert ran == [
        ("builder:one", "gates_ran"),
        ("qa:one", "gates_ran"),
        ("qa:one", "patch_applied"),
        ("qa:one", "gates_ran"),
        ("qa:one", "gates_ran"),
    ]
    assert worker.given[2].context_bundle["qa_index"]["items"][0]["path"] == "src/broken.txt"


def test_a_refused_plan_goes_back_to_the_planner_with_what_is_wrong(shop: World) -> None:
    outside = PlanSubmission(plan=plan_for("one", files=files(modify=("README.md",))))
    worker = Watched(planner(outside), planner(PLAN), builder(GOOD))
    assert brought(shop, worker).outcome == READY
    result = worker.given[1].last_tool_results[0]
    assert result.error is not None
    assert (result.tool, result.error["code"]) == ("plan.submit", "invalid_plan")


def test_a_refused_patch_goes_back_to_the_builder(shop: World) -> None:
    unplanned = PatchProposal(unified_diff=PATCH.replace("src/a.txt", "src/b.txt").replace("two", "beta"))
    worker = Watched(planner(PLAN), builder(unplanned), builder(GOOD))
    assert brought(shop, worker).outcome == READY
    assert [result.tool for result in worker.given[2].last_tool_results] == ["repo.apply_patch", "attempts"]


@pytest.mark.req("AOP-231", "AOP-258")
def test_a_feature_that_an_earlier_run_left_goes_on_where_it_is(shop: World) -> None:
    shop.plan("one", files=PLAN.plan["files"])
    worker = Watched(builder(GOOD))
    assert brought(shop, worker).outcome == READY
    assert [given.role for given in worker.given] == [Role.BUILDER]


@pytest.mark.req("AOP-231")
def test_a_feature_goes_on_although_the_engine_lost_everything(shop: World) -> None:
    ask = WorkerRequest(request="question", detail={"question": "Which colour?"})
    assert brought(shop, Watched(planner(PLAN), builder(ask))).does == "asks"
    worker = Watched(builder(GOOD))
    assert brought(shop, worker).outcome == READY
    assert [given.role for given in worker.given] == [Role.BUILDER]


def test_only_the_newest_run_of_a_feature_is_kept(shop: World) -> None:
    memory = Memory()
    for _ in range(3):
        with office(shop, {ONE: Watched(planner(PLAN), builder(GOOD))}, memory=memory) as at_work:
            at_work.supervisor.submit([ONE])
            assert at_work.settle()[ONE].outcome == READY
    assert len([key for key in memory.runs if "/" not in key]) == 1


def test_a_feature_that_is_ready_stays_as_it_is(shop: World) -> None:
    shop.ready("one")
    before = journal(shop)
    assert brought(shop, Watched()).outcome == READY
    assert journal(shop) == before


def test_the_builder_gets_another_plan_when_it_asks_for_one(shop: World) -> None:
    wider = plan_for("one", files=PLAN.plan["files"], plan_version=2, revision_of=1, revision_reason="Too narrow")
    worker = Watched(
        planner(PlanSubmission(plan=plan_for("one"))),
        builder(WorkerRequest(request="amend_plan", detail={"why": "src/broken.txt"})),
        planner(PlanSubmission(plan=wider)),
        builder(GOOD),
    )
    assert brought(shop, worker).outcome == READY
    assert worker.given[2].last_tool_results[0].data == {"why": "src/broken.txt"}
    assert shop.ok("plan.get", feature_id="one")["plan_version"] == 2


# --- where it ends otherwise ------------------------------------------------------------------------


def test_a_question_waits_for_a_person_and_the_answer_reaches_the_worker_that_asked(shop: World) -> None:
    ask = WorkerRequest(request="question", detail={"question": "Which colour?"})
    worker = Watched(planner(ask), planner(PLAN), builder(GOOD))
    with office(shop, {ONE: worker}) as at_work:
        at_work.supervisor.submit([ONE])
        entry = at_work.settle()[ONE]
        assert (entry.does, entry.topic) == ("asks", "q1")
        assert at_work.told[-1] == "one: asks: Which colour? (aop answer q1 TEXT)"
        shop.ok("inbox.answer", feature_id="one", question_id="q1", answer="Blue.")
        assert at_work.settle()[ONE].outcome == READY
    (said,) = worker.given[1].last_tool_results
    assert (said.tool, said.data) == ("person", {"question": "Which colour?", "answer": "Blue."})


@pytest.mark.req("AOP-231")
def test_a_question_that_was_answered_while_nobody_supervised_is_heard_by_the_next_one(shop: World) -> None:
    memory = Memory()
    ask = WorkerRequest(request="question", detail={"question": "Which colour?"})
    with office(shop, {ONE: Watched(planner(ask))}, memory=memory) as first:
        first.supervisor.submit([ONE])
        assert first.settle()[ONE].does == "asks"
    shop.ok("inbox.answer", feature_id="one", question_id="q1", answer="Blue.")
    worker = Watched(planner(PLAN), builder(GOOD))
    with office(shop, {ONE: worker}, memory=memory) as second:
        second.supervisor.submit(second.supervisor.unfinished_features())
        assert second.settle()[ONE].outcome == READY
    assert len(shop.ok("inbox.list", answered=True)["questions"]) == 1


def test_a_worker_that_goes_in_circles_is_nudged_then_a_person_is_asked_then_the_feature_is_blocked(
    shop: World,
) -> None:
    bad = PatchProposal(unified_diff=PATCH.replace("two", "no such line"))
    worker = Watched(planner(PLAN), *[builder(bad)] * 8)
    with office(shop, {ONE: worker}) as at_work:
        at_work.supervisor.submit([ONE])
        assert at_work.settle()[ONE].does == "asks"
        (question,) = shop.ok("inbox.list")["questions"]
        circles = "The builder of `one` goes in circles: it sends the same proposal again."
        refused = "Last refusal, by repo.apply_patch: "
        assert question["text"].startswith(f"{circles} {refused}")
        assert question["text"].endswith(" What should it do?")
        told = [given.instructions.splitlines()[-1] for given in worker.given[2:]]
        assert [line.split(".")[0] for line in told] == [
            "Carry out the plan, or repair the failures in the last results",
            "Your last answer changed nothing or could not be used",
            "This approach does not work",
        ]
        shop.ok("inbox.answer", feature_id="one", question_id="q1", answer="Read the file.")
        entry = at_work.settle()[ONE]
    assert entry.outcome["error"]["code"] == "goes_in_circles"
    now, why = status(shop)
    assert (now, why.split(refused)[0]) == ("blocked", f"{circles} A person was asked before. ")


@pytest.mark.req("AOP-239", "AOP-252")
def test_when_the_turns_are_used_up_a_person_is_asked_and_after_that_the_feature_has_failed(shop: World) -> None:
    tries = [builder(PatchProposal(unified_diff=PATCH.replace("two", f"no line {number}"))) for number in range(4)]
    with office(shop, {ONE: Watched(planner(PLAN), *tries)}, turns=2) as at_work:
        at_work.supervisor.submit([ONE])
        assert at_work.settle()[ONE].does == "asks"
        shop.ok("inbox.answer", feature_id="one", question_id="q1", answer="Try again.")
        entry = at_work.settle()[ONE]
    assert entry.outcome["error"]["code"] == "turns_used_up"
    assert status(shop) == (
        "failed",
        "The builder of `one` used its 2 turns without an accepted proposal. Last refusal, by repo.apply_patch: Hunk 1"
        " of `src/a.txt` (`@@ -1,3 +1,3 @@`) fits no place of the file. Nearest is line 1: their text differs.",
    )


def test_a_feature_that_cannot_be_made_ends_alone(shop: World) -> None:
    git(shop.root, "checkout", "-q", "-b", "two")
    git(shop.root, "commit", "-q", "--allow-empty", "-m", "Mine")
    workers = {ONE: Watched(planner(PLAN), builder(GOOD)), TWO: Watched()}
    with office(shop, workers) as at_work:
        at_work.supervisor.submit([TWO, ONE])
        entries = at_work.settle()
    assert entries[ONE].outcome == READY
    assert entries[TWO].outcome["error"]["code"] == "branch_exists"


def test_a_worker_that_has_no_answer_spoils_only_its_own_feature(shop: World) -> None:
    workers = {ONE: Watched(planner(PLAN), builder(GOOD)), TWO: Watched()}
    with office(shop, workers) as at_work:
        at_work.supervisor.submit([TWO, ONE])
        entries = at_work.settle()
    assert (entries[ONE].outcome, entries[TWO].does) == (READY, "asks")


@pytest.mark.req("AOP-053", "AOP-246", "AOP-252", "AOP-253", "AOP-264")
def test_of_two_plans_that_collide_the_second_is_revised_and_then_waits_for_the_first(shop: World) -> None:
    shop.ready("one")
    same = plan_for("two", files=files(modify=("src/a.txt",)))
    again = {**same, "summary": "Change the first file, again"}
    worker = Watched(
        planner(PlanSubmission(plan=same)),
        planner(PlanSubmission(plan=again)),
        builder(PatchProposal(unified_diff=PATCH.replace("two", "three").replace(" three\n", " four\n"))),
    )
    with office(shop, {TWO: worker}) as at_work:
        at_work.supervisor.submit([TWO])
        entry = at_work.settle()[TWO]
        assert (entry.does, entry.others) == ("waits", ("one",))
        assert status(shop, "two") == ("blocked", "The plan of `two` collides with the accepted plan of `one`.")
        assert worker.given[1].instructions.endswith("Plan without them; submit the whole plan again.")
        state = shop.ok("feature.state_get", feature_id="one")
        shop.ok(
            "feature.state_patch",
            feature_id="one",
            expected_version=state["version"],
            patch={"status": "failed", "status_reason": "Not wanted."},
        )
        at_work.settle()
    assert [given.role for given in worker.given[2:3]] == [Role.BUILDER]
    assert shop.ok("plan.get", feature_id="two")["plan"]["summary"] == "Change the first file, again"


@pytest.mark.req("AOP-317")
def test_a_plan_that_the_kernel_keeps_in_its_queue_goes_on_when_it_is_let_in(tmp_path: Path) -> None:
    policy = "version: 1\ncollision_policy: block\n"
    world = World(make_repository(tmp_path / "repo", {**FILES, "agentic/orchestrator/policy.yaml": policy}))
    world.ready("one")
    worker = Watched(planner(PlanSubmission(plan=plan_for("two"))), builder(GOOD))
    with office(world, {TWO: worker}) as at_work:
        at_work.supervisor.submit([TWO])
        assert (at_work.settle()[TWO].does, status(world, "two")[0]) == ("waits", "blocked")
        state = world.ok("feature.state_get", feature_id="one")
        given_up = {"status": "failed", "status_reason": "Not wanted."}
        world.ok("feature.state_patch", feature_id="one", expected_version=state["version"], patch=given_up)
        assert at_work.settle()[TWO].outcome == READY
    world.close()
    assert [given.role for given in worker.given] == [Role.PLANNER, Role.BUILDER]


@pytest.mark.req("AOP-230")
def test_a_run_keeps_the_locks_of_its_features_for_much_longer_than_a_lease(shop: World) -> None:
    clock = clocked(shop)
    shop.init("one")
    shop.ok("locks.acquire", feature_id="one", resource="events")
    ttl = shop.app.gateway.kernel.config().policy.locks.lease_ttl_seconds
    with office(shop, {}) as at_work:
        at_work.board.put(ONE, BoardEntry(does="asks", run_id=RunId("f.one.0"), topic="q1"))
        for _third in range(9):
            at_work.settle()
            clock.go_on(ttl / 3)
    with shop.app.record.read() as view:
        lease = lock_on(view, "events").lease
    assert lease is not None
    assert (lease.feature_id, lease.holder, lease.fence) == ("one", "supervisor", 1)
    assert is_live(lease, read_clock(clock))


def test_a_note_is_kept_and_told_and_a_question_for_context_costs_a_turn(shop: World) -> None:
    turns = [planner(PLAN), builder(Note(note="Looks easy.")), builder(WorkerRequest(request="context")), builder(GOOD)]
    with office(shop, {ONE: Watched(*turns)}) as at_work:
        at_work.supervisor.submit([ONE])
        assert at_work.settle()[ONE].outcome == READY
        assert "one: builder: feature.log_append: Looks easy." in at_work.told
    assert ("builder:one", "note_added") in journal(shop)


def test_an_answer_that_belongs_to_another_step_is_given_back(shop: World) -> None:
    worker = Watched(planner(GOOD), planner(PLAN), builder(GOOD))
    assert brought(shop, worker).outcome == READY
    result = worker.given[1].last_tool_results[0]
    assert result.error is not None
    assert result.error["message"] == "This kind of answer does not fit this step."


@pytest.mark.req("AOP-055", "AOP-227")
def test_a_worker_cannot_reach_another_feature(shop: World) -> None:
    shop.init("two")
    foreign = PlanSubmission(plan=plan_for("two"))
    worker = Watched(planner(foreign), planner(PLAN), builder(GOOD))
    assert brought(shop, worker).outcome == READY
    assert status(shop, "two") == ("planning", "")


# --- what workers get ------------------------------------------------------------------------------


@pytest.mark.req("AOP-228", "AOP-233", "AOP-236")
def test_a_worker_gets_everything_that_a_fresh_one_needs(shop: World) -> None:
    spec = shop.root / "agentic/features/one/spec.md"
    spec.parent.mkdir(parents=True)
    spec.write_text("Say TWO.\n")
    worker = Watched(planner(PLAN), builder(BREAK), builder(REPAIR))
    brought(shop, worker)
    given = worker.given[2]
    assert (given.role, given.feature_id, given.provider, given.model) == (Role.BUILDER, "one", "replay", None)
    assert given.instructions.startswith("You are the builder.\n\nCarry out the plan")
    bundle: Any = given.context_bundle
    assert {"diff_summary", "evidence", "feature_id", "plan", "qa_index", "spec", "state"} <= bundle.keys()
    assert (bundle["spec"], bundle["state"]["status"]) == ("Say TWO.\n", "building")
    assert bundle["plan"]["summary"] == PLAN.plan["summary"]
    assert (bundle["evidence"]["fast"]["verdict"], bundle["evidence"]["fast"]["current"]) == ("fail", True)
    assert "src/broken.txt" in bundle["diff_summary"]
    assert [item["path"] for item in bundle["qa_index"]["items"]] == ["src/broken.txt"]
