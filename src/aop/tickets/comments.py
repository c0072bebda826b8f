"""What every agent writes in the same way: the mark of a step, and the account of a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aop.core.errors import Json

MARKER = "AOP-Run"

DOING: Mapping[str, str] = {
    "parse": "reading the ticket",
    "report_start": "telling the ticket that the work begins",
    "check_branch": "looking for the branch",
    "find_merge_request": "looking for the branch's merge request",
    "report_existing": "telling the ticket that the branch exists",
    "read_project_docs": "reading the documentation of the service",
    "read_architecture_docs": "reading the page of the standards",
    "ask_model": "asking the model",
    "validate_plan": "checking the files that the model planned",
    "create_branch": "making the branch",
    "commit": "committing the files",
    "open_merge_request": "opening the merge request",
    "resolve_project": "asking for the number of the project",
    "update_description": "adding to the ticket's description",
    "report_success": "telling the ticket what was done",
    "move_ticket": "moving the ticket to its next state",
    "gather_tools": "asking the systems for their tools",
    "filter_tools": "choosing the model's tools",
    "end_loop": "a model working with tools",
    "prove_result": "looking for what the model made",
    "check_merge_request": "looking at the merge request",
    "read_diff": "reading what the merge request changes",
    "read_known_findings": "reading what earlier reviews found",
    "check_report": "checking what the model found",
    "publish_review": "writing the review to the merge request",
    "approve": "approving the merge request",
    "report_failure": "telling the ticket of the failure",
    "roll_back": "moving the ticket back",
    "report_recovery": "telling the ticket that it is tried again",
    "read_ticket": "reading the ticket",
    "set_limits": "setting the model's limits",
}
"""What each step is for, in the words of whoever reads a ticket."""


class StepFailure(Protocol):
    """Where a run failed, and with what."""

    step: str
    error: Mapping[str, Json]


def marked(text: str, marker: str) -> str:
    """Return a text that says which step wrote it, so that a repeated step finds it."""
    return f"{text}\n\n{MARKER}: {marker}"


def is_marked(text: str, marker: str) -> bool:
    """Tell whether a text was written by that step; other lines may follow, as trackers rewrite what they keep."""
    return f"{MARKER}: {marker}" in (line.strip() for line in text.splitlines())


def tried_again(work: str, failure: StepFailure) -> str:
    """Say that the fixed steps failed, and that a model is let try."""
    return (
        f"{work} failed at the step {_named(failure.step)}: {failure.error['message']}\n"
        "It is tried again in the agentic mode, since `AGENT_RECOVERY_ENABLED` is set."
    )


def failed(work: str, failure: StepFailure, left: str, then: str, run_id: str) -> str:
    """Say what went wrong and where, what is there now, what to do about it, and how to go on after that."""
    details = failure.error.get("details")
    hints = details.get("suggested_next_actions") if isinstance(details, Mapping) else None
    lines = [
        f"{work} started and failed at the step {_named(failure.step)}: {failure.error['message']}",
        f"What is left: {left}",
        *(f"What to do: {hint}" for hint in (hints if isinstance(hints, (list, tuple)) else ())),
        f"Then: {then}",
        f"Every step: `aop ticket show {run_id}`. Code: `{failure.error['code']}`.",
    ]
    return "\n".join(lines)


def _named(step: str) -> str:
    """Return a step by its name, and by what it is for."""
    doing = DOING.get(step.rpartition(".")[2])
    return f"`{step}` ({doing})" if doing else f"`{step}`"
