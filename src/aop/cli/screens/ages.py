"""Ages: how long ago something was, in the words of a person."""

from __future__ import annotations

from datetime import datetime

UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """Return a time span as one number with its unit: `40 s`, `3 min`, `5 h`, `12 d`."""
    whole = max(0, int(seconds))
    for size, unit in UNITS:
        if whole >= size:
            return f"{whole // size} {unit}"
    return "0 s"


def span_since(moment: str, now: datetime) -> str:
    """Return the time span from a moment of the record until now; empty without a moment."""
    return duration((now - datetime.fromisoformat(moment)).total_seconds()) if moment else ""


def age(moment: str, now: datetime) -> str:
    """Return how long ago a moment of the record was; empty without a moment."""
    return f"{span_since(moment, now)} ago" if moment else ""
