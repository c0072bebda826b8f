"""Review: a command or a model judges the work, in a readable report."""

from __future__ import annotations

from importlib.resources import files

import msgspec

from aop.core.errors import ModelNotAllowed, Move, Refusal, ReviewerNotConfigured
from aop.gated.machine.active_pr import PlanStep, PlanTask, StepType
from aop.gated.machine.position import plan_of
from aop.gated.machine.state import Review, Reviewed, ReviewFailed
from aop.gated.session.documents import REVIEW_INPUT
from aop.gated.session.session import ReviewRecord, Session
from aop.gated.session.verification import output_of, run_in_worktree, step_plan
from aop.kernel.config.gates import Step
from aop.kernel.ports.reviewer import ReviewRequest
from aop.kernel.record.documents.gate_runs import Verdict
from aop.reviews.report import CodeReviewReport, Finding, ReviewVerdict, Severity, blocking_findings

LARGEST_DIFF = 4 * 1024 * 1024
LARGEST_DIFF_FOR_A_MODEL = 400_000
SHORT = 200


class NoReport(Exception):
    """The reviewer gave no usable report."""


def review_work(session: Session, _action: Review) -> Reviewed | ReviewFailed:
    """Return the blocking findings as tasks; anything but a report on this change is a failure (GATED-92)."""
    # Refusals of a model that only a person can resolve, ReviewerNotConfigured and ModelNotAllowed go to the caller.
    try:
        report = _by_command(session) if session.policy.review_command else _by_model(session)
        found = blocking_of(report, _changed_paths(session), Severity(session.policy.blocking_severity))
    except NoReport as reason:
        return ReviewFailed(reason=str(reason))
    session.review = msgspec.structs.replace(
        session.review or ReviewRecord(), verdict=report.verdict, summary=report.summary, blocking=len(found)
    )
    return Reviewed(tasks=tuple(map(_task_of, found)), summary=report.summary)


def blocking_of(report: CodeReviewReport, changed: frozenset[str], severity: Severity) -> tuple[Finding, ...]:
    """Return the blocking findings. Raises: NoReport if the report is on another change, or names no change."""
    elsewhere = sorted({finding.file_path for finding in report.findings} - changed)
    here = [finding for finding in report.findings if finding.file_path in changed]
    found = blocking_findings(msgspec.structs.replace(report, findings=tuple(here)), severity)
    if elsewhere and not found:
        raise NoReport(f"The report is about files that the change does not touch, such as `{elsewhere[0][:SHORT]}`.")
    if report.verdict is ReviewVerdict.REQUEST_CHANGES and not found:
        raise NoReport("The reviewer requests changes but names none.")
    return found


def _by_command(session: Session) -> CodeReviewReport:
    wanted = _wanted(session, LARGEST_DIFF)
    told = {**msgspec.to_builtins(wanted), "active_pr": plan_of(session.workflow)}
    step = Step(name="review", cmd=session.policy.review_command, env={"AOP_REVIEW_INPUT": REVIEW_INPUT})
    plan = step_plan(session, step, session.known.tree, tests=False)
    run = run_in_worktree(session, plan, inputs={REVIEW_INPUT: msgspec.json.encode(told)}).run
    printed = output_of(session, run)
    if run.verdict is not Verdict.PASS:
        raise NoReport(f"The review command failed:\n{printed}")
    try:
        return msgspec.json.decode(printed, type=CodeReviewReport)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoReport(f"The reviewer printed no report: {error}") from error


def _by_model(session: Session) -> CodeReviewReport:
    reviewer, model = session.kernel.reviewer, session.policy.review_model
    if not model:
        raise ReviewerNotConfigured("No reviewer is configured, and the workflow needs a review to continue.")
    if reviewer is None:
        raise ModelNotAllowed(f"The policy has the model `{model}` review, and this server may not ask a model.")
    try:
        opinion = reviewer.review(_wanted(session, LARGEST_DIFF_FOR_A_MODEL), model)
    except Refusal as refusal:
        if refusal.move in (Move.CORRECT_USAGE, Move.ASK_PERSON):
            raise
        raise NoReport(f"The model gave no report: {refusal.message}") from refusal
    session.review = ReviewRecord(model=opinion.model, usage=opinion.usage)
    try:
        return msgspec.convert(opinion.report, CodeReviewReport)
    except msgspec.ValidationError as error:
        raise NoReport(f"The model gave no report: {error}") from error


def _wanted(session: Session, largest: int) -> ReviewRequest:
    """Return the reviewer's input: the persona, the plan and the whole change (GATED-87)."""
    git, known = session.kernel.git, session.known
    diff = git.objects.diff(git.objects.tree_of(known.base_commit), known.tree).decode(errors="replace")
    if len(diff) > largest:
        raise NoReport(f"The change has {len(diff)} characters; the limit for a review is {largest}.")
    plan = plan_of(known.workflow)
    return ReviewRequest(
        persona=(files("aop.gated") / "prompts" / "reviewer.md").read_text("utf-8"),
        title=plan.pr_title,
        description=plan.summary,
        plan=msgspec.json.encode(plan).decode(),
        diff=session.kernel.redact.mask_secrets(diff),
    )


def _changed_paths(session: Session) -> frozenset[str]:
    git, known = session.kernel.git, session.known
    return frozenset(change.path for change in git.objects.changes(git.objects.tree_of(known.base_commit), known.tree))


def _task_of(finding: Finding) -> PlanTask:
    where = finding.file_path if finding.line_number is None else f"{finding.file_path}:{finding.line_number}"
    advice = f"{where}: {finding.description} {finding.recommendation}"[:4000]
    return PlanTask(
        task_name=f"Address code review feedback: {finding.description[:SHORT]}",
        tdd_steps=(PlanStep(type=StepType.GREEN, description=advice),),
    )
