"""Quotas of models: until when a turn that a provider refused waits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from aop.core.clock import later, timestamp
from aop.kernel.record.documents.questions import RESUME, STOP
from aop.supervisor.policy.state import AskPerson, FeatureRun, TurnPostponed, WaitUntil

SHORTEST_WAIT, FIRST_GUESS, LONGEST_GUESS, LONGEST_WAIT = 1.0, 60.0, 3600.0, 24 * 3600.0
"""In seconds. Without a time of the provider the wait doubles, up to the longest guess."""
ABOUT_QUOTA = "quota"
TRUSTED_WAITS = 5
"""After so many waits in a row for times that proved too short, the guess is the least: the words may be an agent's."""


def postpone(run: FeatureRun, event: TurnPostponed) -> tuple[FeatureRun, WaitUntil | AskPerson]:
    """Keep a turn until the quota of its model is there again, or a person says so if nobody named a time."""
    told = event.error.get("details", {})
    if run.quota_waits and told.get("retry_after_seconds") is None and not told.get("retry_at"):
        return replace(run, held_back=event.ask, fault=event.error), _quota_question(run, event.error)
    at = datetime.fromisoformat(event.at)
    until = later(at, _seconds(at, told, run.quota_waits))
    day = f"{until:%Y-%m-%d} " if until.date() != at.date() else ""
    reason = f"Waits for the model's quota until {day}{until:%H:%M} UTC. {event.error['message']}"
    waiting = replace(run, held_back=event.ask, quota_waits=run.quota_waits + 1)
    return waiting, WaitUntil(until=timestamp(until), reason=reason)


def _quota_question(run: FeatureRun, error: Mapping[str, Any]) -> AskPerson:
    """Return the question about an account that may have no credit; features with the same trouble share it."""
    text = (
        f"The model of `{run.feature_id}` takes no requests, its provider names no time, and a wait did not help."
        f" {error['message']} If the account has no credit, add some first. `{RESUME}` tries again now; `{STOP}` keeps"
        " the work and blocks the feature."
    )
    return AskPerson(
        question=text, detail={"error": error}, gate="escalation", about=ABOUT_QUOTA, choices=(RESUME, STOP)
    )


def _seconds(at: datetime, told: Mapping[str, Any], waits: int) -> float:
    after = told.get("retry_after_seconds")
    if told.get("retry_at"):
        after = (datetime.fromisoformat(told["retry_at"]) - at) / timedelta(seconds=1)
    guess = min(FIRST_GUESS * 2.0 ** min(waits, 10), LONGEST_GUESS)
    least = SHORTEST_WAIT if waits < TRUSTED_WAITS else guess
    return min(max(guess if after is None else float(after), least), LONGEST_WAIT)
