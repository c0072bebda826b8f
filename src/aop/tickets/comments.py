"""What every agent writes in the same way: the mark of a step, and the account of a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from aop.core.errors import Json

MARKER = "AOP-Run"


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
        f"{work} failed at the step `{failure.step}`: {failure.error['message']}\n"
        "It is tried again in the agentic mode, since `AGENT_RECOVERY_ENABLED` is set."
    )


def failed(work: str, error: Mapping[str, Json], step: str, reached: Sequence[str]) -> str:
    """Say what went wrong, where, what was done before, and what to do next."""
    details = error.get("details")
    hints = details.get("suggested_next_actions") if isinstance(details, Mapping) else None
    lines = [
        f"{work} started and failed at the step `{step}`: {error['message']}",
        *(f"What to do: {hint}" for hint in (hints if isinstance(hints, (list, tuple)) else ())),
        f"Code: `{error['code']}`. Steps done before: {', '.join(f'`{name}`' for name in reached) or 'none'}.",
    ]
    return "\n".join(lines)
