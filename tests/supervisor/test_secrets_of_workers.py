"""What a worker says may hold a secret: nothing that AOP keeps or tells repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.core.ids import ObjectId
from aop.core.roles import Role
from aop.kernel.patches.stored_patches import StoredPatch, full_patch
from aop.kernel.record.proposals import proposal_in
from aop.supervisor.workers import Note, PatchProposal, PlanSubmission, WorkerOutput, WorkerRequest
from aop.testing.memory_engine import Memory
from tests.kernel.tools.worlds import configured, patch_of
from tests.supervisor.worlds import ONE, Watched, office
from tests.world import PATCH, World, plan_for

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PLAN = plan_for("one")
QUESTION = WorkerRequest(request="question", detail={"question": f"Is {SECRET} right?", "text": [SECRET]})


def held_by(world: World) -> list[str]:
    """Return the files of the repository that hold the secret."""
    root = world.app.root
    files = [path for path in root.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(root)) for path in files if SECRET.encode() in path.read_bytes())


def kept(memory: Memory) -> str:
    runs = [(run.payload, run.result) for run in memory.runs.values()]
    return str((runs, memory.steps, memory.answers))


@pytest.mark.parametrize(
    "said",
    [
        (Role.PLANNER, Note(note=f"The token is {SECRET}.")),
        (Role.PLANNER, QUESTION),
        (Role.PLANNER, PlanSubmission(plan={**PLAN, "summary": f"Use {SECRET}."})),
        (Role.BUILDER, PatchProposal(unified_diff=patch_of("src/hello.txt", f"token = '{SECRET}'"))),
    ],
    ids=["note", "question", "plan", "patch"],
)
def test_a_secret_in_an_answer_is_neither_kept_nor_told(tmp_path: Path, said: tuple[Role, WorkerOutput]) -> None:
    world, memory = configured(tmp_path / "repo"), Memory()
    planned = [(Role.PLANNER, PlanSubmission(plan=PLAN))] if said[0] is Role.BUILDER else []
    with office(world, {ONE: Watched(*planned, said)}, memory=memory, turns=2) as at_work:
        at_work.supervisor.submit([ONE])
        at_work.settle()
        assert any("answers with" in line or "no usable answer" in line for line in at_work.told)
        assert SECRET not in str((at_work.told, at_work.notices, kept(memory), world.ok("inbox.list")))
    assert held_by(world) == []
    world.close()


@pytest.mark.hostile("K06")
def test_a_patch_beside_a_secret_of_its_file_is_applied_and_kept_without_it(tmp_path: Path) -> None:
    world, memory = configured(tmp_path / "repo", files={"src/hello.txt": f"token = '{SECRET}'\nold\n"}), Memory()
    beside = f"--- a/src/hello.txt\n+++ b/src/hello.txt\n@@ -1,2 +1,2 @@\n token = '{SECRET}'\n-old\n+new\n"
    modify = {"create": [], "modify": ["src/hello.txt"], "delete": []}
    worker = Watched(
        (Role.PLANNER, PlanSubmission(plan=plan_for("one", files=modify))),
        (Role.BUILDER, PatchProposal(unified_diff=beside, patch_blob=ObjectId("0" * 40))),
    )
    with office(world, {ONE: worker}, memory=memory) as at_work:
        at_work.supervisor.submit([ONE])
        assert at_work.settle()[ONE].outcome == {"status": "ready_to_merge", "error": None}
        assert SECRET not in str((at_work.told, kept(memory)))
    world.ok("submit_patch", role=Role.BUILDER, feature_id="one", unified_diff=beside)
    with world.app.record.read() as view:
        proposed = proposal_in(view, "", ONE, Role.BUILDER) or {}
    kept_so = StoredPatch(unified_diff=proposed["unified_diff"], patch_blob=proposed["patch_blob"])
    assert (kept_so.unified_diff, full_patch(world.app.gateway.kernel.git.objects, kept_so)) == ("", beside)
    assert [path for path in held_by(world) if path.startswith((".aop", "agentic"))] == []
    assert (world.root / ".worktrees/one/src/hello.txt").read_text() == f"token = '{SECRET}'\nnew\n"
    world.close()


def test_a_patch_that_adds_a_secret_is_given_back_with_the_reason(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo")
    worker = Watched(
        (Role.PLANNER, PlanSubmission(plan=PLAN)),
        (Role.BUILDER, PatchProposal(unified_diff=patch_of("src/hello.txt", f"token = '{SECRET}'"))),
        (Role.BUILDER, PatchProposal(unified_diff=PATCH)),
    )
    with office(world, {ONE: worker}) as at_work:
        at_work.supervisor.submit([ONE])
        assert at_work.settle()[ONE].outcome == {"status": "ready_to_merge", "error": None}
    error = worker.given[2].last_tool_results[0].error or {}
    assert (error["code"], error["details"]["path"]) == ("secret_detected", "src/hello.txt")
    world.close()


@pytest.mark.parametrize(
    ("role", "tool", "arguments"),
    [
        ("planner", "submit_note", {"note": f"The token is {SECRET}."}),
        ("planner", "submit_request", {"request": "question", "detail": {"question": SECRET}}),
        ("planner", "submit_plan", {"plan": {**PLAN, "summary": f"Use {SECRET}."}}),
        ("planner", "plan.submit", {"plan_json": {**PLAN, "summary": f"Use {SECRET}."}}),
        ("builder", "submit_patch", {"unified_diff": patch_of("src/hello.txt", f"token = '{SECRET}'")}),
        ("qa", "submit_note", {"note": "-", "qa_index": [{"path": "a", "status": "waived", "reason": SECRET}]}),
    ],
)
def test_what_an_agent_submits_is_kept_without_the_secret(
    tmp_path: Path, role: str, tool: str, arguments: dict[str, Any]
) -> None:
    world = configured(tmp_path / "repo")
    world.init()
    answer = world.call(tool, role=Role(role), feature_id="one", **arguments)
    assert (answer.ok, held_by(world)) == (tool != "submit_patch", [])
    world.close()
