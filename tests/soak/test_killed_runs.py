"""`aop run` is killed at moments that chance picks, and started again: it ends as if nobody had touched it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.cli.scripted_agents import agent_command
from tests.racing import until
from tests.world import FILES, World, git, make_repository, run_aop

NAMES = ("slow_one", "slow_two", "slow_three", "slow_four", "slow_five")
DRAFTS = 4
"""How many patches the agent needs for a feature: the gates refuse what is a draft."""
SECONDS = 50.0
CHECK = "if grep -r draft src; then exit 1; fi\n"


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.req("AOP-231", "AOP-259", "AOP-286")
def test_a_run_that_is_killed_twice_ends_as_if_nobody_had_touched_it(tmp_path: Path, record_property: Any) -> None:
    survive(Killed(tmp_path, seed=3), kills=2, merges=1, record_property=record_property)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_run_that_is_killed_twenty_times_ends_as_if_nobody_had_touched_it(
    tmp_path: Path, record_property: Any
) -> None:
    survive(Killed(tmp_path, seed=20), kills=20, merges=len(NAMES), record_property=record_property)


def survive(killed: Killed, *, kills: int, merges: int, record_property: Any) -> None:
    waits = [killed.life() for _ in range(kills)]
    ended = run_aop(killed.root, *killed.words, env=killed.env)
    assert ended.code == 0, ended.err
    for name in NAMES[:merges]:
        killed.merge(name)
    assert {name: git(killed.root, "show", f"main:src/{name}.txt") for name in NAMES[:merges]} == {
        name: f"Write {name}.\n" for name in NAMES[:merges]
    }
    once = {"feature_initialised": 1, "plan_accepted": 1, "patch_applied": DRAFTS}
    expected = {name: {**once, "feature_merged": int(name in NAMES[:merges])} for name in NAMES}
    events = killed.events()
    assert {name: {kind: events[kind, name] for kind in expected[name]} for name in NAMES} == expected
    assert git(killed.root, "rev-list", "--count", "--merges", "main").strip() == str(merges)
    assert killed.left_behind() == []
    until(lambda: list(processes_at_work(killed.folder)) == [])
    resumed = [wait for wait in waits if wait is not None] or [0.0]
    record_property(
        "soak",
        f"{kills} kills of `aop run`; {len(resumed)} came to work, the slowest after {max(resumed):.2f} s,"
        f" the median after {median(resumed):.2f} s",
    )


class Killed:
    """A repository, five specs, and a run that is killed again and again."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.folder = folder
        self.root = make_repository(folder / "repo", {**FILES, "check.sh": CHECK})
        self.words = ("run", "-fl", str(folder / "specs"), "--agent-provider", "custom", "--wait")
        self.env = {"AOP_CUSTOM_AGENT": agent_command(folder / "agent")}
        self._chance = random.Random(seed)
        (folder / "specs").mkdir()
        for name in NAMES:
            (folder / "specs" / f"{name}.md").write_text(f"Write {name}.\n")

    def life(self) -> float | None:
        """Start the run, kill it some time later; return after how many seconds it worked on, if it came to that."""
        began = time.monotonic()
        child = self._started(self.words, stderr=subprocess.PIPE)
        told = Lines(child)
        if self._chance.random() < 0.2:
            wanted, longest = 0, 0.6
        else:
            wanted, longest = self._chance.randint(1, 4), 0.2
        until(lambda: len(told.at) >= wanted or child.poll() is not None, seconds=SECONDS)
        lives = _lives(child, self._chance.uniform(0.0, longest))
        assert lives, f"it ended by itself, with {child.returncode}, before it could be killed"
        child.kill()
        child.wait()
        told.join()
        return told.at[0] - began if told.at else None

    def merge(self, name: str) -> None:
        """Approve a feature and merge it; the merge is killed at some moment, and given again."""
        words = ("merge", name, "--token", run_aop(self.root, "approve", name, "--yes").out.strip())
        child = self._started(words, stderr=subprocess.DEVNULL)
        _lives(child, self._chance.uniform(0.05, 0.4))
        child.kill()
        child.wait()
        again = run_aop(self.root, *words)
        assert again.code == 0 or "merged" in again.err, again.err

    def _started(self, words: tuple[str, ...], *, stderr: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "aop.cli.main", *words],
            cwd=self.root,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, **self.env},
        )

    def events(self) -> Counter[tuple[str, str]]:
        world = World(self.root)
        with world.app.record.read() as view:
            found = Counter((entry.event.kind, str(entry.event.feature_id)) for entry in view.journal())
        assert world.call("evidence.verify").error is None
        world.close()
        return found

    def left_behind(self) -> list[str]:
        """Return what has no place in a repository where nothing is at work."""
        found = [path for folder in ("scratch", "tmp", "run") for path in (self.root / ".aop" / folder).glob("*")]
        worktrees = git(self.root, "worktree", "list", "--porcelain").split("\n\n")
        places = {line.removeprefix("worktree ") for each in worktrees for line in each.splitlines()[:1]}
        strange = places - {str(self.root), *(str(self.root / ".worktrees" / name) for name in NAMES)}
        folders = {path.name for path in (self.root / ".worktrees").iterdir()} - set(NAMES)
        return [*map(str, found), *sorted(strange), *sorted(folders)]


class Lines:
    """When a process told something, line by line."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stderr is not None
        self._stream = child.stderr
        self.at: list[float] = []
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()
        self._stream.close()

    def _listen(self) -> None:
        for _line in self._stream:
            self.at.append(time.monotonic())


def processes_at_work(folder: Path) -> Iterator[str]:
    """Yield the processes that were started with a path below a folder, or that work below it."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words, cwd = (path / "cmdline").read_bytes(), os.readlink(path / "cwd")
        except OSError:
            continue
        if str(folder).encode() in words or cwd.startswith(str(folder)):
            yield path.name


def _lives(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Tell whether a process is still there after so many seconds."""
    try:
        child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return True
    return False
