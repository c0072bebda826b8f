"""QA turns: when QA takes one, and how its answer updates the QA index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from aop.core.roles import Role
from aop.kernel.gates.qa_index import Mark
from aop.kernel.record.documents.qa import QaStatus
from aop.supervisor.workers import Note, PatchProposal, WorkerInput, WorkerOutput
from aop.testing.memory_engine import Memory
from tests.supervisor.test_feature_run import (
    BREAK,
    CHECK,
    GOOD,
    LATE_GATES,
    PLAN,
    READY,
    REPAIR,
    builder,
    journal,
    planner,
    qa,
)
from tests.supervisor.worlds import ONE, Watched, brought, office
from tests.world import FILES, World, make_repository


def hunks(world: World) -> dict[str, list[tuple[str, str, tuple[str, ...]]]]:
    """Return ref, status and evidence of each hunk of `one`, by file, as the file of the index says."""
    index = json.loads((world.root / "agentic/features/one/qa_test_index.json").read_text())
    return {
        item["path"]: [
            (hunk["ref"], hunk.get("status", "pending"), tuple(hunk.get("evidence_refs", ()))) for hunk in item["hunks"]
        ]
        for item in index["items"]
    }


class Marking(Watched):
    """Workers whose QA marks the hunks that it is shown."""

    def __init__(self, *turns: tuple[Role, WorkerOutput], status: QaStatus, reason: str = "") -> None:
        super().__init__(*turns)
        self._status, self._reason = status, reason

    def turn(self, given: WorkerInput) -> WorkerOutput:
        output = super().turn(given)
        if given.role is not Role.QA or not isinstance(output, PatchProposal | Note):
            return output
        marks = tuple(
            Mark(
                path=item["path"],
                status=self._status,
                hunk_refs=tuple(hunk["ref"] for hunk in item["hunks"]),
                reason=self._reason,
            )
            for item in given.context_bundle["qa_index"]["items"]
        )
        return msgspec.structs.replace(output, qa_index=marks)


@pytest.fixture
def reviewed_shop(tmp_path: Path) -> Iterator[World]:
    """A managed repository whose policy wants a turn of QA for each feature."""
    policy = "version: 1\nsupervisor: {qa: always}\n"
    late = {**FILES, "check.sh": CHECK, "agentic/orchestrator/gates.yaml": LATE_GATES}
    world = World(make_repository(tmp_path / "repo", {**late, "agentic/orchestrator/policy.yaml": policy}))
    yield world
    world.close()


@pytest.mark.req("AOP-147", "AOP-260")
def test_qa_takes_a_turn_for_each_feature_and_its_answer_updates_the_index_with_the_gates_as_evidence(
    reviewed_shop: World,
) -> None:
    worker = Marking(planner(PLAN), builder(GOOD), qa(Note(note="Read it.")), status="passed")
    assert brought(reviewed_shop, worker).outcome == READY
    assert "full gates run after this turn" in worker.given[2].instructions
    assert [kind for actor, kind in journal(reviewed_shop) if actor == "qa:one"] == [
        "note_added",
        "gates_ran",
        "qa_index_updated",
    ]
    proof = reviewed_shop.ok("feature.state_get", feature_id="one")["front_matter"]["evidence"]["latest_by_mode"]
    assert [(known, runs) for _, known, runs in hunks(reviewed_shop)["src/a.txt"]] == [("passed", (proof["full"],))]


@pytest.mark.req("AOP-147")
def test_what_qa_calls_passed_stays_pending_until_gates_prove_it(reviewed_shop: World) -> None:
    turns = (builder(BREAK), qa(Note(note="All is well.")), qa(REPAIR))
    worker = Marking(planner(PLAN), *turns, status="passed")
    assert brought(reviewed_shop, worker).outcome == READY
    shown = [given.context_bundle["qa_index"]["items"] for given in worker.given[2:]]
    assert [item["status"] for items in shown for item in items] == ["pending", "pending"]
    # QA's patch removed the hunk that it had claimed.
    assert hunks(reviewed_shop) == {}


@pytest.mark.req("AOP-147", "AOP-260")
def test_hunks_that_qa_finds_wrong_are_marked_with_the_run_that_failed_before_it_repairs_them(tmp_path: Path) -> None:
    late = {**FILES, "check.sh": CHECK, "agentic/orchestrator/gates.yaml": LATE_GATES}
    world = World(make_repository(tmp_path / "repo", late))
    worker = Marking(planner(PLAN), builder(BREAK), qa(Note(note="It is broken.")), qa(REPAIR), status="failed")
    assert brought(world, worker).outcome == READY
    failed = worker.given[2].last_tool_results[0].evidence["gate_run_id"]
    told = worker.given[3].context_bundle["qa_index"]["items"]
    world.close()
    assert [(item["path"], item["status"], item["evidence_refs"]) for item in told] == [
        ("src/broken.txt", "failed", [failed])
    ]


def test_a_secret_in_a_mark_is_not_kept(reviewed_shop: World) -> None:
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    worker = Marking(planner(PLAN), builder(GOOD), qa(BREAK), qa(REPAIR), status="waived", reason=f"See {token}.")
    memory = Memory()
    with office(reviewed_shop, {ONE: worker}, memory=memory) as at_work:
        at_work.supervisor.submit([ONE])
        assert at_work.settle()[ONE].outcome == READY
    assert token not in repr(memory.__dict__)
    assert "1 waived (See" in (reviewed_shop.root / "agentic/features/one/decisions.md").read_text()
