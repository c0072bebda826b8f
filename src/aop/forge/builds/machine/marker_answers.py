"""Answers to markers: what the model is told, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence

from aop.core.text.counts import count
from aop.forge.builds.documents import PhaseProgress


def flaw(problem: str) -> str:
    """Answer a marker that cannot be read."""
    return f"{problem} Nothing was recorded. Markers stand alone on a line, outside of code blocks and quotes."


def hidden(markers: int) -> str:
    """Answer a reply whose markers do not count."""
    were = "was" if markers == 1 else "were"
    return (
        f"{count(markers, 'marker')} in your reply {were} indented, quoted or in a code block, and did not count."
        " Write a marker alone on a line."
    )


def planned(phase: int, tasks: int, kept: int) -> str:
    """Answer a plan."""
    done = f", of which {kept} remain done" if kept else ""
    return (
        f"The plan of phase {phase} is recorded: {count(tasks, 'task')}{done}. Build now: write the files of a task,"
        " call `check_syntax` on each, then write `=== TASK DONE: n ===`."
    )


def unknown_task(number: int, known: Sequence[int]) -> str:
    """Answer a task that the plan does not have."""
    if not known:
        return f"There is no plan yet, so task {number} is not recorded. Write the plan first."
    return f"The plan has no task {number}; it has {', '.join(map(str, known))}. Nothing was recorded."


def done_already(number: int) -> str:
    """Answer a task that was done before."""
    return f"Task {number} is done already."


def task_done(number: int, left: Sequence[int]) -> str:
    """Answer a finished task."""
    if left:
        return f"Task {number} is recorded. Not done yet: {', '.join(map(str, left))}."
    return (
        f"Task {number} is recorded, and so are all tasks of the plan. Run the tests; when they pass, write the"
        " sign-off of the phase."
    )


def refused(phase: int, reasons: Sequence[str], left: int) -> str:
    """Answer a sign-off that does not count."""
    listed = "\n".join(f"- {reason}" for reason in reasons)
    return (
        f"Phase {phase} is not signed off. Missing:\n{listed}\n\nRepair this and sign off again."
        f" After {count(left, 'more refusal')} for the same reason the build stops."
    )


def stop_answered(code: str, answer: str) -> str:
    """Pass on a person's answer to a STOP."""
    return f"A person answered your STOP ({code}): {answer}\nGo on with this."


def what_is_next(phase: PhaseProgress) -> str:
    """Tell a model that only talked what comes next."""
    if not phase.plan:
        return (
            f"Phase {phase.number} has no plan yet. Call `forge_get_phase_window({phase.number})`, fetch the contracts"
            " that it needs, and write its plan between `=== PLAN ===` and `=== END PLAN ===`."
        )
    left = [task for task in phase.plan if task.number not in phase.done]
    if left:
        number = left[0].number
        return f"Go on with task {number}: {left[0].text}. When it is done, write `=== TASK DONE: {number} ===`."
    return f"All tasks of phase {phase.number} are done. Run the tests, and write the sign-off of the phase."
