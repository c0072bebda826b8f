"""A build that is killed with SIGKILL at any moment goes on where it was, and ends as if nobody had touched it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forge.builds.notes_app import BASE, PHASE_0, PHASE_1
from tests.forge.builds.run.builders import (
    BUILD,
    BUILDING_1,
    DONE_0,
    FETCH_0,
    PROJECT,
    SIGNED_0,
    SIGNED_1,
    WRITTEN_0,
    Said,
    notes_repository,
)
from tests.forge.builds.run.endpoint import BuilderEndpoint, building
from tests.forge.generation.writers import env_for
from tests.racing import until
from tests.world import git

BRANCH = f"forge/build-{BUILD}"
ASKED = ("forge_ask_clarification", {"question": "Which colour?"})
SCRIPT = (Said(calls=(*FETCH_0, ASKED)), WRITTEN_0, DONE_0, SIGNED_0, *BUILDING_1, SIGNED_1)
LONGEST_SECONDS = 300.0
KILLED = -9


class KilledBuild:
    """A build of Notes whose process is killed again and again; a person answers what it asks."""

    def __init__(self, folder: Path, server: BuilderEndpoint, seed: int) -> None:
        self.world = notes_repository(folder / "repo")
        self.root = self.world.root
        self._server = server
        self._chance = random.Random(seed)
        self.repeated: list[int] = []

    def life(self, *, killed: bool = True) -> int:
        """Run the command, and kill it at a moment that chance picks; return how it ended."""
        finished, heard = self._finished_replies(), len(self._server.asked)
        wanted, longest = self._chance.choice([(0, 2.0), (1, 0.5), (1, 2.0), (2, 1.0)])
        with subprocess.Popen(
            [sys.executable, "-m", "aop.cli.main", "forge", "build", PROJECT],
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "USER": "ada", **env_for("openai", self._server)},
        ) as child:
            if killed:
                self._until(child, lambda: len(self._server.asked) - heard >= wanted)
                moment = threading.Timer(self._chance.uniform(0.0, longest), child.kill)
                moment.start()
            self._until(child, lambda: False)
            assert child.stdout is not None
            self.said = child.stdout.read().decode()
        self.repeated += [turn for turn in self._server.asked[heard:] if turn <= finished]
        return child.returncode

    def _until(self, child: subprocess.Popen[bytes], is_time: Callable[[], bool]) -> None:
        """Answer what is asked until it is time, or the process has ended."""

        def is_over() -> bool:
            self._answer()
            return child.poll() is not None or is_time()

        until(is_over, seconds=LONGEST_SECONDS)

    def _answer(self) -> None:
        for question in self.world.ok("inbox.list")["questions"]:
            given = {"project_id": PROJECT, "question_id": question["question_id"], "answer": "Blue."}
            self.world.call("forge.clarify", **given)

    def _finished_replies(self) -> int:
        file = self.root / f".aop/forge/runs/{BUILD}.steps"
        lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
        return sum(json.loads(line)["step"].startswith("reply_") for line in lines)

    def files(self) -> dict[str, str]:
        """Return the files of the branch."""
        names = git(self.root, "ls-tree", "-r", "--name-only", BRANCH).splitlines()
        return {name: git(self.root, "show", f"{BRANCH}:{name}") for name in names}

    def events(self, *kinds: str) -> list[str]:
        with self.world.app.record.read() as view:
            return [entry.event.kind for entry in view.journal(kinds=kinds)]

    def left_behind(self) -> list[str]:
        """Return what has no place in a repository where nothing is at work."""
        found = [*(self.root / ".aop/forge/runs").glob("*")]
        found += [path for folder in ("scratch", "tmp", "run") for path in (self.root / ".aop" / folder).glob("*")]
        return [str(path.relative_to(self.root)) for path in found]


def processes_below(folder: Path) -> list[str]:
    """Return the processes that work below a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            cwd = os.readlink(path / "cwd")
        except OSError:
            continue
        if cwd.startswith(str(folder)) and path.name != str(os.getpid()):
            found.append(path.name)
    return found


def survive(folder: Path, *, kills: int, seed: int) -> int:
    """Kill one build so many times, or until it has ended before; return how often it was killed."""
    with building(SCRIPT) as server:
        build, ending, killed = KilledBuild(folder, server, seed), KILLED, 0
        while ending == KILLED and killed < kills:
            ending = build.life()
            killed += ending == KILLED
        if ending == KILLED:
            ending = build.life(killed=False)
    assert ending == 0, build.said
    assert (build.repeated, sorted(set(server.asked))) == ([], list(range(1, len(SCRIPT) + 1)))
    assert build.files() == {**BASE, **PHASE_0, **PHASE_1}
    subjects = git(build.root, "log", "--reverse", "--format=%s", f"main..{BRANCH}").splitlines()
    assert subjects == [
        "[forge] Phase 0, task 1: Write the store and its tests",
        "[forge] Phase 1, task 1: Answer for notes, and say how to run it",
        "[forge] sealed — verdict: CERTIFIED",
    ]
    once = ("build_began", "build_clarification_request", "build_sealed")
    assert sorted(build.events(*once)) == sorted(once)
    assert build.events("plan_complete", "phase_complete") == ["plan_complete", "phase_complete"] * 2
    assert build.world.ok("forge.build_verify_seal", build_id=BUILD)["valid"]
    assert build.left_behind() == []
    until(lambda: processes_below(folder) == [])
    build.world.close()
    return killed


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_build_that_is_killed_three_times_ends_as_if_nobody_had_touched_it(tmp_path: Path) -> None:
    assert survive(tmp_path, kills=3, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_builds_that_are_killed_twenty_times_end_as_if_nobody_had_touched_them(tmp_path: Path) -> None:
    left, seed = 20, 0
    while left > 0:
        seed += 1
        left -= survive(tmp_path / str(seed), kills=left, seed=seed)
