"""What the turns of a long build cost beside model and tools, its memory, two builds at once, and going on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from statistics import median

import msgspec

from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from bench.effort import Effort
from bench.forge import put_projects
from bench.long_build import LongBuild, Moment
from bench.measurements import Budget, Measurement, after_each
from bench.scenes import Scene

POLICY = "version: 1\nforge: {build: {turns: 1000}}\n"
SHORT = 20
REPLY_SECONDS = 0.05


def build_turns(effort: Effort) -> Iterator[Measurement]:
    """Measure a build of 400 turns, the same build gone on with, and two builds at once."""
    turns = effort.operations * 2 // 5
    with closing(Scene(effort.folder, files=20)) as scene:
        scene.set_policy(POLICY)
        put_projects(scene, 0, 4)
        long = _built(scene, "p0", turns)
        yield from _turns(scene, long, effort)
        yield Measurement(
            name=f"a build of {turns} turns, memory",
            unit="MB",
            ours=long.megabytes,
            budget=Budget("at most", 250.0),
        )
        yield _resumed(scene, turns)
        yield _at_once(scene)


def _turns(scene: Scene, long: LongBuild, effort: Effort) -> Iterator[Measurement]:
    tool = _tool_milliseconds(scene, effort)
    early, late = long.asked[5 : 5 + SHORT], long.asked[-SHORT:]
    yield Measurement(
        name="a turn of a build, model that answers at once",
        ours=_median_milliseconds([each.clock for each in long.asked]),
        floor=tool,
        floor_name="its call of `list_directory`",
        budget=Budget("over", 25.0),
    )
    yield Measurement(
        name=f"turn {len(long.asked) - 1} of a build, processor time",
        ours=_median_milliseconds([each.processor for each in late]),
        floor=_median_milliseconds([each.processor for each in early]),
        floor_name="turn 10",
        budget=Budget("times", 1.3),
    )


def _tool_milliseconds(scene: Scene, effort: Effort) -> float:
    who = Principal(role=Role.FORGE_BUILDER, actor="forge_builder:bench", project="p0", build="p0-b1")
    return after_each(lambda _: None, lambda _: scene.app.gateway.call(who, "list_directory", {}), turns=effort.turns)


def _resumed(scene: Scene, turns: int) -> Measurement:
    began = time.monotonic()
    first: Moment = _built(scene, "p0", 1).asked[0]
    return Measurement(
        name=f"a build of {turns} turns that was killed, until its next reply is asked for",
        ours=(first.clock - began) * 1000,
        budget=Budget("at most", 2000.0),
    )


def _at_once(scene: Scene) -> Measurement:
    """Measure whole processes, each with a build of its own in the same repository."""
    one = _seconds(scene, ["p1"])
    return Measurement(
        name=f"two builds at once, a model that takes {REPLY_SECONDS * 1000:g} ms",
        ours=_seconds(scene, ["p2", "p3"]) * 1000,
        floor=one * 1000,
        floor_name="one build",
        budget=Budget("times", 1.3),
    )


def _seconds(scene: Scene, projects: Sequence[str]) -> float:
    began = time.monotonic()
    for process in [_process(scene, each, SHORT, REPLY_SECONDS) for each in projects]:
        _figures(process)
    return time.monotonic() - began


def _built(scene: Scene, project: str, turns: int) -> LongBuild:
    return _figures(_process(scene, project, turns, 0.0))


def _process(scene: Scene, project: str, turns: int, seconds: float) -> subprocess.Popen[bytes]:
    words = (sys.executable, "-m", "bench.long_build", str(scene.root), project, str(turns), str(seconds))
    return subprocess.Popen(words, stdout=subprocess.PIPE)


def _figures(process: subprocess.Popen[bytes]) -> LongBuild:
    said, _ = process.communicate()
    return msgspec.json.decode(said, type=LongBuild)


def _median_milliseconds(moments: Sequence[float]) -> float:
    return median(after - before for before, after in pairwise(moments)) * 1000
