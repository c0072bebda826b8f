"""A clock that a test moves by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from aop.kernel.gateway import Gateway
from aop.wiring import CATALOGUE
from tests.world import World

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


class HandClock:
    """Implements `aop.core.clock.Clock`; it goes on only when it is told to, or when somebody waits."""

    def __init__(self, boot: str, seconds: float) -> None:
        self.boot = boot
        self.seconds = seconds
        self.wall = NOON
        self.pauses: list[float] = []
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens while somebody waits."""

    def now(self) -> datetime:
        return self.wall

    def boot_seconds(self) -> float:
        return self.seconds

    def boot_id(self) -> str:
        return self.boot

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.go_on(seconds)
        self.meanwhile()

    def go_on(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
        self.wall += timedelta(seconds=seconds)


def clocked(world: World) -> HandClock:
    """Give a world a clock that goes on from where the machine's stands."""
    kernel = world.app.gateway.kernel
    clock = HandClock(kernel.clock.boot_id(), kernel.clock.boot_seconds())
    gateway = Gateway(msgspec.structs.replace(kernel, clock=clock), CATALOGUE)
    world.app = msgspec.structs.replace(world.app, gateway=gateway)
    return clock
