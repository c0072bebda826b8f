"""Agents that want a step, a test or a plan to count that does not: what they try, and what they get."""

from __future__ import annotations

from pathlib import Path

import pytest

from aop.gated.machine.master_plan import PullRequest, is_done, mark_problem, pull_requests
from tests.gated.agents import NOTHING, PLAN, RUN, RUNNER, TEST_ONE, active_pr, begun, stepping
from tests.kernel.tools.worlds import patch_of

REPORT = """\
mkdir -p reports
echo '<testsuite><testcase name="a">{0}</testcase></testsuite>' > reports/junit.xml
exit {1}
"""
FAILS, PASSES = REPORT.format("<failure/>", 1), REPORT.format("", 0)


def test_a_command_that_ends_as_the_agent_likes_makes_no_step_done(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.write("tools/red.sh", FAILS)
    judged = agent.judged(test_command="sh tools/red.sh", expectation="FAIL")
    assert (judged["status"], judged["output"].split(",")[0]) == ("FAILURE", "This step added or changed no test file")
    agent.write("tests/test_one.sh", "exit 0\n")
    assert agent.submit(test_command="sh tools/red.sh", expectation="FAIL") == "NEEDS_ANALYSIS"
    assert agent.submit(analysis_decision="SUCCESS") == "SUCCESS"
    agent.write("tools/green.sh", PASSES)
    judged = agent.judged(test_command="sh tools/green.sh", expectation="PASS")
    assert (judged["status"], judged["output"].split(",")[0]) == ("FAILURE", "The gates pass without the fix too")


def test_what_a_frozen_test_compares_with_cannot_be_made_to_fit(tmp_path: Path) -> None:
    """The file is as old as the base; it is a test's, and frozen like the tests of the base."""
    agent = stepping(tmp_path / "repo", extra={"tests/data/want.txt": "one\n"})
    agent.red("tests/test_one.sh", "cmp src/said.txt tests/data/want.txt\n")
    sha = agent.content("tests/data/want.txt")[1]
    diff = patch_of("tests/data/want.txt", "nothing", old=("one",))
    patch = {"file_path": "tests/data/want.txt", "unified_diff": diff, "base_content_sha256": sha}
    assert agent.refused("safe_patch", **patch) == "frozen_test"


def test_a_fix_that_keeps_the_tests_from_being_run_is_none(tmp_path: Path) -> None:
    runner = RUNNER.replace("do\n", "do\n  grep -qs $test settings.txt && continue\n", 1)
    agent = stepping(tmp_path / "repo", extra={"run.sh": runner})
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.write("settings.txt", "deselect = tests/test_one.sh\n")
    judged = agent.judged(test_command=RUN, expectation="PASS")
    assert (judged["status"], judged["output"].splitlines()[-1]) == (
        "FAILURE",
        "These tests went red, and the gates do not run and pass them: `tests/test_one.sh`.",
    )


def test_a_test_that_went_red_keeps_its_name_and_its_mode_in_later_steps(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo", steps=("RED", "GREEN", "RED", "GREEN"))
    new = patch_of("tests/test_one.sh", *TEST_ONE.splitlines())
    program = new.replace("--- ", "diff --git a/tests/test_one.sh b/tests/test_one.sh\nnew file mode 100755\n--- ", 1)
    agent.call("safe_patch", file_path="tests/test_one.sh", unified_diff=program, base_content_sha256=NOTHING)
    agent.red("tests/test_two.sh", "test -e src/two.txt\n")
    agent.write("src/said.txt", "one\n")
    agent.green("src/two.txt", "two\n")
    agent.task()
    sha = agent.content("tests/test_one.sh")[1]
    modes = "diff --git a/tests/test_one.sh b/tests/test_one.sh\nold mode 100755\nnew mode 100644\n"
    gone = patch_of("tests/test_one.sh", old=tuple(TEST_ONE.splitlines())).replace(
        "+++ b/tests/test_one.sh", "+++ /dev/null"
    )
    for diff in (modes, gone.replace("+1,0", "+0,0")):
        patch = {"file_path": "tests/test_one.sh", "unified_diff": diff, "base_content_sha256": sha}
        assert agent.refused("safe_patch", **patch) == "frozen_test"


def test_a_link_a_submodule_or_settings_of_git_take_the_place_of_no_test(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    for path, mode, line in [
        ("tests/test_one.sh", "120000", "/bin/true"),
        ("tests/test_one", "160000", f"Subproject commit {'1' * 40}"),
        ("tests/.gitattributes", "100644", "* text eol=crlf"),
        ("tests/pytest.toml", "100644", "[pytest]"),
    ]:
        header = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n"
        diff = header + patch_of(path, line)
        code = agent.refused("safe_patch", file_path=path, unified_diff=diff, base_content_sha256=NOTHING)
        assert code in ("invalid_patch", "protected_path"), path


def test_a_plan_that_is_not_the_one_to_be_worked_through_is_not_accepted(tmp_path: Path) -> None:
    agent = begun(tmp_path / "repo")
    for text, says in [
        (active_pr("feat: Say one", "Say it").replace(PLAN, "README.md"), f"`masterPlanPath` must be `{PLAN}`."),
        (active_pr("e", "Say it"), "`prTitle` must be the title of a pull request that the master plan has not marked"),
        (
            active_pr("Say two", "Say it", steps=("GREEN", "RED")),
            "The task `Say it` has a GREEN step without a RED step",
        ),
    ]:
        agent.write("ACTIVE_PR.json", text)
        judged = agent.judged()
        assert (judged["status"], judged["output"][: len(says)]) == ("FAILURE", says)
    agent.write("ACTIVE_PR.json", active_pr("feat(x): please say TWO.", "Say it"))
    assert agent.submit() == "SUCCESS"
    agent.task()
    text, sha = agent.content(PLAN)
    diff = patch_of(PLAN, "# Plan", old=tuple(text.splitlines()))
    assert agent.refused("safe_patch", file_path=PLAN, unified_diff=diff, base_content_sha256=sha) == "out_of_step"


PLANNED = """\
## Pull Requests
```
### Pull Request #9: An example
```
### Pull Request #1: Say one [DONE] abcdef1
### 2. Pull Request: feat: Say `two`
### PR 3 - Say three
#### **Pull Request #4: Show [DONE] in lists**
### PR guidelines
- [ ] Pull Request #1: Say one
"""


def test_pull_requests_are_recognised_by_their_headings_or_else_by_their_points() -> None:
    found = [(each.title, each.is_done) for each in pull_requests(PLANNED)]
    assert found == [
        ("Say one", True),
        ("feat: Say `two`", False),
        ("Say three", False),
        ("Show [DONE] in lists", False),
    ]
    points = "- [x] PR 1: One\n- [ ] **Pull Request #2:** Two\n1. Pull Request 3: Three [DONE]\n- [ ] [RED] PR\n"
    two = PullRequest(line=1, title="Two", is_done=False)
    assert [each for each in pull_requests(points) if not each.is_done] == [two]
    assert (is_done(points), is_done(points.replace("[ ]", "[x]")), is_done("# Plan\n")) == (False, True, False)


@pytest.mark.parametrize(
    ("line", "becomes", "problem"),
    [
        ("### PR 3 - Say three", "### PR 3 - Say three [DONE] abc1234", ""),
        ("### PR 3 - Say three", "### PR 3 - Say three [DONE] abc1235", "Only add this to the end of the line: [DONE]"),
        ("### PR 3 - Say three", "### PR 3 - Say 3 [DONE] abc1234", "Only add this to the end of the line: [DONE]"),
        ("### 2. Pull", "### 2. Pull [DONE] abc1234", "Change exactly one line of the master plan"),
        ("### PR guidelines", "### PR guidelines [DONE] abc1234", "That line is not the heading of"),
        ("Say `two`", "Say `two` [DONE] abc1234", "That line is not the heading of"),
    ],
)
def test_only_the_heading_of_the_pull_request_is_marked(line: str, becomes: str, problem: str) -> None:
    after = PLANNED.replace(line, becomes) + ("More.\n" if problem.startswith("Change") else "")
    said = mark_problem(PLANNED, after, "feat: Say three", "abc1234" + "0" * 33)
    assert said.startswith(problem)
    assert bool(said) is bool(problem)


def test_a_point_of_a_list_may_be_ticked_when_it_is_marked() -> None:
    plan = "- [ ] Pull Request #1: Say one\n- [ ] Pull Request #2: Say two\n"
    marked = plan.replace("- [ ] Pull Request #1: Say one", "- [x] Pull Request #1: Say one [DONE] abc1234")
    assert mark_problem(plan, marked, "Say one", "abc1234") == ""
