"""Has the work reviewed by the command that the policy names; without a readable report there is no approval."""

from __future__ import annotations

from importlib.resources import files

import msgspec

from aop.gated.active_pr import Step, StepType, Task
from aop.gated.sitting import Sitting
from aop.gated.standing import plan_of
from aop.gated.verification import output_of, run_in_worktree, step_plan
from aop.gated.workflow import Review, Reviewed, ReviewFailed
from aop.kernel.config_models import Step as GateStep
from aop.kernel.documents import Verdict
from aop.reviews.report import CodeReviewReport, Finding, ReviewVerdict, Severity, blocking

INPUT_FILE = ".aop-review.json"
LARGEST_DIFF = 4 * 1024 * 1024
SHORT = 200


def reviewed(sitting: Sitting, _action: Review) -> Reviewed | ReviewFailed:
    """Return the findings that block, as tasks; whatever is no report is a failure (GATED-92)."""
    command = sitting.policy.review_command
    if not command:
        return ReviewFailed(reason="No reviewer is configured: `gated.review_command` of the policy is empty.")
    step = GateStep(name="review", cmd=command, env={"AOP_REVIEW_INPUT": INPUT_FILE})
    plan = step_plan(sitting, step, sitting.known.tree, tests=False)
    run, _output = run_in_worktree(sitting, plan, inputs={INPUT_FILE: _package(sitting)})
    printed = output_of(sitting, run)
    if run.verdict is not Verdict.PASS:
        return ReviewFailed(reason=f"The reviewer ended badly:\n{printed}")
    try:
        report = msgspec.json.decode(printed, type=CodeReviewReport)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return ReviewFailed(reason=f"The reviewer printed no report: {error}")
    found = blocking(report, Severity(sitting.policy.blocking_severity))
    if report.verdict is ReviewVerdict.REQUEST_CHANGES and not found:
        return ReviewFailed(reason="The reviewer requests changes, and names none.")
    return Reviewed(tasks=tuple(map(_task_of, found)), summary=report.summary)


def _package(sitting: Sitting) -> bytes:
    """Return what the reviewer gets to know: who it is, the plan, and the whole change (GATED-87)."""
    git, known = sitting.kernel.git, sitting.known
    diff = git.diff(git.tree_of(known.base_commit), known.tree)[:LARGEST_DIFF].decode(errors="replace")
    plan = plan_of(known.workflow)
    told = {
        "persona": (files("aop.gated") / "prompts" / "reviewer.md").read_text("utf-8"),
        "title": plan.pr_title,
        "description": plan.summary,
        "active_pr": plan,
        "diff": sitting.kernel.redact.mask_secrets(diff),
    }
    return msgspec.json.encode(told)


def _task_of(finding: Finding) -> Task:
    where = finding.file_path if finding.line_number is None else f"{finding.file_path}:{finding.line_number}"
    advice = f"{where}: {finding.description} {finding.recommendation}"[:4000]
    return Task(
        task_name=f"Address code review feedback: {finding.description[:SHORT]}",
        tdd_steps=(Step(type=StepType.GREEN, description=advice),),
    )
