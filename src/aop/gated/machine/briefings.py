"""Briefings: the texts for the agent, each with its goal first (GATED-110)."""

from __future__ import annotations

import re

from aop.gated.machine.active_pr import ActivePr, PlanStep, PlanTask, Position, StepType, step_at
from aop.gated.machine.red_tests import HOW_TO_BEGIN
from aop.gated.machine.state import AttemptThresholds, MergeConflicted, Workflow

TOOLKIT = (
    "Your tools: `read_file`, `list_directory` and `search_code` to look, `safe_patch` to change a file, and"
    " `submit_work` to hand in. Only `submit_work` runs tests. Make one attempt, hand it in, and wait."
)
SCHEMA = """{
  "masterPlanPath": "%s",
  "prTitle": "feat: the title that the master plan gives it",
  "summary": "why, in a few sentences",
  "verificationPlan": "how to see that it works",
  "tasks": [
    {
      "taskName": "one small piece",
      "status": "TODO",
      "tdd_steps": [
        {"type": "RED", "description": "the test that fails first", "status": "TODO"},
        {"type": "GREEN", "description": "the least that makes it pass", "status": "TODO"},
        {"type": "REFACTOR", "description": "what to simplify then", "status": "TODO"}
      ]
    }
  ]
}"""
DO: dict[StepType, str] = {
    StepType.RED: "Write the test, and nothing else but a stub. It must fail by an assertion of its own."
    f" {HOW_TO_BEGIN} Hand in with `test_command` and `expectation: FAIL`.",
    StepType.GREEN: "Write the least code that makes it pass. Hand in with `test_command` and `expectation: PASS`.",
    StepType.REFACTOR: "Simplify it; keep its behaviour. Hand in with `test_command` and `expectation: PASS`.",
}


def initialise(master_plan: str, problem: str | None) -> str:
    """Return the task to choose and plan a pull request (GATED-22)."""
    return _joined(
        "Your goal: choose the next pull request of the master plan, and write it down as `ACTIVE_PR.json`.",
        f"The last draft was not accepted: {problem}" if problem else "",
        f"Read `{master_plan}`, and take the first pull request that is neither marked `[DONE]` nor ticked. Create"
        " `ACTIVE_PR.json` with `safe_patch` (`base_content_sha256` is then the hash of empty content), like this:",
        SCHEMA.replace("%s", master_plan),
        "Then call `submit_work` with a summary.",
    )


def draft_waits() -> str:
    """Return the task to hand in a plan that exists."""
    return "Your goal: hand in the plan in `ACTIVE_PR.json`. Read it, correct it, and call `submit_work`."


def next_step(plan: ActivePr, place: Position, guidance: str | None) -> str:
    """Return the current step (GATED-20, GATED-69)."""
    step = step_at(plan, place)
    return _joined(
        f"Your goal: complete the next TDD step: {step.type}: {step.description}",
        f"It belongs to the task `{plan.tasks[place.task].task_name}` of `{plan.pr_title}`.",
        DO[step.type],
        f"A person says: {guidance}" if guidance else "",
        TOOLKIT,
    )


def analyse(output: str) -> str:
    """Return the task to judge a failed test."""
    return _joined(
        "Your goal: decide whether the test failed for the reason that the RED step is about.",
        "Call `submit_work` with `analysis_decision: SUCCESS` if it did, and `FAILURE` if it did not. Its output:",
        _quoted(output),
    )


def checkpoint(step: str) -> str:
    """Return the task to make a commit before the next step (GATED-70)."""
    return _joined(
        f"Your goal: make a safety checkpoint of the step that passed: {step}",
        "Call `submit_work` with only a summary; the server makes the commit. The next step follows.",
    )


def debug(workflow: Workflow, step: PlanStep, thresholds: AttemptThresholds) -> str:
    """Return the unchanged error, and advice by the number of attempts (GATED-21, GATED-71 to GATED-75)."""
    return _joined(
        "Your goal: the last submission failed; fix it.",
        f"The step is {step.type}: {step.description} This was attempt {workflow.debug_attempt_counter}.",
        advice(workflow, thresholds),
        f"A person says: {workflow.guidance}" if workflow.guidance else "",
        DO[step.type],
        "The error, word for word:",
        _quoted(workflow.last_error or ""),
        TOOLKIT,
    )


