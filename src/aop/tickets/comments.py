"""Comments on tickets: the marker of a step, and the report of a failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aop.core.errors import Json

MARKER = "AOP-Run"

STEP_PURPOSES: Mapping[str, str] = {
    "parse": "reading the ticket",
    "report_start": "commenting that the work started",
    "check_branch": "looking for the branch",
    "find_merge_request": "looking for the merge request of the branch",
    "find_work": "looking at what the branch has",
    "report_existing": "commenting that the branch exists",
    "read_project_docs": "reading the documentation of the service",
    "read_architecture_docs": "reading the standards page",
    "ask_model": "asking the model",
    "validate_plan": "checking the files that the model planned",
    "create_branch": "creating the branch",
    "commit": "committing the files",
    "open_merge_request": "opening the merge request",
    "resolve_project": "looking up the id of the project",
    "update_description": "updating the description of the ticket",
    "report_success": "commenting what was done",
    "move_ticket": "moving the ticket to its next state",
    "gather_tools": "listing the tools of the systems",
    "filter_tools": "choosing the tools for the model",
    "end_loop": "the work of the model",
    "prove_result": "checking the result of the model",
    "check_merge_request": "checking the merge request",
    "read_diff": "reading the diff of the merge request",
    "read_known_findings": "reading the findings of earlier reviews",
    "check_report": "checking the findings of the model",
    "publish_review": "publishing the review on the merge request",
    "approve": "approving the merge request",
    "report_failure": "commenting on the failure",
    "roll_back": "moving the ticket back",
    "report_recovery": "commenting on the second attempt",
    "read_ticket": "reading the ticket",
    "set_limits": "setting the limits of the model",
}
"""The purpose of each step, for readers of the ticket."""


class StepFailure(Protocol):
    """The step at which a run failed, and its error."""

    step: str
    error: Mapping[str, Json]


def with_marker(text: str, marker: str) -> str:
    """Return a text with the marker of its step, by which a repeated step finds it."""
    return f"{text}\n\n{MARKER}: {marker}"


def has_marker(text: str, marker: str) -> bool:
    """Tell whether a text has a step's marker; a tracker may have added lines after it."""
    return f"{MARKER}: {marker}" in (line.strip() for line in text.splitlines())


def has_marker_of(text: str, runs: str) -> bool:
    """Tell whether a text has the marker of a run whose id begins so."""
    return any(line.strip().startswith(f"{MARKER}: {runs}") for line in text.splitlines())


def recovery_comment(work: str, failure: StepFailure) -> str:
    """Return the comment that announces the second attempt, by a model with tools."""
    return (
        f"{work} failed at step {_step_text(failure.step)}: {failure.error['message']}\n"
        "Trying again in the agentic mode, since `AGENT_RECOVERY_ENABLED` is set."
    )


def failure_comment(work: str, failure: StepFailure, state: str, then: str, run_id: str) -> str:
    """Return the comment on a failure: its step and reason, the state that it left, the fix and the next command."""
    details = failure.error.get("details")
    hints = details.get("suggested_next_actions") if isinstance(details, Mapping) else None
    lines = [
        f"{work} failed at step {_step_text(failure.step)}: {failure.error['message']}",
        f"Current state: {state}",
        *(f"To fix it: {hint}" for hint in (hints if isinstance(hints, (list, tuple)) else ())),
        f"Then: {then}",
        f"All steps: `aop ticket show {run_id}`. Code: `{failure.error['code']}`.",
    ]
    return "\n".join(lines)


def _step_text(step: str) -> str:
    """Return the name of a step and its purpose."""
    purpose = STEP_PURPOSES.get(step.rpartition(".")[2])
    return f"`{step}` ({purpose})" if purpose else f"`{step}`"
