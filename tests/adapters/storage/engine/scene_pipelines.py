"""The pipelines of the engine's conformance suite; each notes in a file what it does, and waits for a file to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aop.core.errors import Json
from aop.core.run import Children, Kind, Run, Steps


class Folder:
    """Where pipelines leave notes, and find what lets them go on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, line: str) -> None:
        with (self._path / "notes").open("a") as file:
            file.write(f"{line}\n")

    def notes(self) -> list[str]:
        path = self._path / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def allow(self, name: str) -> None:
        (self._path / f"go-{name}").touch()

    async def allowed(self, name: str) -> None:
        while not (self._path / f"go-{name}").exists():  # noqa: ASYNC110 - no event tells of another process's file
            await asyncio.sleep(0.005)


class Pipelines:
    def __init__(self, path: Path) -> None:
        self._folder = Folder(path)

    async def _noted(self, line: str) -> Json:
        self._folder.note(line)
        return line

    async def three_steps(self, run: Steps, payload: Any) -> Json:
        """Does something, is held up in the middle of something else, and does a last thing."""
        name = payload["name"]

        async def held_up() -> Json:
            self._folder.note(f"{name} second begins")
            await self._folder.allowed(name)
            self._folder.note(f"{name} second ends")
            return 2

        first = await run.step("first", lambda: self._noted(f"{name} first"))
        second = await run.step("second", held_up)
        third = await run.step("third", lambda: self._noted(f"{name} third"))
        return {"did": [first, second, third]}

    async def limited(self, run: Steps, payload: Any) -> Json:
        name: str = payload["name"]

        async def busy() -> Json:
            self._folder.note(f"+{name}")
            await self._folder.allowed(payload.get("until", name))
            self._folder.note(f"-{name}")
            return name

        return await run.step("busy", busy)

    async def family(self, run: Children, payload: Any) -> Json:
        children = [
            await run.spawn("limited", {"name": name, "until": "all"}, key=name, priority=priority)
            for name, priority in payload["children"]
        ]
        twice = await run.spawn("limited", {"name": "impostor"}, key=payload["children"][0][0], priority=1)
        return [twice == children[0], [await run.result(child) for child in children]]

    async def asking(self, run: Run, payload: Any) -> Json:
        await run.step("before", lambda: self._noted(f"{payload['name']} asks"))
        answer = await run.ask("colour")
        await run.step("after", lambda: self._noted(f"{payload['name']} heard {answer}"))
        return answer

    async def breaking(self, run: Steps, _payload: Any) -> Json:
        async def fail() -> Json:
            self._folder.note("fails")
            raise ValueError("it cannot be done")

        return await run.step("fail", fail)

    async def parent_of_breaking(self, run: Children, _payload: Any) -> Json:
        child = await run.spawn("breaking", None, key="child", priority=1)
        return await run.result(child)


def kinds(path: Path) -> Mapping[str, Kind]:
    pipelines = Pipelines(path)
    return {
        "three_steps": Kind(pipeline=pipelines.three_steps),
        "limited": Kind(pipeline=pipelines.limited, limit=2),
        "family": Kind(pipeline=pipelines.family),
        "asking": Kind(pipeline=pipelines.asking),
        "breaking": Kind(pipeline=pipelines.breaking),
        "parent_of_breaking": Kind(pipeline=pipelines.parent_of_breaking),
    }
