"""How a pull request ends: gates that fail late, a base that moved, a conflict, and the last one of a plan."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.gated.agents import PLAN, RUN, TEST_ONE, Agent, active_pr, begun, stepping
from tests.gated.test_base_branch import pushed, tip, with_remote
from tests.kernel.tools.worlds import gates_of
from tests.world import World, git, run_aop

ALONE: dict[str, Any] = {"merge_policy": {"require_user_approval": False}}


def finished(agent: Agent) -> Agent:
    """Take a pull request to its end, before the merge."""
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.green("src/said.txt", "one\n")
    agent.task()
    agent.finish("Say one")
    return agent


def with_plan(root: Path) -> Agent:
    """Start the workflow of a repository that exists, with its first step served."""
    world = World(root)
    world.ok("gated.start", feature_id="gated")
    agent = Agent(world)
    agent.plan(active_pr("feat: Say one", "Say it"))
    agent.task()
    return agent


def add_gate(root: Path) -> None:
    """Commit one more gate on the base branch, which wants a file."""
    unit = {"name": "unit", "cmd": ["sh", "run.sh"]}
    tidy = {"name": "tidy", "cmd": ["sh", "-c", "grep -q '' src/tidy.txt"]}
    parsers = {"tests": {"type": "junit_xml", "path": "reports/junit.xml"}}
    gates = gates_of(*([unit, tidy] for _mode in range(3)), parsers=parsers)
    (root / "agentic/orchestrator/gates.yaml").write_text(gates)
    git(root, "commit", "-qam", "Another gate")


@pytest.mark.req("GATED-90")
def test_gates_that_fail_on_the_finished_pull_request_are_debugged_and_reviewed_again(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.green("src/said.txt", "one\n")
    agent.task()
    agent.submit()
    told = agent.call("get_task")["task"]
    commit = re.search(r"\[DONE\] ([0-9a-f]{40})", told)
    assert commit is not None
    agent.write(PLAN, agent.content(PLAN)[0].replace(": Say one\n", f": Say one [DONE] {commit[1]}\n"))
    root = agent.world.root
    add_gate(root)
    judged = agent.call("submit_work", summary="Marked.")
    assert (judged["status"], "src/tidy.txt" in judged["output"]) == ("FAILURE", True)
    told = agent.call("get_task")
    assert (told["status"], "gates pass on the finished pull request" in told["task"]) == ("DEBUGGING", True)
    assert "[DONE]" not in agent.content(PLAN)[0]
    agent.green("src/tidy.txt", "tidy\n")
    assert agent.call("get_task")["status"] == "AWAITING_FINALIZATION"
    agent.finish("Say one")
    assert agent.call("get_task")["status"] == "MERGING_BRANCH"
    assert git(root, "rev-list", "--count", "main~1..feat/say-one").strip() == "2"


@pytest.mark.req("GATED-96")
def test_the_base_branch_is_brought_up_to_its_remote_before_the_merge(tmp_path: Path) -> None:
    root, colleague = with_remote(tmp_path, **ALONE)
    agent = finished(with_plan(root))
    new = pushed(colleague)
    assert agent.call("get_task")["status"] == "INITIALIZING"
    assert git(root, "rev-parse", "main^1").strip() == new
    assert git(root, "show", "main:src/said.txt", "main:src/new.txt") == "one\nnew\n"


def test_a_base_branch_that_went_another_way_than_its_remote_is_told_and_nothing_is_merged(tmp_path: Path) -> None:
    root, colleague = with_remote(tmp_path, **ALONE)
    agent = finished(with_plan(root))
    git(root, "commit", "-q", "--allow-empty", "-m", "Ours")
    ours = tip(root, "main")
    pushed(colleague)
    told = agent.call("get_task")
    assert (told["status"], tip(root, "main")) == ("MERGING_BRANCH", ours)
    assert "`main` and its remote have diverged: bring them together before the merge." in told["task"]
    git(root, "fetch", "-q", "origin")
    git(root, "merge", "-q", "--no-edit", "origin/main")
    assert agent.call("get_task")["status"] == "INITIALIZING"


def commands_of(told: str) -> list[str]:
    """Return the commands that a message names, each on its line."""
    return [line for line in told.splitlines() if line.startswith(("git ", "rm ", "aop "))]


def followed(root: Path, command: str) -> None:
    """Do what a line of the message says, as a person in the repository."""
    words = shlex.split(command)
    if words[0] == "aop":
        assert run_aop(root, *words[1:]).code == 0
    elif words[0] == "git":
        git(root, *words[1:], check=words[1] != "merge")
    else:
        subprocess.run(words, cwd=root, check=True)


@pytest.mark.req("GATED-98")
def test_the_words_of_a_halted_workflow_lead_to_the_next_pull_request(tmp_path: Path) -> None:
    agent = finished(stepping(tmp_path / "repo"))
    root = agent.world.root
    (root / "src/said.txt").write_text("three\n")
    git(root, "commit", "-qam", "Say three")
    halted = agent.call("get_task")
    assert halted["status"] == "HALTED"
    commands = commands_of(halted["task"])
    assert [command.partition(" ")[0] for command in commands] == ["git"] * 6 + ["rm", "aop"]
    for command in commands[:2]:
        followed(root, command)
    assert git(root, "diff", "--name-only", "--diff-filter=U") == "src/said.txt\n"
    (root / "src/said.txt").write_text("one and three\n")
    for command in commands[2:]:
        followed(root, command)
    assert git(root, "show", "main:src/said.txt") == "one and three\n"
    assert git(root, "branch", "--list", "feat/*") == ""
    told = agent.call("get_task")
    assert (told["status"], told["notes"]) == ("INITIALIZING", [])
    agent.plan(active_pr("feat: Say two", "Say it too"))
    assert agent.task() == "Your goal: complete the next TDD step: RED: Say it too, RED"


def test_a_halted_workflow_stays_halted_while_its_branch_exists(tmp_path: Path) -> None:
    agent = finished(stepping(tmp_path / "repo"))
    root = agent.world.root
    (root / "src/said.txt").write_text("three\n")
    git(root, "commit", "-qam", "Say three")
    agent.task()
    git(root, "checkout", "-q", "feat/say-one")
    git(root, "commit", "-q", "--allow-empty", "-m", "A person resolves it here")
    by_hand = tip(root, "feat/say-one")
    assert agent.world.ok("gated.start", feature_id="gated")["status"] == "HALTED"
    assert agent.call("get_task")["status"] == "HALTED"
    assert tip(root, "feat/say-one") == by_hand


def test_after_the_last_pull_request_there_is_nothing_to_do_until_the_plan_has_more(tmp_path: Path) -> None:
    plan = "# Plan\n\n### Pull Request #1: Say one\n"
    agent = finished(stepping(tmp_path / "repo", extra={PLAN: plan}, **ALONE))
    done = "Your goal: none; every pull request of the master plan is done and merged. Stop here."
    told = agent.call("get_task")
    assert (told["task"], told["status"], told["next_call"]) == (done, "INITIALIZING", "get_task")
    assert agent.task() == done
    root = agent.world.root
    git(root, "reset", "-q", "--hard")
    (root / PLAN).write_text((root / PLAN).read_text() + "\n### Pull Request #2: Say two\n")
    git(root, "commit", "-qam", "More to say")
    assert agent.task().startswith("Your goal: choose the next pull request of the master plan")


@pytest.mark.req("GATED-96")
@pytest.mark.parametrize("policy", [ALONE, {}], ids=["by-itself", "by-a-person"])
def test_a_merge_carries_the_title_of_its_pull_request(tmp_path: Path, policy: dict[str, Any]) -> None:
    agent = finished(stepping(tmp_path / "repo", **policy))
    agent.task()
    if not policy:
        token = agent.world.approval("gated")
        agent.world.ok("feature.ready_to_merge", feature_id="gated", user_approval_token=token)
    assert git(agent.world.root, "log", "-1", "--format=%s", "main") == "feat: Say one\n"


@pytest.mark.req("GATED-15", "GATED-16", "GATED-24")
def test_every_status_is_written_and_the_output_of_a_passing_command_is_returned(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    shown = json.loads((agent.world.root / ".worktrees/gated/ACTIVE_PR.json").read_text())
    (task,) = shown["tasks"]
    assert (task["status"], [step["status"] for step in task["tdd_steps"]]) == ("IN_PROGRESS", ["TODO", "TODO"])
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.write("src/said.txt", "one\n")
    judged = agent.judged(test_command="sh -x run.sh", expectation="PASS")
    assert (judged["status"], judged["output"].count("tests/test_one.sh: 0"), "+ exit 0" in judged["output"]) == (
        "SUCCESS",
        3,
        True,
    )


@pytest.mark.req("GATED-03", "GATED-23")
def test_a_turn_has_one_attempt_and_says_what_it_expects(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.write("tests/test_one.sh", TEST_ONE)
    work = {"summary": "Red.", "test_command": RUN}
    assert agent.refused("submit_work", **work) == "invalid_arguments"
    assert agent.refused("submit_work", **work, expectation="PASS") == "invalid_arguments"
    assert agent.submit(test_command=RUN, expectation="FAIL") == "NEEDS_ANALYSIS"
    assert agent.submit(analysis_decision="FAILURE") == "FAILURE"
    assert agent.refused("submit_work", **work, expectation="FAIL") == "out_of_step"
    agent.task()
    assert agent.call("submit_work", **work, expectation="FAIL")["status"] == "NEEDS_ANALYSIS"


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (("RED", "GREEN", "RED"), "The plan ends with a RED step, and so with a test that fails."),
        (("RED",), "The plan ends with a RED step, and so with a test that fails."),
        (("REFACTOR",), "The plan has no RED step, so no test asks for what it adds."),
        (("GREEN",), "The task `Say it` has a GREEN step without a RED step before it."),
    ],
    ids=["ends-with-red", "only-red", "no-red", "only-green"],
)
def test_a_plan_without_a_test_or_with_one_that_fails_at_its_end_is_refused(
    tmp_path: Path, steps: tuple[str, ...], says: str
) -> None:
    agent = begun(tmp_path / "repo")
    agent.write("ACTIVE_PR.json", active_pr("feat: Say one", "Say it", steps=steps))
    judged = agent.judged()
    assert (judged["status"], judged["output"].startswith(says)) == ("FAILURE", True)
    assert agent.call("get_task")["status"] == "INITIALIZING"
