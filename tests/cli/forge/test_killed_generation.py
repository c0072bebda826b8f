"""A generation that is killed with SIGKILL at any moment goes on at the turn it was at."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from aop.forge.contracts.types import ContractType
from tests.brains.endpoints import Step
from tests.forge.generation.writers import (
    ALL_TURNS,
    WriterEndpoint,
    digests_in,
    env_for,
    new_project,
    writing,
    written,
)
from tests.world import run_aop

RUNS = Path(".aop/forge/runs")


class KilledGenerations:
    """Generations of one project that are killed around chosen requests until one is left alone."""

    def __init__(self, root: Path, project: str, chance: random.Random) -> None:
        self.root = root
        self.project = project
        self.chance = chance
        self.process: subprocess.Popen[bytes] | None = None
        self.repeated: list[str] = []
        self.timer: threading.Timer | None = None
        self.countdown = -1

    def reply(self, each: ContractType, turn: int) -> Step:
        """Answer like the demo's model; with the last of a countdown, kill who asked, now or a little later."""
        if f"{each}/reply_{turn}" in self.finished:
            self.repeated.append(f"{each}/reply_{turn}")
        self.countdown -= 1
        if self.countdown == 0:
            self.timer = threading.Timer(self.chance.random() * 0.05, self.kill)
            self.timer.start()
        return written("greenfield")(each, turn)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)

    def run(self, server: WriterEndpoint, *, kill_after: int) -> int:
        """Run the command, and kill it after so many requests (never if 0); return how it ended."""
        self.finished, self.countdown = self.recorded(), kill_after
        with subprocess.Popen(
            [sys.executable, "-m", "aop.cli.main", "forge", "generate", self.project, "--json"],
            cwd=self.root,
            stdout=subprocess.PIPE,
            env={**os.environ, "USER": "ada", **env_for("anthropic", server)},
        ) as self.process:
            self.out, _ = self.process.communicate(timeout=120)
        if self.timer is not None:
            self.timer.join()
        return self.process.returncode

    def recorded(self) -> list[str]:
        """Return the turns that are finished."""
        file = self.root / RUNS / f"{self.project}.steps"
        lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
        return [json.loads(line)["step"] for line in lines]


def killed_and_resumed(root: Path, kills: int, seed: int) -> None:
    project = new_project("greenfield", root)
    generations = KilledGenerations(root, project, random.Random(seed))
    with writing("anthropic", generations.reply) as server:
        ended = [generations.run(server, kill_after=generations.chance.randint(1, 4)) for _ in range(kills)]
        if 0 not in ended:
            assert generations.run(server, kill_after=0) == 0
            data = json.loads(generations.out)["data"]
        else:
            data = run_aop(root, "forge", "show", project, "--json").json["data"]
    assert -signal.SIGKILL in ended
    assert generations.repeated == []
    assert digests_in(data) == expected_digests(root)
    assert set(server.asked) == set(ALL_TURNS)
    shown = run_aop(root, "forge", "show", project, "--json").json["data"]
    assert (shown["batch"], digests_in(shown)) == (1, digests_in(data))
    assert list((root / RUNS).iterdir()) == []


def expected_digests(root: Path) -> dict[str, str]:
    """Return the digests of a generation that nobody disturbs."""
    project = new_project("greenfield", root.with_name("calm"))
    with writing("anthropic", written("greenfield")) as server:
        ran = run_aop(root.with_name("calm"), "forge", "generate", project, "--json", env=env_for("anthropic", server))
    return digests_in(ran.json["data"])


@pytest.mark.slow
@pytest.mark.req("FORGE-150")
def test_a_generation_that_is_killed_three_times_writes_the_same_nine(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path / "repo", kills=3, seed=7)


@pytest.mark.soak
def test_a_generation_that_is_killed_at_twenty_moments_writes_the_same_nine(tmp_path: Path) -> None:
    for seed in range(5):
        killed_and_resumed(tmp_path / f"{seed}" / "repo", kills=4, seed=seed)