def advice(workflow: Workflow, thresholds: AttemptThresholds) -> str:
    """Return what to try next, by the number of attempts."""
    attempts = workflow.debug_attempt_counter
    if attempts >= thresholds.unlock_escalation_at or _failed_again(workflow, thresholds):
        return (
            "Stop trying. Write a report in Markdown (goal, attempts, the final error, your analysis), and"
            " hand it over with `escalate_for_external_help`."
        )
    if attempts >= thresholds.unlock_scope_reduction_at:
        return (
            "Reduce the scope: `request_scope_reduction` goes back to the last checkpoint, and asks for smaller steps."
        )
    if attempts > thresholds.hypothesize_max:
        return "Use instrumentation: add logging that shows where it goes wrong, hand in, and read what it prints."
    return "Hypothesize and fix: say what you think is wrong, change that one thing, and hand in."


def _failed_again(workflow: Workflow, thresholds: AttemptThresholds) -> bool:
    return workflow.replan_count > 0 and workflow.debug_attempt_counter >= thresholds.unlock_scope_reduction_at


def replan(original: PlanTask, error: str, problem: str | None) -> str:
    """Return the task to split a task into smaller ones (GATED-80)."""
    return _joined(
        "Your goal: everything since the last checkpoint was reverted; write a finer plan.",
        f"The last draft was not accepted: {problem}" if problem else "",
        f"The task was `{original.task_name}`: " + " ".join(f"{s.type}: {s.description}" for s in original.tdd_steps),
        "It failed with:",
        _quoted(error),
        "Replace it in `ACTIVE_PR.json` by the smallest tasks that can be verified on their own, each with a RED, a"
        " GREEN and a REFACTOR step. The first new task has `breakdownHistory` (`originalTaskName`,"
        " `justification`). The last is a verification task, also by its name, with the RED step of the original"
        " task. Leave the other tasks as they are. Then call `submit_work` with a summary.",
    )


def reviewer_failed(reason: str) -> str:
    """Return that the workflow waits for a review."""
    return _joined(
        "Your goal: none at this moment; the code review failed, and the workflow waits for it.",
        reason,
        "Call `get_task` again later. If it fails again, a person must check the reviewer's settings.",
    )


def finalise(plan: ActivePr, base: str) -> str:
    """Return the task to squash the commits (GATED-93)."""
    return _joined(
        "Your goal: all tasks are complete; squash the commits into one.",
        "Call `submit_work` with a summary: the server squashes them, like these commands.",
        f'git reset --soft "$(git merge-base {base} HEAD)"\ngit commit -m {_shell_quoted(plan.pr_title)}',
    )


def mark_plan(plan: ActivePr, commit: str) -> str:
    """Return the task to mark the pull request as done in the master plan (GATED-57)."""
    return _joined(
        "Your goal: mark this pull request as done in the master plan.",
        f"In `{plan.master_plan_path}`, add to the end of the heading line of `{plan.pr_title}`: [DONE] {commit}",
        "Change nothing else in it, and call `submit_work` with a summary.",
    )


def awaiting_approval(branch: str, reason: str) -> str:
    """Return that a person must approve the branch."""
    return _joined(
        f"Your goal: none at this moment; the branch `{branch}` waits until a person approves it.",
        reason,
        "Call `get_task` again when it is approved.",
    )


def halted(reason: str | None) -> str:
    """Return why the workflow is halted."""
    return _joined("Your goal: none; the workflow is halted until a person has checked it.", reason or "")


def all_done() -> str:
    """Return that nothing is left to do."""
    return "Your goal: none; every pull request of the master plan is done and merged. Stop here."


def escalated() -> str:
    """Return that a person was asked for help."""
    return "Your goal: none at this moment; a person was asked for help. Stop here, and call `get_task` when told to."


def conflict(branch: str, base: str, conflicted: MergeConflicted) -> str:
    """Return the prescribed text about a conflict, and the commands that it means (GATED-98)."""
    where = ", ".join(f"`{path}`" for path in conflicted.paths) or "names"
    commands = (
        f"git checkout {branch}",
        f"git merge {base}",
        "git commit --all --no-edit",
        f"git checkout {base}",
        f"git merge --no-ff --no-edit {branch}",
        f"git branch -d {branch}",
        f"rm {conflicted.folder}/ACTIVE_PR.json",
        f"aop gated start --name {conflicted.name}",
    )
    return _joined(
        f"The automated merge failed due to a conflict in {where}. Resolve it in branch '{branch}' and merge to {base}"
        " by hand; then delete the branch and `ACTIVE_PR.json` and restart to go on with the next PR.",
        "In the repository, with the conflict resolved after the second command:",
        "\n".join(commands),
    )


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _quoted(text: str) -> str:
    """Return text that the agent caused, word for word, in a fence that it does not contain."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _shell_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
