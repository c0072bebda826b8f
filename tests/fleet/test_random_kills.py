"""Random kills of the leader and its workers: the run ends as one without kills does."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from msgspec import Struct

from tests.fleet.platforms import Platform, platform_in
from tests.fleet.runs import LedRun
from tests.racing import until
from tests.world import FILES, git

SECONDS = 600.0
SEED = 21
POLICY = """\
version: 1
supervisor:
  max_active_features: 8
  max_parallel_gate_runs: 6
"""
FILES_OF_RUN = {**FILES, "check.sh": "sleep 1\n", "agentic/orchestrator/policy.yaml": POLICY}
LEADER, WORKERS = "leader", ("one", "two", "three")


class EndState(Struct, frozen=True, kw_only=True):
    """The facts in which two runs of the same features must agree."""

    features: tuple[tuple[str, str, str], ...]
    """The name, the status and the tree of each."""
    verdicts: tuple[int, ...]
    """How many gate runs of each feature were recorded."""
    worktrees: tuple[str, ...]
    """The worktrees at the leader, by their names."""
    clones: tuple[int, ...]
    """How many worktrees each clone of a worker has, besides itself."""
    processes: str
    """What is left of the processes."""


class KilledRun:
    """A run whose leader and workers are killed at moments that a seed chooses, and started again."""

    def __init__(self, platform: Platform, count: int) -> None:
        self._platform = platform
        self.run = LedRun(platform, [f"plain_{number}" for number in range(count)])
        self._workers = {name: platform.worker(name, "--places", "2", waits=False) for name in WORKERS}
        for worker in self._workers.values():
            worker.await_start()
        self._leader = self.run.lead()

    def entries(self) -> int:
        return sum(self.run.events().values())

    def kill(self, victim: str) -> None:
        """Kill one process, and start another in its place."""
        if victim == LEADER:
            self._leader.kill()
            self._leader.wait()
            self._leader = self.run.lead("resume", "--standby", "--wait")
        else:
            self._workers[victim].process.kill()
            self._workers[victim].process.wait()
            self._workers[victim] = self._platform.worker(victim, "--places", "2", waits=False)

    def await_entries(self, number: int) -> None:
        until(lambda: self.entries() >= number or self.is_over(), seconds=SECONDS)

    def is_over(self) -> bool:
        return self._leader.poll() is not None

    def end(self) -> EndState:
        """Wait for the end of the run, end the workers in order, and return what there is then."""
        try:
            self._leader.wait(SECONDS)
        finally:
            self._leader.kill()
            self._leader.wait()
        for worker in self._workers.values():
            worker.await_start()
            assert worker.end() == 0, worker.errors.read_text()
        folder = self._platform.folder
        events = self.run.events()
        listed = git(self._platform.root, "worktree", "list", "--porcelain").splitlines()
        return EndState(
            features=self.run.trees(),
            verdicts=tuple(events[("gates_ran", name)] for name in self.run.features),
            worktrees=tuple(sorted(Path(line).name for line in listed if line.startswith("worktree "))),
            clones=tuple(len(list(path.glob("worktrees/*"))) for path in sorted(folder.glob("*/.cache/**/.git"))),
            processes=subprocess.run(["pgrep", "-af", str(folder)], capture_output=True, text=True, check=False).stdout,
        )


def compare(cluster: str, folder: Path, *, features: int, kills: int) -> None:
    """Run features without kills, then the same features with kills."""
    # A folder's name is the repository's name in the database, which the tests share.
    undisturbed, disturbed = folder / f"calm-{features}", folder / f"wild-{features}"
    undisturbed.mkdir()
    disturbed.mkdir()
    with platform_in(undisturbed, cluster, FILES_OF_RUN) as platform:
        calm = KilledRun(platform, features)
        expected, entries = calm.end(), calm.entries()
    chance = random.Random(SEED)
    # By the number of entries in the journal: so they fall where work happens, however fast the machine is. The first
    # are those of the specs; until the run itself is there, a killed `aop run` is a command that was not carried out.
    moments = sorted(chance.sample(range(features + entries // 20, entries * 9 // 10), kills))
    victims = [chance.choice((LEADER, *WORKERS)) for _ in moments]
    with platform_in(disturbed, cluster, FILES_OF_RUN) as platform:
        wild = KilledRun(platform, features)
        for moment, victim in zip(moments, victims, strict=True):
            wild.await_entries(moment)
            assert not wild.is_over(), wild.run.output().read_text()[-3000:]
            wild.kill(victim)
        found = wild.end()
        assert platform.aop("evidence", "verify").code == 0
    assert {status for _name, status, _tree in expected.features} == {"ready_to_merge"}
    assert found == expected
    assert set(found.verdicts) == {2}
    assert found.processes == ""


@pytest.mark.soak
def test_4_kills_over_8_features_change_nothing(cluster: str, tmp_path: Path) -> None:
    compare(cluster, tmp_path, features=8, kills=4)


@pytest.mark.soak
def test_20_kills_over_50_features_change_nothing(cluster: str, tmp_path: Path) -> None:
    compare(cluster, tmp_path, features=50, kills=20)
