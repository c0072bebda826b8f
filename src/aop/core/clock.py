"""What the rooms may know of time. The system's clock lives in `adapters`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Hands out wall time for people and boot time for deadlines."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""

    def boot_seconds(self) -> float:
        """Return the seconds since this machine started; never goes back, counts suspend."""


def timestamp(moment: datetime) -> str:
    """Write a moment the one way that AOP writes moments: ISO 8601, UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
