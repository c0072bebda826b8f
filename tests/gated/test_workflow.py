"""The tool-gated workflow through the gateway, on a real repository: what one agent may do, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aop.core.ids import OperationId
from aop.core.roles import Role
from aop.kernel.contracts.schemas import tool_schemas
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.port import Operation
from aop.wiring.catalogue import CATALOGUE
from tests.gated.agents import APPROVE, NOTHING, PLAN, RUN, TEST_ONE, Agent, active_pr, begun, stepping
from tests.kernel.tools.worlds import gates_of, patch_of, step
from tests.world import World, git

ORCHESTRATOR = Role.ORCHESTRATOR


@pytest.mark.req("GATED-19", "GATED-22", "GATED-39", "GATED-65", "GATED-99", "GATED-100")
def test_a_workflow_begins_with_the_plan_of_a_pull_request(tmp_path: Path) -> None:
    agent = begun(tmp_path / "repo")
    first = agent.call("get_task")
    assert (first["status"], first["next_call"]) == ("INITIALIZING", "submit_work")
    assert PLAN in first["task"]
    assert agent.call("get_task") == first
    worktree = agent.world.root / ".worktrees/gated"
    assert json.loads((worktree / "ORCHESTRATION_STATE.json").read_text())["status"] == "INITIALIZING"
    assert git(worktree, "status", "--porcelain") == ""
    assert git(worktree, "symbolic-ref", "-q", "HEAD", check=False) == ""


@pytest.mark.req("GATED-13", "GATED-17", "GATED-40", "GATED-41", "GATED-66", "GATED-68")
def test_a_plan_that_is_accepted_gets_its_branch_and_its_first_step(tmp_path: Path) -> None:
    agent = begun(tmp_path / "repo")
    agent.write("ACTIVE_PR.json", "{")
    assert agent.submit() == "FAILURE"
    agent.plan(active_pr("feat: Say one", "Say it"))
    served = agent.call("get_task")
    assert served["task"].startswith("Your goal: complete the next TDD step: RED: Say it, RED")
    worktree = agent.world.root / ".worktrees/gated"
    assert git(worktree, "symbolic-ref", "HEAD") == "refs/heads/feat/say-one\n"
    assert git(worktree, "status", "--porcelain") == ""
    shown = json.loads((worktree / "ORCHESTRATION_STATE.json").read_text())
    assert (shown["status"], shown["current_pr_branch"]) == ("EXECUTING_TDD", "feat/say-one")
    assert json.loads((worktree / "ACTIVE_PR.json").read_text())["tasks"][0]["status"] == "IN_PROGRESS"


def test_a_branch_that_somebody_else_made_is_never_taken(tmp_path: Path) -> None:
    agent = begun(tmp_path / "repo")
    git(agent.world.root, "branch", "feat/say-one")
    agent.plan(active_pr("feat: Say one", "Say it"))
    assert agent.refused("get_task") == "branch_exists"


@pytest.mark.req("GATED-24", "GATED-26", "GATED-28", "GATED-30", "GATED-33", "GATED-34", "GATED-44", "GATED-70")
def test_red_then_green_then_refactor_with_a_checkpoint_after_each_pass(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo", steps=("RED", "GREEN", "REFACTOR"))
    agent.red("tests/test_one.sh", TEST_ONE)
    assert agent.task() == "Your goal: complete the next TDD step: GREEN: Say it, GREEN"
    agent.write("src/said.txt", "one\n")
    assert agent.submit(test_command=RUN, expectation="PASS") == "SUCCESS"
    assert agent.refused("submit_work", summary="More.", test_command=RUN) == "out_of_step"
    assert agent.task() == "Your goal: make a safety checkpoint of the step that passed: GREEN: Say it, GREEN"
    assert agent.submit(summary="It says one.") == "SUCCESS"
    root = agent.world.root
    assert git(root, "log", "--format=%s", "main..feat/say-one") == "GREEN: Say it, GREEN\n"
    assert git(root, "show", "feat/say-one:src/said.txt") == "one\n"
    assert agent.task() == "Your goal: complete the next TDD step: REFACTOR: Say it, REFACTOR"
    assert agent.world.ok("repo.status", feature_id="gated")["branch"] == "feat/say-one"


@pytest.mark.req("GATED-23")
def test_submit_work_takes_a_summary_and_what_proves_it() -> None:
    taken, _answered = tool_schemas(CATALOGUE["submit_work"])
    own = {"summary", "test_command", "expectation", "analysis_decision", "commit_hash"}
    common = {"actor_type", "actor_id", "operation_id"}
    assert (set(taken["properties"]) - common, taken["required"]) == (own, ["summary"])


@pytest.mark.req("GATED-27", "GATED-32", "GATED-76")
def test_what_is_not_its_turn_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    before = agent.world.fingerprint()
    codes = [
        agent.refused("submit_work", summary="Done."),
        agent.refused("submit_work", summary="Done.", analysis_decision="SUCCESS"),
        agent.refused("submit_work", summary="Done.", test_command="sh run.sh; true", expectation="FAIL"),
        agent.refused("submit_work", summary="Done.", test_command="sh 'run.sh", expectation="FAIL"),
        agent.refused("submit_work", summary="Done.", test_command=RUN, expectation="PASS"),
        agent.refused("request_scope_reduction"),
        agent.refused("escalate_for_external_help", markdown_report="# Help"),
        agent.refused("read_file", file_path="../../README.md"),
        agent.refused("read_file", file_path="no/such.txt"),
    ]
    assert codes == [
        "test_command_missing",
        "analysis_not_pending",
        "invalid_arguments",
        "invalid_arguments",
        "invalid_arguments",
        "tool_locked",
        "tool_locked",
        "path_out_of_bounds",
        "file_not_found",
    ]
    assert agent.world.fingerprint() == before


@pytest.mark.req("GATED-100")
def test_the_agent_looks_at_its_worktree_and_at_nothing_else(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    assert "ACTIVE_PR.json" in agent.call("list_directory")["entries"]
    assert agent.call("list_directory", path="tests")["entries"] == ["test_begin.sh"]
    found = agent.call("search_code", query="Say two")
    assert [(each["path"], each["line"]) for each in found["matches"]] == [(PLAN, 7)]
    read = agent.call("read_file", file_path="src/said.txt")
    assert (read["content"], read["next_call"]) == ("nothing\n", "safe_patch or submit_work")


def test_a_patch_of_another_content_changes_nothing_and_shows_what_is_there(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    diff = patch_of("src/said.txt", "one", old=("nothing",))
    answer = agent.call("safe_patch", file_path="src/said.txt", unified_diff=diff, base_content_sha256=NOTHING)
    assert (answer["success"], answer["latest_file_state"]["content"]) == (False, "nothing\n")
    assert agent.content("src/said.txt")[0] == "nothing\n"


@pytest.mark.req("GATED-21", "GATED-31", "GATED-36", "GATED-45", "GATED-46", "GATED-47", "GATED-48", "GATED-72")
def test_a_failure_is_debugged_until_it_passes(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.write("src/said.txt", "two\n")
    assert [agent.submit(test_command=RUN, expectation="PASS") for _ in range(3)] == ["FAILURE"] * 3
    told = agent.call("get_task")
    assert told["status"] == "DEBUGGING"
    assert "Use instrumentation" in told["task"]
    assert "tests/test_one.sh: 1" in told["task"]
    agent.green("src/said.txt", "one\n")
    assert agent.world.ok("gated.status", role=ORCHESTRATOR)["workflows"][0]["debug_attempt_counter"] == 0


@pytest.mark.req("GATED-49", "GATED-50", "GATED-51", "GATED-74", "GATED-78", "GATED-79", "GATED-80", "GATED-81")
def test_after_six_failures_everything_goes_back_and_a_finer_plan_is_wanted(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.write("src/said.txt", "two\n")
    for _ in range(6):
        agent.submit(test_command=RUN, expectation="PASS")
    worktree = agent.world.root / ".worktrees/gated"
    (worktree / "stray.txt").write_text("Left about.\n")
    told = agent.call("request_scope_reduction")
    assert told["status"] == "REPLANNING"
    assert told["task"].startswith("Your goal: everything since the last checkpoint was reverted")
    assert sorted(path.name for path in worktree.iterdir() if path.suffix in (".json", ".txt")) == [
        "ACTIVE_PR.json",
        "ORCHESTRATION_STATE.json",
    ]
    assert agent.content("src/said.txt")[0] == "nothing\n"
    assert agent.submit() == "FAILURE"
    finer = json.loads(active_pr("feat: Say one", "Say o", "Verify that it is said"))
    finer["tasks"][0]["breakdownHistory"] = {"originalTaskName": "Say it", "justification": "It was too much."}
    agent.write("ACTIVE_PR.json", json.dumps(finer))
    assert agent.submit() == "SUCCESS"
    assert agent.task() == "Your goal: complete the next TDD step: RED: Say o, RED"


@pytest.mark.req("GATED-75", "GATED-83", "GATED-84", "GATED-85")
def test_a_person_is_called_after_ten_failures_and_goes_on_with_guidance(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    for _ in range(10):
        agent.submit(test_command=RUN, expectation="FAIL")
    report = "# Stuck\n\nIt passes.\n"
    asked = agent.call("escalate_for_external_help", markdown_report=report)
    assert (asked["markdown_report"], asked["status"]) == (report, "DEBUGGING")
    assert agent.refused("submit_work", summary="Done.", test_command=RUN) == "workflow_escalated"
    assert agent.task() == (
        "Your goal: none at this moment; a person was asked for help. Stop here, and call `get_task` when told to."
    )
    agent.world.ok("inbox.answer", feature_id="gated", question_id=asked["question_id"], answer="Write a test first.")
    assert "A person says: Write a test first." in agent.call("get_task")["task"]


def at_review(agent: Agent) -> None:
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.green("src/said.txt", "one\n")


@pytest.mark.req("GATED-43", "GATED-52", "GATED-54", "GATED-55", "GATED-57", "GATED-58", "GATED-59", "GATED-93")
@pytest.mark.req("GATED-60", "GATED-94", "GATED-95", "GATED-97")
def test_a_pull_request_is_merged_when_a_person_approved_it_and_the_next_begins(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    at_review(agent)
    told = agent.call("get_task")
    assert told["status"] == "AWAITING_FINALIZATION"
    assert "git reset --soft" in told["task"]
    commit = agent.finish("Say one")
    assert agent.call("get_task")["status"] == "MERGING_BRANCH"
    root = agent.world.root
    assert git(root, "log", "--format=%s", "main..feat/say-one") == (
        "docs: mark `feat: Say one` as done\nfeat: Say one\n"
    )
    agent.world.ok("evidence.verify")
    for tool in ("repo.diff_bundle", "report.feature_summary"):
        agent.world.ok(tool, feature_id="gated")
    token = agent.world.approval("gated")
    agent.world.ok("feature.ready_to_merge", feature_id="gated", user_approval_token=token)
    following = agent.call("get_task")
    assert (following["status"], following["next_call"]) == ("INITIALIZING", "submit_work")
    assert git(root, "show", "main:src/said.txt") == "one\n"
    assert git(root, "branch", "--list", "feat/*", "gated") == ""
    assert f"[DONE] {commit}" in git(root, "show", f"main:{PLAN}")
    assert git(root, "merge-base", "--is-ancestor", commit, "main") == ""
    agent.plan(active_pr("feat: Say two", "Say it too"))
    assert agent.task() == "Your goal: complete the next TDD step: RED: Say it too, RED"
    assert agent.world.ok("repo.status", feature_id="gated")["branch"] == "feat/say-two"


@pytest.mark.req("GATED-60", "GATED-96")
def test_it_merges_by_itself_only_where_the_policy_says_so(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo", merge_policy={"require_user_approval": False})
    at_review(agent)
    agent.task()
    agent.finish("Say one")
    assert agent.call("get_task")["status"] == "INITIALIZING"
    assert git(agent.world.root, "show", "main:src/said.txt") == "one\n"


@pytest.mark.req("GATED-61", "GATED-62", "GATED-98")
def test_a_conflict_halts_the_workflow_and_leaves_the_repository_clean(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    at_review(agent)
    agent.task()
    agent.finish("Say one")
    root = agent.world.root
    (root / "src/said.txt").write_text("three\n")
    git(root, "commit", "-qam", "Say three")
    halted = agent.call("get_task")
    assert halted["status"] == "HALTED"
    assert "Resolve it in branch 'feat/say-one' and merge to main by hand" in halted["task"]
    assert agent.refused("submit_work", summary="Done.") == "workflow_halted"
    assert git(root, "status", "--porcelain") == ""
    agent.world.ok("gated.reset", feature_id="gated")
    assert agent.call("get_task")["status"] == "INITIALIZING"


def test_a_merge_without_a_person_that_meets_a_conflict_leaves_no_operation_pending(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo", merge_policy={"require_user_approval": False})
    at_review(agent)
    agent.task()
    agent.finish("Say one")
    root = agent.world.root
    (root / "src/said.txt").write_text("three\n")
    git(root, "commit", "-qam", "Say three")
    assert agent.call("get_task")["status"] == "HALTED"
    with agent.world.app.gateway.kernel.record.read() as view:
        assert view.pending_operations() == ()


@pytest.mark.req("GATED-53", "GATED-87", "GATED-89", "GATED-90", "GATED-91")
def test_what_the_reviewer_finds_becomes_a_task_and_is_reviewed_again(tmp_path: Path) -> None:
    finding = (
        '{"file_path": "src/said.txt", "severity": "MINOR", "description": "No end.", "recommendation": "Add it."}'
    )
    found = f'{{"verdict": "REQUEST_CHANGES", "summary": "Not yet.", "findings": [{finding}]}}'
    reviewer = f"if grep -q 'end of it' \"$AOP_REVIEW_INPUT\"; then echo '{APPROVE}'; else echo '{found}'; fi"
    agent = stepping(tmp_path / "repo", reviewer=reviewer)
    at_review(agent)
    assert agent.task() == "Your goal: complete the next TDD step: GREEN: src/said.txt: No end. Add it."
    agent.green("src/end.txt", "end of it\n")
    assert agent.call("get_task")["status"] == "AWAITING_FINALIZATION"


@pytest.mark.req("GATED-92")
@pytest.mark.parametrize(
    "reviewer", ["exit 3", "echo fine", "true", 'echo \'{"verdict": "REQUEST_CHANGES", "summary": "No."}\'']
)
def test_a_reviewer_that_gives_no_report_approves_nothing(tmp_path: Path, reviewer: str) -> None:
    agent = stepping(tmp_path / "repo", reviewer=reviewer)
    at_review(agent)
    told = agent.call("get_task")
    assert (told["status"], told["next_call"]) == ("CODE_REVIEW", "get_task")


@pytest.mark.req("GATED-86", "GATED-87", "GATED-88")
def test_the_reviewer_gets_its_persona_the_plan_and_the_whole_change(tmp_path: Path) -> None:
    sought = ("temporary logs", "So that it is said", "+one", "tests/test_one.sh")
    found = " && ".join(f"grep -qF '{text}' \"$AOP_REVIEW_INPUT\"" for text in sought)
    agent = stepping(tmp_path / "repo", reviewer=f"{found} && echo '{APPROVE}'")
    at_review(agent)
    assert agent.call("get_task")["status"] == "AWAITING_FINALIZATION"
    assert agent.content(".aop-review.json")[0] == ""


@pytest.mark.req("GATED-33", "GATED-35", "GATED-37")
def test_a_step_is_done_by_the_preflight_profile_alone(tmp_path: Path) -> None:
    strict = {"modes": {"fast": step("true"), "full": step("echo Not tidy.; exit 3")}}
    agent = stepping(tmp_path / "repo", gates=gates_of(others={"preflight": strict}))
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.write("src/said.txt", "one\n")
    judged = agent.judged(test_command=RUN, expectation="PASS")
    assert (judged["status"], "Not tidy." in judged["output"]) == ("FAILURE", True)
    facts = agent.world.ok("gated.status")["workflows"][0]
    assert (facts["status"], facts["debug_attempt_counter"]) == ("DEBUGGING", 1)


@pytest.mark.req("GATED-38")
def test_a_test_command_runs_as_gates_do_with_a_log_and_without_the_servers_environment(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    judged = agent.call("submit_work", summary="Looking.", test_command="env", expectation="FAIL")
    assert ("PATH=" in judged["output"], "PYTEST_CURRENT_TEST" in judged["output"]) == (True, False)
    with agent.world.app.record.read() as view:
        (run,) = view.all(GateRun)
    assert [each.command for each in run.steps] == [("env",)]
    assert "PATH=" in (agent.world.root / run.steps[0].log_path).read_text()


@pytest.mark.req("GATED-10", "GATED-11", "GATED-12")
def test_the_live_status_is_shown_word_for_word(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    said = "echo 'He said \"no\"'\nexit 1\n"
    agent.write("tests/test_one.sh", said)
    pending = agent.call("submit_work", summary="Red.", test_command=RUN, expectation="FAIL")
    shown = json.loads((agent.world.root / ".worktrees/gated/ORCHESTRATION_STATE.json").read_text())
    assert shown["pending_analysis"]["output"] == pending["output"]
    assert 'He said "no"' in pending["output"]
    assert agent.submit(analysis_decision="FAILURE") == "FAILURE"
    shown = json.loads((agent.world.root / ".worktrees/gated/ORCHESTRATION_STATE.json").read_text())
    assert (shown["status"], shown["debug_attempt_counter"], shown["last_error"]) == ("DEBUGGING", 1, pending["output"])


# --- agents that cheat ----------------------------------------------------------------------------


@pytest.mark.parametrize("test", ["", "exit 77\n", "exit 0\n"], ids=["deletes", "skips", "weakens"])
def test_a_test_that_went_red_cannot_be_weakened(tmp_path: Path, test: str) -> None:
    agent = stepping(tmp_path / "repo")
    agent.red("tests/test_one.sh", TEST_ONE)
    old, sha = agent.content("tests/test_one.sh")
    diff = patch_of("tests/test_one.sh", *test.splitlines(), old=tuple(old.splitlines()))
    if not test:
        diff = diff.replace("+++ b/tests/test_one.sh", "+++ /dev/null").replace("+1,0", "+0,0")
    patch = {"file_path": "tests/test_one.sh", "unified_diff": diff, "base_content_sha256": sha}
    assert agent.refused("safe_patch", **patch) == "frozen_test"
    assert agent.call("safe_patch", **patch, reason="It is wrong.")["success"] is False
    agent.world.ok("inbox.answer", feature_id="gated", question_id="q1", answer="refuse")
    assert agent.refused("safe_patch", **patch) == "frozen_test"


def test_a_person_may_let_a_test_be_changed_that_went_red(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.red("tests/test_one.sh", TEST_ONE)
    better = TEST_ONE.replace("one", "two")
    assert agent.write("tests/test_one.sh", better, reason="It was to be two.")["success"] is False
    agent.world.ok("inbox.answer", feature_id="gated", question_id="q1", answer="grant")
    # What was granted is what was shown, and nothing else.
    sha = agent.content("tests/test_one.sh")[1]
    other = patch_of("tests/test_one.sh", "exit 0", old=tuple(TEST_ONE.splitlines()))
    patch = {"file_path": "tests/test_one.sh", "unified_diff": other, "base_content_sha256": sha}
    assert agent.refused("safe_patch", **patch) == "frozen_test"
    assert agent.write("tests/test_one.sh", better)["success"]
    agent.green("src/said.txt", "two\n")


def test_red_by_an_error_is_not_red(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.write("tests/test_one.sh", "exit 2\n")
    judged = agent.judged(test_command=RUN, expectation="FAIL")
    assert judged["status"] == "FAILURE"
    assert judged["output"].startswith("A test broke before it could fail")


@pytest.mark.req("GATED-29")
@pytest.mark.parametrize("command", [RUN, "false", "echo passed"])
def test_a_red_step_without_a_test_that_fails_is_a_failure(tmp_path: Path, command: str) -> None:
    agent = stepping(tmp_path / "repo")
    assert agent.submit(test_command=command, expectation="FAIL") == "FAILURE"


@pytest.mark.parametrize("command", [RUN, "true", "echo passed"])
def test_a_green_step_that_changed_nothing_is_a_failure(tmp_path: Path, command: str) -> None:
    agent = stepping(tmp_path / "repo")
    agent.red("tests/test_one.sh", TEST_ONE)
    assert agent.submit(test_command=command, expectation="PASS") == "FAILURE"


@pytest.mark.parametrize(
    "path", ["conftest.py", "pytest.ini", "package.json", "ORCHESTRATION_STATE.json", ".git/config"]
)
def test_what_steers_the_tests_or_the_server_is_not_the_agents(tmp_path: Path, path: str) -> None:
    agent = stepping(tmp_path / "repo")
    sha = agent.content(path)[1]
    patch = {"file_path": path, "unified_diff": patch_of(path, "x"), "base_content_sha256": sha}
    assert agent.refused("safe_patch", **patch) in ("protected_path", "path_out_of_bounds")
    assert agent.refused("safe_patch", **{**patch, "file_path": "ACTIVE_PR.json"}) == "out_of_step"


@pytest.mark.req("GATED-07", "GATED-12", "GATED-102")
def test_state_files_that_somebody_edited_are_named_and_written_again(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    shown = agent.world.root / ".worktrees/gated/ORCHESTRATION_STATE.json"
    right = shown.read_text()
    shown.write_text('{"status": "MERGING_BRANCH"}')
    judged = agent.call("submit_work", summary="Done.", test_command=RUN)
    assert (judged["status"], judged["notes"]) == (
        "FAILURE",
        ["`ORCHESTRATION_STATE.json` differed from the record and was written again."],
    )
    assert shown.read_text() == right


@pytest.mark.parametrize(
    "words", [["commit", "-q", "--allow-empty", "-m", "x"], ["checkout", "-q", "--detach", "HEAD~0"]]
)
def test_a_ref_that_moved_without_the_server_is_a_named_failure(tmp_path: Path, words: list[str]) -> None:
    agent = stepping(tmp_path / "repo")
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.green("src/said.txt", "one\n")
    worktree = agent.world.root / ".worktrees/gated"
    before = git(worktree, "rev-parse", "feat/say-one")
    git(worktree, *words)
    judged = agent.call("submit_work", summary="Done.", test_command=RUN)
    assert judged["status"] == "FAILURE"
    assert judged["notes"]
    assert git(worktree, "rev-parse", "feat/say-one") == before
    assert git(worktree, "symbolic-ref", "HEAD") == "refs/heads/feat/say-one\n"


def test_a_file_that_was_changed_behind_the_server_takes_no_part(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.red("tests/test_one.sh", TEST_ONE)
    (agent.world.root / ".worktrees/gated/src/said.txt").write_text("one\n")
    judged = agent.judged(test_command=RUN, expectation="PASS")
    assert judged["status"] == "FAILURE"
    assert "`src/said.txt` was not changed with `safe_patch`" in judged["output"]


# --- people beside it ------------------------------------------------------------------------------------


def test_a_person_goes_back_to_an_earlier_tree_and_the_agent_goes_on_from_there(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.write("src/said.txt", "two\n")
    agent.world.ok("feature.undo", feature_id="gated", to="0")
    agent.task()
    assert agent.content("src/said.txt")[0] == "nothing\n"


def test_a_workflow_whose_feature_was_deleted_begins_again_when_a_person_says_so(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.world.ok("feature.delete", feature_id="gated", dry_run=False)
    assert agent.refused("get_task") == "no_workflow"
    agent.world.ok("gated.reset", feature_id="gated")
    assert agent.call("get_task")["status"] == "INITIALIZING"


# --- what a killed server leaves -----------------------------------------------------------------------


@pytest.mark.req("GATED-05", "GATED-64")
def test_a_call_that_died_after_it_moved_the_branch_is_taken_back_and_made_again(tmp_path: Path) -> None:
    agent = stepping(tmp_path / "repo")
    agent.red("tests/test_one.sh", TEST_ONE)
    agent.write("src/said.txt", "one\n")
    assert agent.submit(test_command=RUN, expectation="PASS") == "SUCCESS"
    root, old = agent.world.root, git(agent.world.root, "rev-parse", "feat/say-one").strip()
    new = git(root, "commit-tree", "-m", "Half-way", "-p", old, f"{old}^{{tree}}").strip()
    dead = Operation(operation_id=OperationId("op-dead"), tool="submit_work", payload_hash="", actor="swe:gated")
    with agent.world.app.record.write() as tx:
        tx.enter_operation(dead)
        tx.intend(dead.operation_id, {"branch": "feat/say-one", "old": old, "new": new})
    git(root, "update-ref", "refs/heads/feat/say-one", new)
    agent.world.close()
    again = Agent(World(root))
    told = again.call("get_task")
    assert (told["task"].split(":")[1], told["notes"]) == (" make a safety checkpoint of the step that passed", [])
    assert git(root, "rev-parse", "feat/say-one").strip() == old
    assert again.submit() == "SUCCESS"
    assert git(root, "log", "--format=%s", "main..feat/say-one") == "GREEN: Say it, GREEN\n"
