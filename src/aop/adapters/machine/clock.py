"""The machine's clock, and ids that were never used before."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """Implements `aop.core.clock.Clock`."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def boot_seconds(self) -> float:
        # CLOCK_BOOTTIME counts the time that the machine slept; where there is none, the monotonic clock must do.
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def boot_id(self) -> str:
        # Where the system does not say, two starts are told apart by boot seconds that went back.
        with suppress(OSError):
            return BOOT_ID.read_text(encoding="ascii").strip()
        return ""

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


def new_id(prefix: str) -> str:
    """Return an id that sorts by the time it was made, and that nobody can guess."""
    return f"{prefix}-{time.time_ns() // 1_000_000:013d}-{uuid.uuid4().hex[:16]}"
