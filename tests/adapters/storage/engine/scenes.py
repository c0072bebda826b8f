"""An engine that a test can kill: the double is dropped, the durable one lives in a process that gets SIGKILL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from aop.core.ids import RunId
from aop.core.run import RunBroke, RunState
from aop.testing.memory_engine import Memory, MemoryEngine
from tests.adapters.storage.engine.scene_pipelines import Folder, kinds

HOST = """\
import json, sys
from pathlib import Path
from aop.adapters.storage.engine.dbos import DurableEngine
from aop.core.run import RunBroke
from tests.adapters.storage.engine.scene_pipelines import kinds

class Counted(DurableEngine):
    def remembered(self):
        return sum(len(known) for known in vars(self).values() if isinstance(known, dict))

folder = Path(sys.argv[1])
engine = Counted(folder / "engine.db")
engine.start(kinds(folder))
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    name, positional, named = json.loads(line)
    try:
        print(json.dumps({"answer": getattr(engine, name)(*positional, **named)}), flush=True)
    except RunBroke as broke:
        print(json.dumps({"broke": str(broke)}), flush=True)
"""


class Scene(Protocol):
    folder: Folder

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def call(self, name: str, *positional: Any, **named: Any) -> Any: ...


class MemoryScene:
    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self._path = path
        self._memory = Memory()
        self._engine: MemoryEngine | None = None

    def start(self) -> None:
        self._engine = MemoryEngine(self._memory)
        self._engine.start(kinds(self._path))

    def kill(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def call(self, name: str, *positional: Any, **named: Any) -> Any:
        return getattr(self._engine, name)(*positional, **named)


class DurableScene:
    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self._path = path
        self._host: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._host = subprocess.Popen(
            [sys.executable, "-c", HOST, str(self._path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[4],
        )
        assert self._host.stdout is not None
        assert json.loads(self._host.stdout.readline()) == "ready"

    def kill(self) -> None:
        if self._host is not None:
            with self._host:
                self._host.kill()
            self._host = None

    def call(self, name: str, *positional: Any, **named: Any) -> Any:
        assert self._host is not None
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        self._host.stdin.write(json.dumps([name, positional, named]) + "\n")
        self._host.stdin.flush()
        said = json.loads(self._host.stdout.readline())
        if "broke" in said:
            raise RunBroke(RunId(""), said["broke"])
        return said["answer"]


def states(scene: Scene, prefix: str = "") -> dict[str, RunState]:
    return {key: RunState(state) for key, state in scene.call("states", prefix).items()}
