"""Run override: the processes port with another `run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from aop.kernel.ports.processes import Command, CommandResult, Processes


class _WithRun:
    def __init__(self, inner: Processes, run: Callable[[Command], CommandResult]) -> None:
        self._inner = inner
        self.run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def with_run(inner: Processes, run: Callable[[Command], CommandResult]) -> Processes:
    """Return the processes `inner` with another `run`."""
    return cast("Processes", _WithRun(inner, run))
