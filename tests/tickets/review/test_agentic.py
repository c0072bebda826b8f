"""The agentic review: when it is chosen, its tools, and large diffs in parts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aop.brains.budgets import LoopLimits
from aop.core.errors import ModelUnavailable
from aop.reviews.report import ReviewVerdict
from aop.testing.scripted_model import ScriptedModel, Step, answers, calls, says
from aop.tickets.loop.tool_policy import REVIEWER_MAY, TOOLS
from aop.tickets.mission.blocks import review_params_block
from aop.tickets.review.diff_parts import diff_excerpts
from tests.tickets.mission.test_blocks import BLOCK, PARAMS, fenced
from tests.tickets.review.test_pipeline import WHOLE, Reviewed, finding, report, reviewed
from tests.tickets.scaffold.test_agentic import observed
from tests.tickets.scaffold.test_pipeline import DESTRUCTIVE, SETTINGS

MARKED = f"{fenced(BLOCK)}\n\n{review_params_block(PARAMS)}".replace(
    "code_review_params:\n", "code_review_params:\n  mode: agentic\n"
)
AGENTIC_CALLS = [*WHOLE[:-2], *["get_mcp_tools"] * 3, *WHOLE[-2:]]
LINES = 40


def large_diff(files: int = 3) -> str:
    return "".join(
        f"diff --git a/src/f{at}.py b/src/f{at}.py\nnew file mode 100644\nindex {'0' * 40}..{'a' * 40}\n"
        f"--- /dev/null\n+++ b/src/f{at}.py\n@@ -0,0 +1,{LINES} @@\n"
        + "".join(f"+line_{at}_{line} = {line}\n" for line in range(1, LINES + 1))
        for at in range(1, files + 1)
    )


def agentic(around: Reviewed, *replies: Step, **limits: Any) -> tuple[Any, ScriptedModel]:
    settings = msgspec.structs.replace(SETTINGS, limits=LoopLimits(**{"max_cost_usd": 1.0, **limits}))
    return reviewed(around, *replies, description=MARKED, settings=settings)


@pytest.mark.req("REV-02", "REV-24", "REV-57", "REV-58", "REV-65", "REV-67", "REV-69")
def test_a_review_that_is_marked_agentic_makes_these_calls() -> None:
    around = Reviewed()
    ending, model = agentic(around, answers(report(finding("src/a.py", 2))))
    assert (ending["outcome"], ending["mode"], around.calls) == ("reviewed", "AGENTIC_ACT_LOOP", AGENTIC_CALLS)
    assert len(model.asked) == 1
    assert [each.line_number for each in around.published[0].findings] == [2]


@pytest.mark.req("REV-06", "REV-59", "REV-60", "REV-71")
def test_the_model_may_only_read() -> None:
    _, model = agentic(Reviewed(), answers(report()))
    assert [offer.name for offer in model.asked[0].tools] == [
        "tracker_tracker_get_ticket", "vcs_vcs_get_project", "vcs_vcs_get_branch", "vcs_vcs_list_tree",
        "vcs_vcs_read_file", "vcs_vcs_list_merge_requests", "vcs_vcs_get_merge_request", "vcs_vcs_list_notes",
        "docs_docs_search", "docs_docs_get_page",
    ]  # fmt: skip
    assert not any(tool.writes for tool in TOOLS if tool.operation in REVIEWER_MAY)


@pytest.mark.req("REV-59", "REV-66", "REV-71")
@pytest.mark.parametrize("tool", [*DESTRUCTIVE, "vcs_vcs_create_branch", "vcs_vcs_push_files", "vcs_vcs_add_note"])
def test_what_writes_is_refused_when_it_is_called_all_the_same(tool: str) -> None:
    around = Reviewed()
    ending, model = agentic(around, calls((tool, {})), answers(report()))
    assert (ending["outcome"], around.calls) == ("reviewed", AGENTIC_CALLS)
    assert "There is no tool" in observed(model)[0]


@pytest.mark.req("REV-65", "REV-66")
def test_python_reads_for_the_model_within_the_merge_request() -> None:
    around = Reviewed()
    reads = calls(
        ("vcs_vcs_get_merge_request", {}), ("vcs_vcs_get_merge_request", {"number": "4"}),
        ("vcs_vcs_read_file", {"ref": "main", "path": "a.py", "project": "8"}),
    )  # fmt: skip
    _, model = agentic(around, reads, answers(report()))
    assert [call for call in around.calls if call.startswith("execute_tool")] == [
        'execute_tool vcs_get_merge_request {"number":3,"project":"7"}'
    ]
    told = observed(model)
    assert ["`number` is fixed by" in told[1], "`project` is fixed by" in told[2]] == [True, True]


@pytest.mark.req("REV-61", "REV-62", "REV-63")
def test_the_mission_states_goal_constraints_and_when_it_ends() -> None:
    _, model = agentic(Reviewed(), answers(report()), max_iterations=7, max_cost_usd=0.5)
    told = f"{model.asked[0].instructions}\n{model.asked[0].turns[0]}"
    for words in (
        "Goal: a review of part 1 of 1", "Nothing destructive", "No secrets", "Keep to the standards",
        "after 7 replies", "0.50 US dollars", "also if you could not find out everything", "b = eval(a)",
    ):  # fmt: skip
        assert words in told


@pytest.mark.req("REV-22")
def test_a_diff_that_is_too_large_for_one_question_is_reviewed_in_parts() -> None:
    around = Reviewed(diff=large_diff())
    settings = msgspec.structs.replace(SETTINGS, max_diff_chars=900)
    parts = [answers(report(finding(f"src/f{at}.py", at))) for at in (1, 2, 3)]
    ending, model = reviewed(around, *parts, settings=settings)
    assert (ending["mode"], len(model.asked)) == ("AGENTIC_ACT_LOOP", 3)
    assert [(each.file_path, each.line_number) for each in around.published[0].findings] == [
        ("src/f1.py", 1), ("src/f2.py", 2), ("src/f3.py", 3),
    ]  # fmt: skip
    shown = "".join(str(request.turns[0]) for request in model.asked)
    assert all(f"line_{at}_{line} = {line}\\n" in shown for at in (1, 2, 3) for line in range(1, LINES + 1))


@pytest.mark.req("REV-64", "REV-68")
def test_a_part_that_nobody_reviewed_is_named_and_nothing_is_approved() -> None:
    around = Reviewed(diff=large_diff())
    settings = msgspec.structs.replace(SETTINGS, max_diff_chars=900, limits=LoopLimits(max_iterations=2))
    fine = answers(report(verdict=ReviewVerdict.APPROVE))
    ending, _ = reviewed(around, fine, says("Hm."), says("Hm."), fine, settings=settings)
    assert (ending["outcome"], ending["report"]["verdict"]) == ("reviewed", "COMMENT")
    assert "**Not reviewed:**\n- `src/f2.py`: The model stopped before it was done" in around.notes[-1].body
    assert "Not reviewed: 1 part of the diff" in around.written[-1]


@pytest.mark.req("REV-63", "REV-68")
@pytest.mark.parametrize(
    ("limits", "replies", "cause"),
    [
        ({"max_iterations": 2}, [calls(("vcs_vcs_get_project", {}))] * 9, "iterations"),
        ({"max_cost_usd": 0.0002}, [calls(("vcs_vcs_get_project", {}))] * 9, "cost"),
        ({"max_tokens": 200}, [calls(("vcs_vcs_get_project", {}))] * 9, "tokens"),
        ({"max_seconds": 0.0}, [calls(("vcs_vcs_get_project", {}))] * 9, "time"),
        ({}, [says("Looks fine."), says("Really.")], "talked"),
        ({}, [ModelUnavailable("It is down.")], "model_unavailable"),
    ],
)
def test_a_model_that_hands_in_nothing_is_a_failure_that_the_ticket_hears_of(
    limits: dict[str, Any], replies: list[Step], cause: str
) -> None:
    around = Reviewed()
    ending, _ = agentic(around, *replies, **limits)
    assert (ending["outcome"], ending["error"]["details"]["cause"], around.published) == ("failed", cause, [])
    assert around.calls[-1] == "add_comment"
    assert "To fix it: " in around.written[-1]


def test_the_cost_of_all_parts_together_is_limited() -> None:
    around = Reviewed(diff=large_diff(9))
    settings = msgspec.structs.replace(SETTINGS, max_diff_chars=900, limits=LoopLimits(max_cost_usd=0.0003))
    ending, model = reviewed(around, *[answers(report())] * 9, settings=settings)
    assert (len(model.asked), len(ending["report"]["unreviewed"])) == (3, 6)


@pytest.mark.req("REV-23")
@pytest.mark.parametrize("fails_once", ["get_merge_request_diff", "publish_review", "get_architecture_context 42"])
def test_a_model_recovers_what_the_fixed_steps_could_not_do(fails_once: str) -> None:
    around = Reviewed(fails_once=fails_once)
    settings = msgspec.structs.replace(SETTINGS, recovery_enabled=True)
    ending, _ = reviewed(around, *[answers(report(finding("src/a.py", 2)))] * 2, settings=settings)
    failed_at = WHOLE.index(fails_once)
    again = ["add_comment", *AGENTIC_CALLS[1:]]
    assert (ending["outcome"], around.calls) == ("reviewed", [*WHOLE[: failed_at + 1], *again])
    assert len(around.notes) == 2


def test_what_cannot_be_reviewed_is_not_tried_again() -> None:
    around = Reviewed(state="merged")
    settings = msgspec.structs.replace(SETTINGS, recovery_enabled=True)
    ending, model = reviewed(around, settings=settings)
    assert (ending["error"]["code"], model.asked) == ("merge_request_not_reviewable", [])


@pytest.mark.parametrize("most", [60, 200, 900, 2_000, 1_000_000])
def test_parts_hold_every_line_of_a_diff_and_say_where_they_are(most: int) -> None:
    diff = large_diff()
    parts = diff_excerpts(diff, most)
    lines = [line for part in parts for line in part.text.splitlines() if line.startswith("+line")]
    assert lines == [line for line in diff.splitlines() if line.startswith("+line")]
    assert all(part.text.startswith("diff --git a/src/f") and part.files for part in parts)
    if most > 200:
        assert all(len(part.text) <= most for part in parts)


def test_a_hunk_that_is_cut_says_at_which_line_it_goes_on() -> None:
    second = diff_excerpts(large_diff(1), 500)[1]
    number = second.text.partition("from line ")[2].partition(" ")[0]
    assert f"+line_1_{number} = {number}\n" in second.text
