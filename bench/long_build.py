"""A build of many turns in a process of its own: its model looks at the files, again and again, and is then killed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.machine.clock import SystemClock
from aop.brains.budgets import CallLimits
from aop.brains.conversation import Reply, Request, TokenCounts, ToolCall
from aop.brains.model_brain import ModelBrain
from aop.brains.prices import Prices
from aop.core.redaction.redactor import Redactor
from aop.wiring.build import Settings, build
from aop.wiring.forge.builds import ProjectBuild
from bench.peak_memory import peak_megabytes

TALK = "I look at the files before I plan, and say at some length why I do. " * 12


class Moment(Struct, frozen=True):
    """When a reply was asked for, in seconds: by the clock, and of this process's processor time."""

    clock: float
    processor: float


class LongBuild(Struct, frozen=True, kw_only=True):
    """The figures of one process."""

    asked: tuple[Moment, ...]
    """The moments at which replies were asked for."""
    megabytes: float
    """The most memory that it had."""


class _PatientModel:
    """A model that replies after a while, and ends its process after so many replies."""

    names: tuple[str, ...] = ("patient",)

    def __init__(self, replies: int, seconds: float) -> None:
        self._replies = replies
        self._seconds = seconds
        self._asked: list[Moment] = []

    async def reply(self, request: Request) -> Reply:
        self._asked.append(Moment(time.monotonic(), time.process_time()))
        at = len(self._asked)
        if at > self._replies:
            self._die()
        await asyncio.sleep(self._seconds)
        call = ToolCall(call_id=f"call-{at}", name="list_directory", arguments="{}")
        return Reply(model="patient", text=f"{at}. {TALK}", calls=(call,), usage=TokenCounts(input_tokens=1))

    def _die(self) -> None:
        figures = LongBuild(asked=tuple(self._asked), megabytes=peak_megabytes())
        os.write(1, msgspec.json.encode(figures))
        os._exit(0)


def main(root: str, project: str, replies: str, seconds: str) -> None:
    """Begin the build of a project, or go on with it, for so many replies."""
    brain = ModelBrain(_PatientModel(int(replies), float(seconds)), Prices({}), SystemClock(), Redactor(), CallLimits())
    with build(Path(root), Settings.from_env(os.environ)) as app:
        ProjectBuild(app, app.person, project, "solo", lambda _line: None).run(lambda _role: brain, lambda: None)


if __name__ == "__main__":
    main(*sys.argv[1:])
