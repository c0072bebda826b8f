"""Clock port: time of day, a clock that never goes back, and pauses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Hands out wall time for people and boot time for deadlines, and waits."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""

    def boot_seconds(self) -> float:
        """Return the seconds since this machine started; never goes back, counts suspend."""

    def boot_id(self) -> str:
        """Return what tells this start of the machine from every other; boot seconds of two starts compare nothing."""

    def lease_seconds(self) -> tuple[str, float]:
        """Return the clock by which leases end, and its seconds: this start of the machine, or a shared database."""

    def pause(self, seconds: float) -> None:
        """Return after so many seconds."""


def timestamp(moment: datetime) -> str:
    """Write a moment the one way that AOP writes moments: ISO 8601, UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def later(moment: datetime, seconds: float) -> datetime:
    """Return a moment so many seconds later, or the last one that there is."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


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
