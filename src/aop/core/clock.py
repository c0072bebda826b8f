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

    def pause(self, seconds: float) -> None:
        """Return after so many seconds."""


def timestamp(moment: datetime) -> str:
    """Write a moment the one way that AOP writes moments: ISO 8601, UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def later(moment: datetime, seconds: float) -> datetime:
    """Return a moment so many seconds later, or the last one that there is."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
