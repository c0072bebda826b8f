"""Stored steps: the port of a generation that goes on, and of the tools it calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from aop.core.errors import Json
from aop.core.run import Steps


class StoredSteps(Steps, Protocol):
    """The finished steps of one generation, kept until it ends."""

    @property
    def steps_done(self) -> int:
        """Return the number of steps that this process has passed."""

    def go_back(self, steps: int = 0) -> None:
        """Forget all but the first steps, and continue after them."""

    def forget(self) -> None:
        """Delete the stored steps."""


CallTool = Callable[[str, Mapping[str, Json], str], Mapping[str, Any]]
"""Calls a tool of the gateway with arguments and an operation id, and returns its data. Raises: ToolRefused."""


class ToolRefused(Exception):
    """A tool of the gateway refused a call; `error` is its refusal."""

    def __init__(self, error: Mapping[str, Json], evidence: Mapping[str, Json]) -> None:
        super().__init__(str(error["message"]))
        self.error = error
        self.evidence = evidence
