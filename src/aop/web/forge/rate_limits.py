"""Rate limits: so many requests at once and a second, for each key and build."""

from __future__ import annotations

import math
from threading import Lock

from msgspec import Struct

from aop.core.clock import Clock
from aop.core.errors import TooManyRequests


class Rate(Struct, frozen=True, kw_only=True):
    """A number of requests that may come at once, and how fast it grows back."""

    at_once: int
    a_second: float


PER_KEY = Rate(at_once=400, a_second=100)
PER_BUILD = Rate(at_once=200, a_second=50)


class RateLimits:
    """Counts the requests of each name in the memory of this server; names are those of the record only."""

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = Lock()

    def count(self, name: str) -> None:
        """Count a request. Raises: TooManyRequests, and then it is not counted."""
        rate, now = self._rate, self._clock.boot_seconds()
        with self._lock:
            left, at = self._left.get(name, (float(rate.at_once), now))
            left = min(float(rate.at_once), left + (now - at) * rate.a_second)
            if left >= 1:
                self._left[name] = (left - 1, now)
                return
        seconds = max(1, math.ceil((1 - left) / rate.a_second))
        raise TooManyRequests(f"`{name}` sends too many requests.", retry_after_seconds=seconds)
