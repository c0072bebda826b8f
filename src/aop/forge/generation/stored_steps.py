"""Stored steps: the port of a generation that goes on, and of the tools it calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
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


class LoopSteps:
    """Stores steps of a tool loop; a failure of the model is not kept, so that it is asked again."""

    def __init__(self, steps: StoredSteps, prefix: str = "", *, kept: tuple[str, ...] = ("reply_",)) -> None:
        """Take the steps to keep by the beginnings of their names; all others are repeated."""
        self._steps = steps
        self._prefix = prefix
        self._kept = kept
        self.left_out = False

    async def once(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        """Do a step of the loop, once if it is kept."""
        if not name.startswith(self._kept):
            return await do()

        async def reply() -> Json:
            answer = await do()
            if name.startswith("reply_") and (not isinstance(answer, Mapping) or answer.get("reply") is None):
                raise _LeftOut(answer)
            return answer

        try:
            return await self._steps.step(self._prefix + name, reply)
        except _LeftOut as left_out:
            self.left_out = True
            return left_out.answer


class _LeftOut(Exception):
    """A step that failed, and is not stored."""

    def __init__(self, answer: Json) -> None:
        super().__init__()
        self.answer = answer
