"""What was tried for a feature in the present phase, and how it is told from progress."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from aop.core.errors import GoesInCircles, TurnsUsedUp
from aop.supervisor.policy.state import Attempt, FeatureRun
from aop.supervisor.workers import ToolResult, WorkerOutput

SAME_FAILURES = 3
"""So many proposals that fail in the same way are a circle, even if each is another one."""


def history(run: FeatureRun) -> tuple[ToolResult, ...]:
    """Return what was tried in this phase, for a worker that remembers nothing."""
    attempts = [msgspec.to_builtins(attempt) for attempt in run.attempts]
    return (ToolResult(tool="attempts", ok=False, data=attempts),) if attempts else ()


def fingerprint_of(output: WorkerOutput) -> str:
    """Return what tells a worker's answer from another one, whatever it cost."""
    said = replace(output, usage=None)
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:16]


def tried(run: FeatureRun, fingerprint: str, outcome: str) -> FeatureRun:
    """Add an attempt of the worker whose turn it is."""
    attempt = Attempt(role=run.role, fingerprint=fingerprint, outcome=outcome)
    return replace(run, attempts=(*run.attempts, attempt))


def with_outcome(run: FeatureRun, result: ToolResult) -> FeatureRun:
    """Note with the newest attempt what became of it."""
    if not run.attempts:
        return run
    said = telling_line(result.log_tail) if result.log_tail else str((result.error or {}).get("message", ""))
    outcome = f"{result.tool}: {(result.error or {}).get('code', '')}: {said}"[:300]
    return replace(run, attempts=(*run.attempts[:-1], replace(run.attempts[-1], outcome=outcome)))


def fails_alike(run: FeatureRun) -> bool:
    """Tell whether the newest attempts all failed in the same way."""
    last = [attempt.outcome for attempt in run.attempts[-SAME_FAILURES:]]
    return len(last) == SAME_FAILURES and len(set(last)) == 1


def circling(run: FeatureRun) -> dict[str, Any]:
    """Return why a feature is blocked whose worker goes in circles."""
    return GoesInCircles(
        f"The {run.role} of `{run.feature_id}` goes in circles, although a person was asked.",
        feature_id=run.feature_id,
        attempts=[msgspec.to_builtins(attempt) for attempt in run.attempts],
    ).as_error()


def used_up(run: FeatureRun) -> dict[str, Any]:
    """Return why a feature has failed whose worker took all its turns."""
    return TurnsUsedUp(
        f"The {run.role} of `{run.feature_id}` used up its {run.turns_allowed} turns without being accepted.",
        feature_id=run.feature_id,
        last_error=run.results[0].error if run.results else None,
    ).as_error()


def telling_line(log: str) -> str:
    """Return the line of a log that says most: the last that names an error, or else the last that says anything."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or ["(it is empty)"])[-1]
