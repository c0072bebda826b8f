"""inbox.ask_path: a guarded path is opened by a person's yes, for one feature and one path, until the feature ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from tests.kernel.tools.worlds import configured, events, force, patch_of
from tests.world import World, files, plan_for, run_aop

GUARDED = {"protected_areas": ["src/secret", ".github"]}
OPENED = "src/secret/key.txt"
BESIDE = "src/secret/other.txt"


@pytest.fixture
def guarded(tmp_path: Path) -> Any:
    world = configured(tmp_path / "repo", policy=GUARDED)
    world.init()
    yield world
    world.close()


def ask(world: World, path: str = OPENED, feature: str = "one") -> str:
    answer = world.call_as_worker(
        "inbox.ask_path", Role.BUILDER, feature, feature_id=feature, path=path, reason="It must."
    )
    assert answer.ok, answer.error
    question: str = answer.data["question_id"]
    return question


def answer(world: World, text: str, question: str = "q1", feature: str = "one") -> None:
    world.ok("inbox.answer", feature_id=feature, question_id=question, answer=text)


def planned(world: World, *paths: str, feature: str = "one") -> Any:
    plan = plan_for(feature, files=files(create=paths))
    return world.call("plan.submit", role=Role.PLANNER, feature_id=feature, plan_json=plan)


def patched(world: World, path: str, feature: str = "one") -> Any:
    diff = patch_of(path, "one")
    return world.call("repo.apply_patch", role=Role.BUILDER, feature_id=feature, unified_diff=diff)


def code_of(answer: Any) -> str | None:
    return None if answer.error is None else answer.error["code"]


@pytest.mark.req("AOP-173")
def test_a_yes_opens_the_path_that_was_asked_for_and_no_other(guarded: World) -> None:
    assert code_of(planned(guarded, OPENED)) == "protected_path"
    assert ask(guarded) == "q1"
    answer(guarded, "yes")
    assert code_of(planned(guarded, OPENED, BESIDE)) == "protected_path"
    assert code_of(planned(guarded, OPENED)) is None
    assert code_of(patched(guarded, OPENED)) is None
    assert code_of(patched(guarded, BESIDE)) == "protected_path"
    assert code_of(patched(guarded, OPENED.upper())) == "protected_path"


def test_a_yes_opens_the_path_for_the_feature_that_asked_and_for_no_other(guarded: World) -> None:
    guarded.init("two")
    ask(guarded)
    answer(guarded, "yes")
    assert code_of(planned(guarded, OPENED, feature="two")) == "protected_path"


def test_the_question_names_feature_path_and_reason_and_has_two_answers(guarded: World) -> None:
    ask(guarded)
    [question] = guarded.ok("inbox.list")["questions"]
    assert (question["gate"], question["choices"], question["opens"]) == ("authorisation", ["yes", "no"], OPENED)
    assert question["text"] == (
        f"The builder of `one` needs to change `{OPENED}`, although it lies in a protected area. `yes` opens this path"
        " for this feature until it ends. Its reason: It must."
    )
    error = guarded.refusal("inbox.answer", feature_id="one", question_id="q1", answer="perhaps")
    assert error["code"] == "not_a_choice"


def test_a_no_keeps_the_path_closed_and_nobody_is_asked_again(guarded: World) -> None:
    ask(guarded)
    answer(guarded, "no")
    assert code_of(planned(guarded, OPENED)) == "protected_path"
    again = guarded.refusal("inbox.ask_path", feature_id="one", path=OPENED, reason="Please.")
    assert (again["code"], again["message"]) == (
        "protected_path",
        f"`{OPENED}` may not be changed: a person was asked, and answered no.",
    )


def test_who_asks_again_while_the_question_is_open_gets_the_same_one_and_afterwards_the_answer(guarded: World) -> None:
    assert [ask(guarded), ask(guarded)] == ["q1", "q1"]
    answer(guarded, "yes")
    known = guarded.ok("inbox.ask_path", feature_id="one", path=OPENED, reason="It must.")
    assert (known["question_id"], known["is_open"]) == ("q1", True)
    assert guarded.ok("inbox.list")["questions"] == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("agentic/orchestrator/policy.yaml", "protected_path"),
        (".AOP/record.db", "protected_path"),
        ("src/a.txt", "invalid_arguments"),
        ("src/secret/*", "path_out_of_bounds"),
        ("../outside", "path_out_of_bounds"),
        ("", "invalid_arguments"),
    ],
)
def test_nobody_is_asked_about_what_no_answer_opens(guarded: World, path: str, code: str) -> None:
    error = guarded.refusal("inbox.ask_path", feature_id="one", path=path, reason="It must.")
    assert error["code"] == code


@pytest.mark.parametrize("role", [Role.PLANNER, Role.BUILDER, Role.QA, Role.ORCHESTRATOR])
def test_no_token_of_an_agent_grants_anything(guarded: World, role: Role) -> None:
    ask(guarded)
    given = {"feature_id": "one", "question_id": "q1", "answer": "yes"}
    assert code_of(guarded.call_as_worker("inbox.answer", role, "one", **given)) == "forbidden_tool_for_role"
    disguised: Any = {"gate": "authorisation", "text": "Tea?", "detail": {"path": OPENED}, "choices": ["yes", "no"]}
    guarded.ok("inbox.ask", feature_id="one", **disguised)
    answer(guarded, "yes", "q2")
    assert code_of(planned(guarded, OPENED)) == "protected_path"


@pytest.mark.parametrize("end", ["failed", "deleted"])
def test_what_was_opened_is_closed_when_the_feature_ends(guarded: World, end: str) -> None:
    ask(guarded)
    answer(guarded, "yes")
    if end == "deleted":
        guarded.ok("feature.delete", feature_id="one", dry_run=False, worktree=True, branch=True)
        guarded.init()
    else:
        version = guarded.ok("feature.state_get", feature_id="one")["version"]
        failed = {"status": "failed", "status_reason": "It cannot be done."}
        guarded.ok("feature.state_patch", feature_id="one", expected_version=version, patch=failed)
        guarded.ok("feature.retry", feature_id="one")
        [said] = guarded.ok("report.feature_summary", feature_id="one")["path_answers"]
        assert said["ended"] == "The feature became `failed`."
    assert code_of(planned(guarded, OPENED)) == "protected_path"
    assert ask(guarded) == "q2"


def test_a_feature_that_has_ended_asks_for_nothing(guarded: World) -> None:
    force(guarded, status="failed")
    error = guarded.refusal("inbox.ask_path", feature_id="one", path=OPENED, reason="It must.")
    assert error["code"] == "invalid_status_transition"


def test_the_answer_is_in_the_journal_and_in_the_review_and_a_person_gives_it_at_the_terminal(guarded: World) -> None:
    ask(guarded)
    assert "aop answer q1 yes|no" in run_aop(guarded.root, "inbox").out
    assert run_aop(guarded.root, "answer", "q1", "yes").code == 0
    assert events(guarded)[-2:] == ["question_answered", "path_opened"]
    assert code_of(planned(guarded, OPENED)) is None
    guarded.patch(diff=patch_of(OPENED, "one"))
    [said] = guarded.ok("report.feature_summary", feature_id="one")["path_answers"]
    assert {name: said[name] for name in ("path", "reason", "question_id", "answer", "ended")} == {
        "path": OPENED,
        "reason": "It must.",
        "question_id": "q1",
        "answer": "yes",
        "ended": "",
    }
    shown = run_aop(guarded.root, "review", "one", "--no-pager").out
    assert f"  {OPENED}: opened for this feature, " in shown
    assert "    Its reason: It must." in shown


def test_the_merge_of_a_feature_ends_what_was_opened_for_it(guarded: World) -> None:
    ask(guarded)
    answer(guarded, "yes")
    planned(guarded, OPENED)
    guarded.patch(diff=patch_of(OPENED, "one"))
    for mode in ("fast", "full"):
        guarded.ok("gates.run", feature_id="one", mode=mode)
    guarded.ok("feature.ready_to_merge", feature_id="one", user_approval_token=guarded.approval())
    [said] = guarded.ok("report.feature_summary", feature_id="one")["path_answers"]
    assert said["ended"] == "The feature became `merged`."
