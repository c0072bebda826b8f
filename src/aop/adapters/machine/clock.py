"""Clock of the machine, and new ids."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """Implements `aop.core.clock.Clock`."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def boot_seconds(self) -> float:
        # CLOCK_BOOTTIME counts the time that the machine slept; not every system has it.
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def boot_id(self) -> str:
        # Where this is missing, the boot seconds went back after a restart. It may also fail for a moment, as when all
        # descriptors are in use: then it is asked again.
        with suppress(OSError):
            return self._boot
        return ""

    @cached_property
    def _boot(self) -> str:
        # No process outlives a start of the machine.
        return BOOT_ID.read_text(encoding="ascii").strip()

    def lease_seconds(self) -> tuple[str, float]:
        return self.boot_id(), self.boot_seconds()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


def new_id(prefix: str) -> str:
    """Return an id that sorts by time and cannot be guessed."""
    return f"{prefix}-{time.time_ns() // 1_000_000:013d}-{uuid.uuid4().hex[:16]}"
