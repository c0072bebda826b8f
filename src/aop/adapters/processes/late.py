"""What runs processes, built for the first call that needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

from aop.kernel.ports.processes import Command, Ended, Processes

T = TypeVar("T")


class LateProcesses:
    """Implements `Processes`. Few calls run a gate, so what it takes is imported and built for the first that does."""

    def __init__(self, build: Callable[[], Processes]) -> None:
        self._build = build

    @cached_property
    def _built(self) -> Processes:
        return self._build()

    def sandbox_level(self, sandbox: str) -> str:
        """Return the level that the self-test proves for this setting."""
        return self._built.sandbox_level(sandbox)

    def why_ports_stay_open(self, sandbox: str) -> str:
        """Return why a command that is to be kept to some ports is not."""
        return self._built.why_ports_stay_open(sandbox)

    def identity(self, sandbox: str, programs: Sequence[str]) -> str:
        """Return what of this machine takes part in a verdict."""
        return self._built.identity(sandbox, programs)

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Carry out tasks at the same time."""
        return self._built.together(tasks)

    def run(self, command: Command) -> Ended:
        """Run one command to its end."""
        return self._built.run(command)
