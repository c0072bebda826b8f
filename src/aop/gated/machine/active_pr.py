"""Active PR: the plan in `ACTIVE_PR.json` (GATED-14 to GATED-18)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from aop.core.errors import InvalidActivePr
from aop.core.structs import Part

Words = Annotated[str, Meta(min_length=1, max_length=4_000)]
LARGEST_PLAN = 512 * 1024
MOST_TASKS, MOST_STEPS = 200, 50


class TaskStatus(StrEnum):
    TODO = "TODO"
    IN_PROGRESS = "IN_PROGRESS"
    DONE = "DONE"
    ERROR = "ERROR"


class StepType(StrEnum):
    RED = "RED"
    GREEN = "GREEN"
    REFACTOR = "REFACTOR"


class StepStatus(StrEnum):
    TODO = "TODO"
    DONE = "DONE"


class PlanStep(Part, frozen=True, kw_only=True):
    type: StepType
    description: Words
    status: StepStatus = StepStatus.TODO


class BreakdownHistory(Part, frozen=True, kw_only=True):
    """Why a task replaces another one."""

    original_task_name: Words = field(name="originalTaskName")
    justification: Words


class PlanTask(Part, frozen=True, kw_only=True):
    task_name: Words = field(name="taskName")
    status: TaskStatus = TaskStatus.TODO
    tdd_steps: Annotated[tuple[PlanStep, ...], Meta(min_length=1, max_length=MOST_STEPS)]
    breakdown_history: BreakdownHistory | None = field(name="breakdownHistory", default=None)


class ActivePr(Part, frozen=True, kw_only=True):
    """One pull request: its purpose and its steps."""

    master_plan_path: Words = field(name="masterPlanPath")
    pr_title: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\A[^\r\n]*\S[^\r\n]*\Z")] = field(
        name="prTitle"
    )
    summary: Words
    verification_plan: Words = field(name="verificationPlan")
    tasks: Annotated[tuple[PlanTask, ...], Meta(min_length=1, max_length=MOST_TASKS)]


class Position(Struct, frozen=True, kw_only=True):
    """A step's position in the plan."""

    task: int
    step: int


