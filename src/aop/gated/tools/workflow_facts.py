"""Workflow facts: a gated workflow as people are told of it."""

from __future__ import annotations

from msgspec import Struct

from aop.core.ids import TreeId
from aop.gated.machine.active_pr import PlanTask
from aop.gated.machine.master_plan import plan_problem, pull_requests
from aop.gated.session.documents import GatedWorkflow
from aop.kernel.gateway.calls import Kernel
from aop.kernel.ports.git import FileMode


class StepFacts(Struct, frozen=True, kw_only=True):
    type: str
    """RED, GREEN or REFACTOR."""
    description: str
    """The step in the agent's words."""
    status: str
    """TODO, or DONE once the server has judged it."""


class TaskFacts(Struct, frozen=True, kw_only=True):
    name: str
    """The task in the agent's words."""
    status: str
    """TODO, IN_PROGRESS, DONE or ERROR."""
    steps: tuple[StepFacts, ...]
    """Its steps, in order."""


class RedFacts(Struct, frozen=True, kw_only=True):
    tests: tuple[str, ...]
    """The tests that failed by an assertion of their own."""
    tree: str
    """The work with them."""
    head: str
    """The checkpoint before them."""


class WorkflowFacts(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: str
    """The phase of the workflow."""
    master_plan: str
    """The path of the plan of all pull requests."""
    worktree_path: str
    branch: str | None
    """The branch of the pull request; null while there is none."""
    pr_title: str | None
    """The pull request; null while there is none."""
    head: str
    """The commit of the branch, or of HEAD while there is no branch, as the server left it."""
    tree: str
    debug_attempt_counter: int
    """The number of failed attempts at the step."""
    replan_count: int
    """The number of finer plans."""
    review_rounds: int
    """The number of reviews whose findings were sent back."""
    escalated: bool
    """Whether a person was asked for help and has not answered."""
    question_id: str
    """The open question; empty if there is none."""
    last_error: str | None
    """The last failure; null if there is none."""
    halt_reason: str | None
    """Why it is halted; null if it is not."""
    plan_problem: str
    """Why the plan names no pull requests; empty if it does."""
    pull_requests_left: tuple[str, ...]
    """The titles of the pull requests that are not done."""
    tasks: tuple[TaskFacts, ...] = ()
    """The tasks of the pull request; empty while it is planned."""
    red_steps: tuple[RedFacts, ...] = ()
    """The RED steps of the pull request that are done."""
    red_output: str | None = None
    """The output of a red run that the agent has not judged yet; null if there is none."""
    guidance: str | None = None
    """The person's answer; repeated to the agent until the next success."""
    created: bool = False
    """Whether this call created the workflow."""


def workflow_facts(kernel: Kernel, known: GatedWorkflow, *, created: bool = False) -> WorkflowFacts:
    """Return a workflow as people are told of it."""
    workflow, plan = known.workflow, plan_at(kernel, known.tree, known.master_plan)
    return WorkflowFacts(
        feature_id=known.feature_id,
        version=known.version,
        status=workflow.status,
        master_plan=known.master_plan,
        worktree_path=kernel.git.worktrees.path(known.feature_id).relative_to(kernel.files.root).as_posix(),
        branch=known.branch,
        pr_title=None if workflow.plan is None else workflow.plan.pr_title,
        head=known.head,
        tree=known.tree,
        debug_attempt_counter=workflow.debug_attempt_counter,
        replan_count=workflow.replan_count,
        review_rounds=workflow.review_rounds,
        escalated=workflow.escalated,
        question_id=known.question,
        last_error=workflow.last_error,
        halt_reason=workflow.halt_reason,
        plan_problem=plan_problem(known.master_plan, plan),
        pull_requests_left=tuple(each.title for each in pull_requests(plan or "") if not each.is_done),
        tasks=() if workflow.plan is None else tuple(_task(each) for each in workflow.plan.tasks),
        red_steps=tuple(RedFacts(tests=red.tests, tree=red.tree, head=red.head) for red in known.reds),
        red_output=None if workflow.pending_analysis is None else workflow.pending_analysis.output,
        guidance=workflow.guidance,
        created=created,
    )


def _task(task: PlanTask) -> TaskFacts:
    steps = tuple(
        StepFacts(type=each.type, description=each.description, status=each.status) for each in task.tdd_steps
    )
    return TaskFacts(name=task.task_name, status=task.status, steps=steps)


def plan_at(kernel: Kernel, tree: TreeId, path: str) -> str | None:
    """Return the text of a plan in a tree; None if there is none."""
    entry = kernel.git.objects.entry(tree, path)
    if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
        return None
    return kernel.git.objects.blob(entry.oid).decode(errors="replace")
