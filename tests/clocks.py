"""A clock that a test moves by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from aop.kernel.gateway.gateway import Gateway
from aop.kernel.ports.processes import Command, CommandResult, Processes
from aop.wiring.catalogue import CATALOGUE
from tests.world import World

T = TypeVar("T")

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
        self.gate_seconds = 0.0
        """How long a gate step takes."""

    def now(self) -> datetime:
        return self.wall

    def boot_seconds(self) -> float:
        return self.seconds

    def boot_id(self) -> str:
        return self.boot

    def lease_seconds(self) -> tuple[str, float]:
        return self.boot, self.seconds

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.go_on(seconds)
        self.meanwhile()

    def go_on(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
        self.wall += timedelta(seconds=seconds)


class SlowProcesses:
    """Implements `aop.kernel.ports.processes.Processes`: while a step runs, time passes on a hand clock."""

    def __init__(self, processes: Processes, clock: HandClock) -> None:
        self.sandbox_level = processes.sandbox_level
        self.identity = processes.identity
        self._processes, self._clock = processes, clock

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        return self._processes.together(tasks)

    def run(self, command: Command) -> CommandResult:
        self._clock.go_on(self._clock.gate_seconds)
        return self._processes.run(command)


def clocked(world: World) -> HandClock:
    """Give a world a clock that goes on from where the machine's stands."""
    kernel = world.app.gateway.kernel
    # In whole 1/1024 s, which floats add and subtract exactly: 300 s later may not be 299.99999999999994 s later.
    seconds = math.ceil(kernel.clock.boot_seconds() * 1024) / 1024
    clock = HandClock(kernel.clock.boot_id(), seconds)
    kernel = msgspec.structs.replace(kernel, clock=clock, processes=SlowProcesses(kernel.processes, clock))
    world.app = msgspec.structs.replace(world.app, gateway=Gateway(kernel, CATALOGUE))
    return clock
