"""What people and other agents do to a workflow: they help too late, and they work on the same plan."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.gated.driver import Drive, DriveLimits, TurnInput, TurnOutput
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.tokens import TokenOrder
from tests.clocks import clocked
from tests.gated.agents import PLAN, RUN, Agent, active_pr, begun, stepping

FEW = {"hypothesize_max": 1, "instrumentation_max": 1, "unlock_scope_reduction_at": 2, "unlock_escalation_at": 2}

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def held_by(root: Path) -> list[Path]:
    """Return the files that hold the secret."""
    return [path for path in root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def escalated(root: Path) -> Agent:
    agent = stepping(root, gated=FEW, inbox={"escalation_timeout_hours": 1})
    for _ in range(2):
        agent.submit(test_command=RUN, expectation="FAIL")
    agent.call("escalate_for_external_help", markdown_report="# Stuck\n")
    return agent


def test_a_call_for_help_that_nobody_answered_in_time_can_be_answered_all_the_same(tmp_path: Path) -> None:
    agent = escalated(tmp_path / "repo")
    world = agent.world
    clocked(world).wall = datetime(2100, 1, 1, tzinfo=UTC)
    (asked,) = world.ok("gated.status")["workflows"]
    assert world.ok("inbox.list")["questions"] == []
    assert agent.task().startswith("Your goal: none at this moment")
    assert world.ok("gated.resume", feature_id="gated", guidance="Write a test.") == {
        "feature_id": "gated",
        "status": "DEBUGGING",
        "question_id": asked["question_id"],
        "guidance": "Write a test.",
    }
    assert "A person says: Write a test." in agent.call("get_task")["task"]


def test_a_secret_in_a_call_for_help_is_neither_kept_nor_told(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo", gated=FEW)
    for _ in range(2):
        agent.submit(test_command=RUN, expectation="FAIL")
    told: list[str] = []
    gateway = agent.world.app.gateway
    who = Principal(role=Role.SWE, actor="swe:gated", features=frozenset({FeatureId("gated")}))
    report = {"markdown_report": f"# Stuck with {SECRET}"}
    answer = gateway.call(who, "escalate_for_external_help", report, report=told.append)
    assert answer.data["markdown_report"] == "# Stuck with [redacted:github-token]"
    assert told == ["# Stuck with [redacted:github-token]"]
    assert held_by(agent.world.root) == []


def test_a_test_command_that_holds_a_secret_is_refused_and_not_kept(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    work = {"summary": "Done.", "test_command": f"{RUN} {SECRET}", "expectation": "FAIL"}
    assert agent.refused("submit_work", **work) == "secret_detected"
    assert held_by(agent.world.root) == []


@pytest.mark.hostile("K05")
def test_a_file_whose_name_is_a_secret_is_not_changed_and_the_answers_do_not_repeat_it(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    diff = f"--- /dev/null\n+++ b/src/{SECRET}.txt\n@@ -0,0 +1 @@\n+x\n"
    asked = {"file_path": f"src/{SECRET}.txt", "base_content_sha256": sha256(b"").hexdigest(), "unified_diff": diff}
    for tool, arguments in (("safe_patch", asked), ("read_file", {"file_path": f"src/{SECRET}.txt"})):
        answer = agent.world.app.gateway.call(by_token(agent)[0], tool, arguments)
        assert not answer.ok
        assert SECRET not in str(answer)
    assert held_by(agent.world.root) == []


class Talker:
    """An agent that only says something."""

    provider, model = "custom", None

    def turn(self, given: TurnInput) -> TurnOutput:
        return TurnOutput(note=f"The token is {SECRET}.")


def test_what_an_agent_says_of_its_turn_is_told_without_secrets(tmp_path: Path) -> None:
    agent, told = stepping(tmp_path / "repo"), list[str]()
    allowed = DriveLimits(turns=1, seconds=60)
    Drive(agent.world.app.gateway, FeatureId("gated"), Talker(), allowed, told.append).to_the_end()
    assert told == ["turn 1: The token is [redacted:github-token]."]


def test_help_is_answered_once(tmp_path: Path) -> None:
    agent = escalated(tmp_path / "repo")
    question = agent.world.ok("gated.status")["workflows"][0]["question_id"]
    agent.world.ok("inbox.answer", feature_id="gated", question_id=question, answer="Think.")
    assert agent.world.refusal("gated.resume", feature_id="gated", guidance="Rest.")["code"] == "already_answered"
    assert "A person says: Think." in agent.call("get_task")["task"]
    assert agent.world.refusal("gated.resume", feature_id="gated", guidance="Rest.")["code"] == "out_of_step"


def by_token(agent: Agent) -> tuple[Principal, str]:
    handed = agent.world.app.tokens.issue(TokenOrder(role=Role.SWE, feature_id=FeatureId("gated")), by="ada")
    return agent.world.app.tokens.principal(handed.text), handed.token.token_id


def test_the_second_of_two_agents_on_one_plan_is_told(tmp_path: Path) -> None:
    agent = begun(tmp_path / "repo")
    gateway, tokens = agent.world.app.gateway, agent.world.app.tokens
    (first, first_id), (second, second_id) = by_token(agent), by_token(agent)
    told = [gateway.call(who, "get_task", {}).data["notes"] for who in (first, first, second, second, first)]
    note = "Another agent works on this plan, with the token `{}`. One of you must stop."
    assert told == [[], [], [note.format(first_id)], [], [note.format(second_id)]]
    tokens.revoke(first_id, by="ada")
    assert gateway.call(second, "get_task", {}).data["notes"] == []


def test_a_second_workflow_on_a_plan_that_is_being_worked_through_is_refused(tmp_path: Path) -> None:
    agent = begun(tmp_path / "repo")
    agent.world.ok("gated.start", feature_id="other")
    agent.plan(active_pr("feat: Say one", "Say it"))
    error = agent.world.refusal("gated.start", feature_id="third")
    assert error["code"] == "agent_at_work"
    assert error["message"] == "The workflow `gated` already works on `docs/Plan_Doc/Active_Plan.md`."


def test_what_was_asked_is_closed_when_a_person_begins_again(tmp_path: Path) -> None:
    agent = escalated(tmp_path / "repo")
    agent.world.ok("gated.reset", feature_id="gated")
    assert agent.world.ok("inbox.list")["questions"] == []
    (question,) = agent.world.ok("inbox.list", answered=True)["questions"]
    assert (question["answer"], question["closed_because"]) == (None, "The workflow was started over.")
    assert agent.call("get_task")["status"] == "INITIALIZING"


def test_two_agents_that_call_for_help_at_the_same_moment_get_two_numbers(tmp_path: Path) -> None:
    first = stepping(tmp_path / "repo", gated=FEW)
    first.world.ok("gated.start", feature_id="other", master_plan="docs/other.md")
    second = Agent(first.world, "other")
    second.plan(active_pr("feat: Say two", "Say it").replace(PLAN, "docs/other.md"))
    second.task()
    for agent in (first, second):
        agent.submit(test_command="true", expectation="FAIL")
        agent.submit(test_command="true", expectation="FAIL")
    who = Principal(role=Role.SWE, actor="swe:gated", features=frozenset({FeatureId("gated")}))
    numbers: list[str] = []

    def meanwhile(_line: str) -> None:
        """What the first one asks is told just before it is stored; the second one is faster."""
        answer = second.call("escalate_for_external_help", markdown_report="# Stuck too\n")
        numbers.append(answer["question_id"])

    report = {"markdown_report": "# Stuck\n"}
    answer = first.world.app.gateway.call(who, "escalate_for_external_help", report, report=meanwhile)
    assert [*numbers, answer.data["question_id"]] == ["q1", "q2"]
    asked = {each["question_id"]: each["text"] for each in first.world.ok("inbox.list")["questions"]}
    assert asked == {"q1": "# Stuck too\n", "q2": "# Stuck\n"}