def read_plan(text: bytes) -> ActivePr:
    """Parse the plan in a file. Raises: InvalidActivePr."""
    if len(text) > LARGEST_PLAN:
        raise InvalidActivePr(f"`ACTIVE_PR.json` has {len(text)} bytes; at most {LARGEST_PLAN} are read.")
    try:
        plan = msgspec.json.decode(text, type=ActivePr)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidActivePr(f"`ACTIVE_PR.json` is not a plan: {error}") from error
    names = [task.task_name for task in plan.tasks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidActivePr(f"`ACTIVE_PR.json` has more than one task named `{twice[0]}`.")
    return plan


def plan_text(plan: ActivePr) -> bytes:
    """Return the text of the plan's file, with the status of every task and step (GATED-15, GATED-16)."""
    shown = msgspec.to_builtins(plan)
    for task, facts in zip(plan.tasks, shown["tasks"], strict=True):
        facts["status"] = task.status
        for step, told in zip(task.tdd_steps, facts["tdd_steps"], strict=True):
            told["status"] = step.status
    return msgspec.json.format(msgspec.json.encode(shown), indent=2) + b"\n"


def with_nothing_done(plan: ActivePr) -> ActivePr:
    """Return the plan with nothing done: only the server marks steps as done."""
    return replace(plan, tasks=tuple(_reset_task(task) for task in plan.tasks))


def next_position(plan: ActivePr) -> Position | None:
    """Return the first open step of the first open task; None when all is done (GATED-18)."""
    for task_number, task in enumerate(plan.tasks):
        if task.status is TaskStatus.DONE:
            continue
        for step_number, step in enumerate(task.tdd_steps):
            if step.status is StepStatus.TODO:
                return Position(task=task_number, step=step_number)
    return None


def step_at(plan: ActivePr, place: Position) -> PlanStep:
    """Return a step."""
    return plan.tasks[place.task].tdd_steps[place.step]


def with_task_started(plan: ActivePr, place: Position) -> ActivePr:
    """Return the plan with the step's task in progress (C-15)."""
    return _with_task(plan, place.task, replace(plan.tasks[place.task], status=TaskStatus.IN_PROGRESS))


def with_step_done(plan: ActivePr, place: Position) -> ActivePr:
    """Return the plan with a step done, and its task too if that was the last one."""
    task = plan.tasks[place.task]
    steps = tuple(
        replace(step, status=StepStatus.DONE) if number == place.step else step
        for number, step in enumerate(task.tdd_steps)
    )
    is_done = all(step.status is StepStatus.DONE for step in steps)
    status = TaskStatus.DONE if is_done else TaskStatus.IN_PROGRESS
    return _with_task(plan, place.task, replace(task, tdd_steps=steps, status=status))


def with_tasks(plan: ActivePr, tasks: tuple[PlanTask, ...]) -> ActivePr:
    """Return the plan with tasks added at its end; one whose name is taken gets a number."""
    names = {task.task_name for task in plan.tasks}
    added: list[PlanTask] = []
    for task in tasks:
        name, number = task.task_name, 2
        while name in names:
            name, number = f"{task.task_name} ({number})", number + 1
        names.add(name)
        added.append(replace(task, task_name=name))
    return replace(plan, tasks=(*plan.tasks, *added))


def apply_replan(plan: ActivePr, draft: ActivePr, *, original: str) -> tuple[ActivePr, tuple[str, ...]]:
    """Return the plan with finer tasks in place of one, and the problems of the draft (GATED-81)."""
    # Known tasks keep the server's status; new tasks start with nothing done.
    known = {task.task_name: task for task in plan.tasks if task.task_name != original}
    new = [task for task in draft.tasks if task.task_name not in known]
    problems = [
        f"The task `{name}` is gone; only `{original}` may be replaced."
        for name in known
        if all(task.task_name != name for task in draft.tasks)
    ]
    if any(task.task_name == original for task in draft.tasks):
        problems.append(f"The task `{original}` is still there; the new tasks take its place.")
    elif not new:
        problems.append(f"No task takes the place of `{original}`.")
    else:
        problems += [*_problems_of(new, original), *order_problems(new), *end_problems(draft.tasks)]
    tasks = tuple(known.get(task.task_name) or _reset_task(task) for task in draft.tasks)
    return replace(plan, tasks=tasks), tuple(problems)


def end_problems(tasks: Sequence[PlanTask]) -> list[str]:
    """Return what a plan leaves open: a test that fails at its end, or no test at all."""
    steps = [step.type for task in tasks for step in task.tdd_steps]
    if StepType.RED not in steps:
        return ["The plan has no RED step, so no test asks for what it adds. Begin with one."]
    if steps[-1] is StepType.RED:
        return ["The plan ends with a RED step, and so with a test that fails. End with the GREEN step that passes it."]
    return []


def order_problems(tasks: Iterable[PlanTask]) -> list[str]:
    """Return which tasks want something to pass that no test asked for before."""
    kinds = {task.task_name: [step.type for step in task.tdd_steps] for task in tasks}
    return [
        f"The task `{name}` has a GREEN step without a RED step before it."
        for name, steps in kinds.items()
        if StepType.GREEN in steps and StepType.RED not in steps[: steps.index(StepType.GREEN)]
    ]


def _problems_of(new: list[PlanTask], original: str) -> list[str]:
    problems: list[str] = []
    history = new[0].breakdown_history
    if history is None or history.original_task_name != original:
        problems.append(f"The first new task, `{new[0].task_name}`, needs a `breakdownHistory` naming `{original}`.")
    if "verif" not in new[-1].task_name.casefold():
        problems.append(f"The last new task, `{new[-1].task_name}`, must be the verification task, by its name too.")
    elif all(step.type is not StepType.RED for step in new[-1].tdd_steps):
        problems.append(f"The verification task, `{new[-1].task_name}`, needs the RED step of `{original}`.")
    return problems


def _reset_task(task: PlanTask) -> PlanTask:
    steps = tuple(replace(step, status=StepStatus.TODO) for step in task.tdd_steps)
    return replace(task, status=TaskStatus.TODO, tdd_steps=steps)


def _with_task(plan: ActivePr, number: int, task: PlanTask) -> ActivePr:
    return replace(plan, tasks=(*plan.tasks[:number], task, *plan.tasks[number + 1 :]))
