"""The page of gated workflows: their phase, steps and proof, and the guidance that a person gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from aop.gated.machine.state import Phase
from aop.web.pages.work.phase_picture import WAYS, phase_picture
from tests.gated.agents import RUN, TEST_ONE, Agent, stepping
from tests.gated.transitions import TRANSITIONS
from tests.mcpserver.clients import served
from tests.web.pages.page_visits import visit
from tests.world import World

FEW = {"hypothesize_max": 1, "instrumentation_max": 1, "unlock_scope_reduction_at": 2, "unlock_escalation_at": 2}
REPORT = "# Stuck\n\n<script>alert(1)</script> \u202ehidden"


def test_the_picture_has_every_phase_and_every_way_between_two() -> None:
    assert set(WAYS) == {(row.phase, row.leads_to) for row in TRANSITIONS if row.phase is not row.leads_to}
    for phase in Phase:
        boxes = phase_picture(phase).boxes
        assert {box.phase for box in boxes} == set(Phase)
        assert [box.phase for box in boxes if box.is_present] == [phase]
        assert len({(box.x, box.y) for box in boxes}) == len(Phase)


def test_without_a_workflow_the_page_says_how_to_begin(world: World) -> None:
    with served(world.root) as server, visit(world.root, server) as browser:
        page = browser.get("/gated")
    assert "aop gated start" in page.text
    assert "docs/Plan_Doc/Active_Plan.md" in page.text


@pytest.mark.hostile("B05")
def test_a_call_for_help_is_answered_on_the_page_once(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo", gated=FEW)
    for _ in range(2):
        agent.submit(test_command=RUN, expectation="FAIL")
    agent.call("escalate_for_external_help", markdown_report=REPORT)
    with served(agent.world.root) as server, visit(agent.world.root, server) as browser:
        page = browser.get("/gated")
        assert "The agent asks for help" in page.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.html
        assert "\u202e" not in page.html
        assert "aop gated resume --name gated --guidance TEXT" in page.text
        form = {**page.form("guide"), "guidance": "Begin with the file."}
        for _double_click in range(2):
            assert browser.post("/do/guide", form).status == 303
        after = browser.get("/gated")
        assert "/do/guide" not in after.html
        assert "Guidance that the agent has Begin with the file." in after.text
        late = browser.post("/do/guide", {**form, "operation_id": "op-1-0000000000000000"})
        assert "does not wait for guidance" in late.text
    with agent.world.app.record.read() as view:
        assert [each.event.kind for each in view.journal()].count("workflow_resumed") == 1
    assert "A person says: Begin with the file." in agent.call("get_task")["task"]


def test_steps_and_their_proof_are_shown_as_the_agent_works(tmp_path: Path) -> None:
    agent: Agent = stepping(tmp_path / "repo")
    with served(agent.world.root) as server, visit(agent.world.root, server) as browser:
        first = browser.get("/gated")
        assert "RED Say it, RED now" in first.text
        assert "Nothing has been judged yet." in first.text
        assert 'class="present"' in first.html
        agent.red("tests/test_one.sh", TEST_ONE)
        red = browser.get("/gated")
        assert "1/2 steps" in red.text
        assert "GREEN Say it, GREEN now" in red.text
        assert "went red" in red.text
        assert "tests/test_one.sh" in red.text
        agent.green("src/said.txt", "one\n")
        green = browser.get("/gated")
    (known,) = agent.world.ok("gated.status")["workflows"]
    assert "2/2 steps" in green.text
    assert f"green full gates, default tree {known['tree'][:12]}" in green.text
