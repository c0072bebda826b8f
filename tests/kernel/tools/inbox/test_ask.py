"""inbox.*: what only a person can answer, how long they are waited for, and that silence is no yes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.core.clock import timestamp
from aop.core.roles import Role
from aop.kernel.config.people import InboxRules
from aop.kernel.record.documents.questions import reminders_due
from tests.clocks import NOON, clocked
from tests.kernel.tools.worlds import configured, events
from tests.world import World, git, run_aop

HOUR = 3600.0


def ask(world: World, feature: str = "one", **words: Any) -> str:
    given = {"gate": "question", "text": "Which colour?", **words}
    question: str = world.ok("inbox.ask", feature_id=feature, **given)["question_id"]
    return question


def expire(world: World, question: str = "q1") -> Any:
    return world.ok("inbox.expire", role=Role.SYSTEM, feature_id="one", question_id=question)


def open_questions(world: World) -> list[str]:
    return [each["question_id"] for each in world.ok("inbox.list")["questions"]]


# --- approvals -------------------------------------------------------------------------------------


def test_a_ready_feature_is_in_the_inbox_until_a_person_has_approved_it_as_it_is(world: World) -> None:
    world.ready()
    tree = world.ok("repo.status", feature_id="one")["tree"]
    [wanted] = world.ok("inbox.list")["approvals"]
    assert (wanted["feature_id"], wanted["tree"]) == ("one", tree)
    assert wanted["commands"] == ["aop review one", "aop merge one"]
    assert "one      approval" in run_aop(world.root, "inbox", env={"COLUMNS": "140"}).out
    world.approval()
    assert world.ok("inbox.list")["approvals"] == []
    (world.root / "src/c.txt").write_text("The base moves on.\n")
    git_commit(world)
    assert [each["feature_id"] for each in world.ok("inbox.list")["approvals"]] == ["one"]


def git_commit(world: World) -> None:
    git(world.root, "add", "src/c.txt")
    git(world.root, "commit", "-qm", "Go on")


def test_a_worker_sees_the_questions_and_approvals_of_its_own_feature_only(world: World) -> None:
    world.ready()
    world.init("two")
    ask(world, "two")
    seen = world.call_as_worker("inbox.list", Role.BUILDER, "two").data
    assert ([each["feature_id"] for each in seen["questions"]], seen["approvals"]) == (["two"], [])


def test_nobody_asks_for_an_approval_by_hand(world: World) -> None:
    world.init()
    error = world.refusal("inbox.ask", feature_id="one", gate="approval", text="May I?")
    assert error["code"] == "invalid_arguments"


# --- questions -------------------------------------------------------------------------------------


def test_while_a_question_about_something_is_open_nobody_asks_it_again(world: World) -> None:
    world.init("one")
    world.init("two")
    about = {"gate": "authorisation", "about": "cost:run:1:usd", "choices": ["raise", "stop"]}
    assert [ask(world, "one", **about), ask(world, "two", **about), ask(world, "two")] == ["q1", "q1", "q2"]
    world.ok("inbox.answer", feature_id="one", question_id="q1", answer="stop")
    assert ask(world, "two", **about) == "q3"


def test_no_agent_words_a_question_whose_answer_would_raise_a_cap_or_open_a_frozen_test(world: World) -> None:
    world.init("one")
    asked = {"gate": "question", "text": "Go on?", "about": "cost:feature:one:usd", "default": "raise"}
    answer = world.call_as_worker("inbox.ask", Role.ORCHESTRATOR, "one", feature_id="one", **asked)
    assert answer.error is not None
    assert answer.error["code"] == "forbidden_tool_for_role"
    assert open_questions(world) == []


def test_the_questions_of_a_deleted_feature_are_closed_and_their_names_are_not_used_again(world: World) -> None:
    world.init()
    ask(world)
    world.ok("feature.delete", feature_id="one", dry_run=False)
    assert open_questions(world) == []
    world.init()
    assert ask(world) == "q2"
    error = world.refusal("inbox.answer", feature_id="one", question_id="q1", answer="Blue")
    assert error["message"] == "The question `q1` is closed: Its feature was deleted."


def test_what_a_worker_asks_cannot_steer_a_terminal(world: World) -> None:
    world.init()
    ask(world, text="Which\ncolour\x1b[2J?")
    header, _, titles, row = run_aop(world.root, "inbox", env={"COLUMNS": "140"}).out.splitlines()
    assert header == "repo on main | no supervisor | 1 open question, 0 approvals"
    assert titles.split() == ["ID", "FEATURE", "KIND", "ASKED", "QUESTION"]
    assert row.split("  ")[0] == "q1"
    assert row.endswith(" ago  Which colour\\u{1b}[2J?  aop answer q1 TEXT")


# --- time limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gate", "default", "ends"),
    [
        ("question", "Blue", ("Blue", "time limit", "")),
        ("question", None, (None, "", "Nobody answered in time.")),
        ("escalation", "Blue", (None, "", "Nobody answered in time.")),
        ("authorisation", "raise", (None, "", "Nobody answered in time.")),
    ],
)
def test_when_the_time_is_up_a_question_takes_its_default_answer_and_silence_permits_nothing(
    tmp_path: Path, gate: str, default: str | None, ends: tuple[str | None, str, str]
) -> None:
    limits = {f"{name}_timeout_hours": 2 for name in ("question", "escalation", "authorisation")}
    world = configured(tmp_path / "repo", policy={"inbox": limits})
    clock = clocked(world)
    world.init()
    ask(world, gate=gate, default=default)
    clock.go_on(2 * HOUR - 1)
    assert (expire(world)["answer"], open_questions(world)) == (None, ["q1"])
    clock.go_on(1)
    closed = expire(world)
    assert (closed["answer"], closed["answered_by"], closed["closed_because"]) == ends
    assert (expire(world), open_questions(world)) == (closed, [])
    assert world.refusal("inbox.answer", feature_id="one", question_id="q1", answer="Red")["code"] == "already_answered"
    assert events(world).count("question_expired") == 1
    world.close()


def test_a_question_whose_time_is_up_is_over_for_whoever_looks_although_no_supervisor_runs(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy={"inbox": {"question_timeout_hours": 2}})
    clock = clocked(world)
    world.init()
    ask(world, default="Blue")
    [row] = world.ok("report.dashboard")["features"]
    assert (row["asks"], row["out_of_time"], open_questions(world)) == (["q1"], [], ["q1"])
    clock.go_on(2 * HOUR)
    [row] = world.ok("report.dashboard")["features"]
    assert (row["asks"], row["out_of_time"], open_questions(world)) == ([], ["q1"], [])
    [shown] = world.ok("inbox.list", answered=True)["questions"]
    late = world.call("inbox.answer", feature_id="one", question_id="q1", answer="Red")
    assert late.error is not None
    assert (late.error["code"], late.error["details"]["answer"]) == ("already_answered", "Blue")
    assert events(world)[-1] == "question_expired"
    assert world.ok("inbox.list", answered=True)["questions"] == [shown] == [expire(world)]
    assert shown["answered_at"] == shown["due_at"]
    assert world.ok("report.dashboard")["features"][0]["out_of_time"] == []
    world.close()


def test_the_commands_say_that_a_question_is_over(tmp_path: Path) -> None:
    world = configured(tmp_path / "repo", policy={"inbox": {"question_timeout_hours": 2}})
    clocked(world).wall = datetime(2020, 1, 1, tzinfo=UTC)
    world.init()
    ask(world)
    world.close()
    assert run_aop(world.root, "inbox").err.startswith("The inbox is empty: nothing waits for a person.")
    status = run_aop(world.root, "status", env={"COLUMNS": "140"}).out
    assert status.splitlines()[-1].endswith("  q1 was not answered in time  aop resume")
    late = run_aop(world.root, "answer", "q1", "Red")
    assert (late.code, "is closed: Nobody answered in time." in late.err) == (1, True)
    assert "Nobody answered in time." in run_aop(world.root, "inbox", "--answered").out


def test_without_a_time_limit_a_question_stays_open(world: World) -> None:
    clock = clocked(world)
    world.init()
    ask(world, default="Blue")
    clock.go_on(10_000 * HOUR)
    assert (expire(world)["due_at"], open_questions(world)) == ("", ["q1"])


# --- reminders -------------------------------------------------------------------------------------

RULES = InboxRules(
    question_timeout_hours=0,
    escalation_timeout_hours=0,
    authorisation_timeout_hours=0,
    remind_after_minutes=30,
    remind_multiplier=2,
    remind_max_minutes=120,
)


@pytest.mark.parametrize(
    ("minutes", "due"), [(-5, 0), (0, 0), (29, 0), (30, 1), (89, 1), (90, 2), (209, 2), (210, 3), (330, 4), (450, 5)]
)
def test_reminders_come_after_waits_that_grow_up_to_a_limit(minutes: int, due: int) -> None:
    assert reminders_due(RULES, timestamp(NOON), NOON + timedelta(minutes=minutes)) == due


def test_reminders_can_be_switched_off_and_be_regular() -> None:
    later = NOON + timedelta(minutes=95)
    for change, due in (({"remind_after_minutes": 0}, 0), ({"remind_multiplier": 1}, 3)):
        assert reminders_due(msgspec.structs.replace(RULES, **change), timestamp(NOON), later) == due
