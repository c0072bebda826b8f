"""Pauses and silences of a build, as its record shows them to a reader."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from aop.core.clock import later, timestamp
from aop.core.ids import FeatureId
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.people.clarifications import is_waiting
from aop.kernel.config.workflows import BuildRules
from aop.kernel.record.port import Snapshot

PAUSED = "build_paused"
WATCHDOG = "watchdog"
"""The source of log entries that are not signs of life."""
MOST_ENTRIES = 100

Silence = Literal["", "warn", "fail"]


def pause_ends_at(view: Snapshot, cycle: BuildCycle, rules: BuildRules) -> str:
    """Return when a paused or stopped build is given up; empty: never (FORGE-229)."""
    if cycle.hold not in ("paused", "stopped") or not rules.pause_minutes:
        return ""
    for entry in view.journal(feature_id=FeatureId(cycle.build_id), kinds=(PAUSED,), newest=1):
        return timestamp(later(datetime.fromisoformat(entry.event.at), rules.pause_minutes * 60))
    return ""


def pause_is_over(view: Snapshot, cycle: BuildCycle, rules: BuildRules, now: datetime) -> bool:
    """Tell whether a build has been paused for longer than the policy allows."""
    ends = pause_ends_at(view, cycle, rules)
    return bool(ends) and datetime.fromisoformat(ends) <= now


def alive_at(view: Snapshot, cycle: BuildCycle) -> str:
    """Return when a build last did something, or something was done to it."""
    entries = list(view.journal(feature_id=FeatureId(cycle.build_id), newest=MOST_ENTRIES))
    signs = (each.event.at for each in reversed(entries) if each.event.payload.get("source") != WATCHDOG)
    return next(signs, cycle.updated_at)


def silence_of(view: Snapshot, cycle: BuildCycle, rules: BuildRules, now: datetime) -> Silence:
    """Return how a silence is to be taken; nothing is silent that is over, held, or waits for a person."""
    if cycle.status != "active" or cycle.hold or is_waiting(view, cycle.build_id, now):
        return ""
    silent = (now - datetime.fromisoformat(alive_at(view, cycle))).total_seconds()
    if silent >= rules.fail_seconds:
        return "fail"
    return "warn" if silent >= rules.warn_seconds else ""
