"""Attempts: the proposals of the current phase, and the signs of a circle."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from aop.core.errors import GoesInCircles, NoProgress, TurnsUsedUp
from aop.core.text.counts import count
from aop.kernel.gates.causes import telling_line
from aop.supervisor.policy.state import Attempt, FeatureRun
from aop.supervisor.workers import ToolResult, WorkerOutput

SAME_ANSWER = "the same answer again"
_REFUSAL_CHARS = 1000
SAME_FAILURES = 3
"""This many different proposals that fail in the same way are a circle."""


def attempt_history(run: FeatureRun) -> tuple[ToolResult, ...]:
    """Return the attempts of this phase, for a worker without memory."""
    attempts = [msgspec.to_builtins(attempt) for attempt in run.attempts]
    return (ToolResult(tool="attempts", ok=False, data=attempts),) if attempts else ()


def fingerprint_of(output: WorkerOutput) -> str:
    """Return the hash of a worker's answer, without its usage and session."""
    said = replace(output, usage=None, session="")
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:16]


def with_attempt(run: FeatureRun, fingerprint: str, outcome: str) -> FeatureRun:
    """Add an attempt of the current worker."""
    attempt = Attempt(role=run.role, fingerprint=fingerprint, outcome=outcome)
    return replace(run, attempts=(*run.attempts, attempt))


def with_outcome(run: FeatureRun, result: ToolResult) -> FeatureRun:
    """Set the outcome of the newest attempt."""
    if not run.attempts:
        return run
    said = telling_line(result.log_tail) if result.log_tail else str((result.error or {}).get("message", ""))
    outcome = f"{result.tool}: {(result.error or {}).get('code', '')}: {said}"[:300]
    return replace(run, attempts=(*run.attempts[:-1], replace(run.attempts[-1], outcome=outcome)))


def fails_alike(run: FeatureRun) -> bool:
    """Tell whether the newest attempts all failed in the same way."""
    last = [attempt.outcome for attempt in run.attempts[-SAME_FAILURES:]]
    return len(last) == SAME_FAILURES and len(set(last)) == 1


def stuck_question(run: FeatureRun) -> str:
    """Return the question about a worker that makes no progress: the same proposal again, or the same refusal."""
    return f"{_stuck_sentence(run)}{last_refusal(run)} What should it do?"


def stuck_error(run: FeatureRun) -> dict[str, Any]:
    """Return the error of a feature whose worker makes no progress after a person was asked."""
    refusal = GoesInCircles if _is_repeated(run) else NoProgress
    return refusal(
        f"{_stuck_sentence(run)} A person was asked before.{last_refusal(run)}",
        feature_id=run.feature_id,
        attempts=[msgspec.to_builtins(attempt) for attempt in run.attempts],
    ).as_error()


def turns_used_up_error(run: FeatureRun) -> dict[str, Any]:
    """Return the error of a feature whose worker used all its turns."""
    return TurnsUsedUp(
        f"The {run.role} of `{run.feature_id}` used its {count(run.turns_allowed, 'turn')} without an accepted"
        f" proposal.{last_refusal(run)}",
        feature_id=run.feature_id,
        last_error=run.results[0].error if run.results else None,
    ).as_error()


def last_refusal(run: FeatureRun) -> str:
    """Return the newest refusal that the worker was given, as the end of a message; empty without one."""
    refused = [result for result in run.results if result.error is not None]
    if not refused:
        return ""
    result = refused[-1]
    said = f" ({telling_line(result.log_tail)})" if result.log_tail else ""
    return f" Last refusal, by {result.tool}: {(result.error or {})['message']}{said}"[:_REFUSAL_CHARS]


def _stuck_sentence(run: FeatureRun) -> str:
    who = f"The {run.role} of `{run.feature_id}`"
    if _is_repeated(run):
        return f"{who} goes in circles: it sends the same proposal again."
    return f"{who} makes no progress: its proposals are refused for the same reason."


def _is_repeated(run: FeatureRun) -> bool:
    return bool(run.attempts) and run.attempts[-1].outcome == SAME_ANSWER
