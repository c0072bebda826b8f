"""What a scaffold and a review cost beside the model, and how soon webhooks are accepted while their work goes on."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import msgspec

from aop.adapters.tickets.ledger import TicketLedger
from aop.adapters.tickets.systems.local.repositories import PushedFile
from aop.adapters.tickets.systems.local.server import Local
from bench.effort import Effort
from bench.measurements import Budget, Measurement

REHEARSED = (sys.executable, "-m", "bench.rehearsed")
HERE = Path(__file__).parents[1]
SECRET = "bench"
PATH = "/webhooks/jira/scaffolding-trigger"
LONGEST_WAIT_SECONDS = 600.0


def tickets(effort: Effort) -> Iterator[Measurement]:
    """Measure both commands as a shell sees them, with a model that answers at once; then the webhooks."""
    place = Place(effort.folder)
    turns = effort.slow_turns
    place.make([f"TURN-{number}" for number in range(1, turns + 2)])
    for kind in ("scaffold", "review"):
        before = _processor_seconds()
        taken = [place.command("ticket", kind, f"TURN-{number}") for number in range(1, turns + 2)]
        used = (_processor_seconds() - before) * 1000 / len(taken)
        name = f"aop ticket {kind} on LOCAL, without the model"
        yield Measurement(name=name, ours=median(taken[1:]), budget=Budget("at most", 1000.0))
        yield Measurement(name=f"{name}, processor time of all processes", ours=used)
    count = effort.webhooks
    place.make([f"FLOOD-{number}" for number in range(1, count + 1)])
    yield from place.flooded(count, effort.webhook_seconds)


class Place:
    """A managed repository, and LOCAL."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "managed"
        folder.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.local = Local(folder / "local", os.environ)
        self.local.repositories.create_project("group/orders", [PushedFile(path="README.md", content="# Orders\n")])
        (folder / "local" / "docs").mkdir()
        (folder / "local" / "docs" / "standards.md").write_text("# Standards\n")
        self.env = {
            **os.environ,
            "VCS_PROVIDER": "LOCAL",
            "TRACKER_PROVIDER": "LOCAL",
            "KNOWLEDGE_PROVIDER": "LOCAL",
            "AOP_LOCAL_FOLDER": str(folder / "local"),
            "WORKFLOW_STATE_INITIAL": "To Do",
            "WORKFLOW_STATE_SUCCESS": "In Review",
            "ARCHITECTURE_DOC_PAGE_ID": "standards",
            "PYTHONPATH": str(HERE),
            "JIRA_WEBHOOK_SECRET": SECRET,
            "SCAFFOLDING_TRIGGER_STATE": "In Progress",
        }

    def make(self, keys: list[str]) -> None:
        """Make tickets, each with a branch of its own."""
        for key in keys:
            self.local.tickets.create(key, "Orders", _description(key))

    def command(self, *words: str) -> float:
        """Return how long a command took, in milliseconds."""
        began = time.perf_counter()
        subprocess.run([*REHEARSED, *words], cwd=self.root, env=self.env, capture_output=True, check=True)
        return (time.perf_counter() - began) * 1000

    def flooded(self, count: int, seconds: float) -> Iterator[Measurement]:
        """Deliver so many, evenly, and wait until all of them were worked on."""
        began = time.perf_counter()
        with self._served() as origin:
            taken = asyncio.run(_delivered(origin, count, seconds))
            self._until_ended(count)
        whole = time.perf_counter() - began
        slowest = Measurement(
            name=f"a webhook is accepted, the slowest of {count}", ours=max(taken), budget=Budget("at most", 100.0)
        )
        yield Measurement(name=f"a webhook is accepted, {count} in {seconds:g} s", ours=median(taken))
        yield slowest
        yield Measurement(name="webhooks taken and scaffolded", unit="/s", ours=count / whole)

    @contextmanager
    def _served(self) -> Iterator[str]:
        words = [*REHEARSED, "serve", "--port", "0", "--json"]
        process = subprocess.Popen(
            words, cwd=self.root, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["data"]["url"].removesuffix("/mcp")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)

    def _until_ended(self, count: int) -> None:
        ledger = TicketLedger(self.root / ".aop" / "tickets" / "ledger.db")
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while True:
            states = [run["state"] for run in ledger.runs() if run["ticket"].startswith("FLOOD")]
            if states.count("scaffolded") == count:
                return
            if time.monotonic() > deadline or "failed" in states:
                raise RuntimeError(f"not all were scaffolded: {sorted(set(states))}")
            time.sleep(0.2)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _delivered(origin: str, count: int, seconds: float) -> list[float]:
    """Deliver evenly over the time; return how long each answer took, in milliseconds."""
    async with httpx2.AsyncClient(timeout=60) as client:

        async def deliver(number: int) -> float:
            await asyncio.sleep(number * seconds / count)
            body = _delivery(f"FLOOD-{number}")
            signature = hmac.new(SECRET.encode(), body, "sha256").hexdigest()
            headers = {"Content-Type": "application/json", "X-Hub-Signature": f"sha256={signature}"}
            began = time.perf_counter()
            answer = await client.post(origin + PATH, content=body, headers=headers)
            assert answer.status_code == 202, answer.text
            return (time.perf_counter() - began) * 1000

        return await asyncio.gather(*(deliver(number) for number in range(1, count + 1)))


def _delivery(key: str) -> bytes:
    moved = {"field": "status", "fromString": "To Do", "toString": "In Progress"}
    told: dict[str, Any] = {"issue": {"key": key}, "changelog": {"items": [moved]}}
    return msgspec.json.encode({"webhookEvent": "jira:issue_updated", **told})


def _description(key: str) -> str:
    return f"""```yaml
scaffolding:
  version: "1.0"
  technology_stack: python
  target: {{gitlab_project_path: group/orders, branch_slug: feature/{key}}}
  parameters: {{service_name: orders, description: Takes orders., owner_team: payments}}
```"""
