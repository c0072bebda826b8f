"""A leader in this process, whose gates run on real workers, and what its record says of them in the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from tests.fleet.hosts import Hosts
from tests.fleet.platforms import Platform, WorkerProcess
from tests.world import World, files

PLACES = 2


class Leader:
    """A repository with features, each of which changes a file of its own."""

    def __init__(self, root: Path, env: Mapping[str, str], features: int = 1) -> None:
        self._world = World(root, {"AOP_DATABASE": "", "AOP_HUB": "", **env})
        self._root = root
        self.calls = 0
        self._versions = dict.fromkeys((f"feature_{number}" for number in range(features)), 0)
        for name in self._versions:
            self._world.plan(name, files=files(create=(f"src/{name}.txt",)))

    def close(self) -> None:
        self._world.close()

    def change(self, feature: str = "feature_0") -> None:
        """Have another tree, so that the commit of the next gates is one that no machine has yet."""
        path, old = f"src/{feature}.txt", self._versions[feature]
        self._versions[feature] = old + 1
        before = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n" if old else ""
        diff = before or f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n"
        self._world.patch(feature, f"{diff}+{old + 1}\n")

    def run_gates(self, feature: str = "feature_0") -> None:
        """Run the gates once more."""
        self.calls += 1
        self._world.ok("gates.run", feature_id=feature, mode="fast", force=True)

    def gate_seconds(self, rounds: int) -> list[float]:
        """Run gates of a new commit each time; return how long each took, without the first."""
        taken = []
        for _ in range(rounds + 1):
            self.change()
            began = time.perf_counter()
            self.run_gates()
            taken.append(time.perf_counter() - began)
        return taken[1:]

    def gates_per_second(self, rounds: int) -> float:
        """Run the gates of all features at once, some times each."""

        def run(feature: str) -> None:
            for _ in range(rounds):
                self.run_gates(feature)

        for feature in self._versions:
            self.change(feature)
        began = time.perf_counter()
        with ThreadPoolExecutor(len(self._versions)) as threads:
            tuple(threads.map(run, self._versions))
        return rounds * len(self._versions) / (time.perf_counter() - began)

    def recorded(self) -> int:
        """Return how many gate runs the files of the record have."""
        return sum(1 for _ in self._root.glob("agentic/features/*/evidence/*.json"))


def start_workers(platform: Platform, machines: Hosts, numbers: Sequence[int]) -> dict[int, WorkerProcess]:
    """Start a worker on each of some hosts, at once; one that replaces another has a folder of its own."""
    started = {
        number: platform.worker(
            f"host{number}-{uuid4().hex[:8]}", "--places", str(PLACES), prefix=machines.prefix(number), waits=False
        )
        for number in numbers
    }
    for worker in started.values():
        worker.await_start()
    return started
