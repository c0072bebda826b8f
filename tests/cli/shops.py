"""A repository with specs beside it and an agent, for tests of `aop run` and of what steers it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from aop.adapters.machine.supervisor_lease import holder_of
from tests.cli.scripted_agents import agent_command
from tests.racing import until
from tests.world import FILES, Ran, World, make_repository, run_aop

SECONDS = 300.0
GRACE_SECONDS = 20.0
_made: list[Shop] = []


class Shop:
    """A managed repository, a folder of specs beside it, and an agent."""

    def __init__(self, folder: Path, policy: str = "version: 1\n") -> None:
        self.root = make_repository(folder / "repo", {**FILES, "agentic/orchestrator/policy.yaml": policy})
        self.specs = folder / "specs"
        self.specs.mkdir()
        self.agent = folder / "agent"
        self.env = {"AOP_CUSTOM_AGENT": agent_command(self.agent), "AOP_AGENT_PROVIDER": "custom"}
        self._children: list[subprocess.Popen[bytes]] = []
        _made.append(self)

    def close(self) -> None:
        """End what is left of a test that failed: its supervisor, and the processes that it started; each by its id."""
        for child in self._children:
            child.kill()
            child.wait()
        holder = holder_of(self.root / ".aop/supervisor.lock")
        for number in (signal.SIGTERM, signal.SIGKILL):
            if holder is not None and holder.pid and self.is_supervised():
                os.kill(holder.pid, number)
                with suppress(AssertionError):
                    until(lambda: not self.is_supervised(), seconds=GRACE_SECONDS)
        for pid in agents_alive(self) if holder or self._children else ():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def wants(self, *names: str) -> None:
        for name in names:
            (self.specs / f"{name}.md").write_text(f"Write {name}.\n")

    def run(self, *words: str, env: dict[str, str] | None = None) -> Ran:
        return run_aop(self.root, "run", *words, env=self.env if env is None else env)

    def all_at_once(self, *words: str) -> Ran:
        return self.run("-fl", str(self.specs), "--wait", *words)

    def started(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a run that a test will kill."""
        child = subprocess.Popen(
            [sys.executable, "-m", "aop.cli.main", "run", "-fl", str(self.specs), *words],
            cwd=self.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self.env},
        )
        self._children.append(child)
        return child

    def statuses(self) -> dict[str, str]:
        rows = json.loads(run_aop(self.root, "status", "--json").out)["data"]["features"]
        return {row["feature_id"]: row["status"] for row in rows}

    def events(self) -> Counter[tuple[str, str]]:
        world = World(self.root)
        with world.app.record.read() as view:
            found = Counter((entry.event.kind, str(entry.event.feature_id)) for entry in view.journal())
        world.close()
        return found

    def aop(self, *words: str) -> Ran:
        return run_aop(self.root, *words, env=self.env)

    def is_supervised(self) -> bool:
        return holder_of(self.root / ".aop/supervisor.lock") is not None

    def log(self) -> str:
        """Return what the supervisor in the background said."""
        return (self.root / ".aop/supervisor.log").read_text()

    def until_supervisor_ended(self) -> None:
        until(lambda: not self.is_supervised(), seconds=SECONDS)

    def turns(self) -> list[tuple[str, list[Any]]]:
        """Return the finished turns: the role of each, and the numbers of the objections that it was given."""
        world = World(self.root)
        with world.app.record.read() as view:
            events = [entry.event for entry in view.journal(kinds=("turn_taken", "change_requests_given"))]
        world.close()
        found: list[tuple[str, list[Any]]] = []
        given: list[Any] = []
        for event in events:
            if event.kind == "turn_taken":
                found.append((str(event.payload["worker"]), given))
            numbers = event.payload.get("numbers", [])
            given = numbers if isinstance(numbers, list) else []
        return found

    def turns_in_progress(self) -> int:
        return sum(1 for _ in (self.root / ".aop" / "tmp").glob("*/in")) if (self.root / ".aop/tmp").is_dir() else 0


def close_shops() -> None:
    """Close every shop that the test which just ended has made."""
    while _made:
        _made.pop().close()


def error_of(ran: Ran) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(ran.out)["error"]
    return error


def agents_alive(shop: Shop) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if str(shop.agent / "agent.py").encode() in words:
            found.append(path.parent.name)
    return found
