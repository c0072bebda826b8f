"""Builds of the forge: writing a file, errors that come again and again, and the turns of a long build."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from statistics import median

import msgspec

from aop.core.roles import Role
from aop.forge.builds.documents import BuildCycle, branch_of
from aop.forge.projects.documents import ForgeBuild, ForgeProject
from aop.kernel.gateway.principals import Principal
from bench.effort import Effort
from bench.forge import put_projects
from bench.long_build import LongBuild, Moment
from bench.measurements import Budget, Measurement, after_each, in_turns
from bench.scenes import Scene, git

PATH = "src/page.py"


def write_file(effort: Effort) -> Iterator[Measurement]:
    """Measure `write_file` in a small repository and in a large one."""
    for files in effort.files:
        with closing(Scene(effort.folder / str(files), files=files)) as scene:
            yield _written(scene, files, effort)


def _written(scene: Scene, files: int, effort: Effort) -> Measurement:
    put_projects(scene, 0, 1, versions=effort.versions)
    build = scene.call("forge.build_begin", project_id="p0")["build_id"]
    coder = Principal(role=Role.CODER, actor="coder:bench", project="p0", build=build)
    raw = scene.root.parent / f"raw{files}"
    git(scene.root, "worktree", "add", "-q", "--detach", str(raw), "main")
    (raw / PATH).parent.mkdir(parents=True, exist_ok=True)

    def ours(turn: int) -> None:
        answer = scene.app.gateway.call(coder, "write_file", {"path": PATH, "content": _content(turn)})
        if not answer.ok:
            raise AssertionError(answer.error)

    def floor(turn: int) -> None:
        (raw / PATH).write_text(_content(turn))
        oid = git(raw, "hash-object", "-w", PATH).decode().strip()
        git(raw, "update-index", "--add", "--cacheinfo", f"100644,{oid},{PATH}")
        git(raw, "write-tree")

    took, bare = in_turns(ours, floor, turns=effort.turns)
    return Measurement(
        name=f"write_file, {files} files",
        ours=took,
        floor=bare,
        floor_name="git hash-object -w, update-index, write-tree",
        budget=Budget("times", 3.0),
    )


def _content(turn: int) -> str:
    return f"def page():\n    return {turn}\n" * 100


NOW = "2026-01-02T08:00:00.000Z"
BUILD = "shop-b1"
A_CALL = 100
MESSAGE = "File \"src/shop/cart.py\", line {}, in total\nNameError: name 'price' is not defined at 0x{:x}"


def build_errors(effort: Effort) -> Iterator[Measurement]:
    """Measure errors one a call, and many a call as the runner sends those of one log; all of them are one row."""
    errors = effort.build_errors
    with closing(Scene(effort.folder, files=20)) as scene, closing(_plain_row(scene)) as database:
        _begin(scene)
        took, floor = in_turns(
            lambda number: _track(scene, [number]),
            lambda number: _count(database, number),
            turns=effort.turns * 8,
        )
        began = time.perf_counter()
        for first in range(0, errors, A_CALL):
            _track(scene, range(first, min(first + A_CALL, errors)))
        each = (time.perf_counter() - began) * 1000 / errors
        rows = scene.call("forge.errors_list", build_id=BUILD)["errors"]
        if [row["occurrence_count"] for row in rows] != [errors + effort.turns * 8 + 1]:
            raise RuntimeError(f"Equal errors are {len(rows)} rows.")
    yield Measurement(
        name="an error of a build that was seen before",
        ours=took,
        floor=floor,
        floor_name="one durable UPDATE",
        budget=Budget("over", 2.0),
    )
    yield Measurement(
        name=f"{errors} equal errors of a build, {A_CALL} a call, each", ours=each, budget=Budget("at most", 2.0)
    )


def _track(scene: Scene, numbers: Iterable[int]) -> None:
    seen = [{"message": MESSAGE.format(number, number)} for number in numbers]
    scene.call("forge.error_track", build_id=BUILD, errors=seen)


def _plain_row(scene: Scene) -> sqlite3.Connection:
    """Open a database of one row that waits for the disk as the record does."""
    database = sqlite3.connect(scene.root / "floor.db")
    for line in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE errors (count)"):
        database.execute(line)
    database.execute("INSERT INTO errors VALUES (0)")
    database.commit()
    return database


def _count(database: sqlite3.Connection, number: int) -> None:
    database.execute("UPDATE errors SET count = ?", (number,))
    database.commit()


def _begin(scene: Scene) -> None:
    """Put a build that has begun into the record; errors need no branch of it."""
    head = git(scene.root, "rev-parse", "HEAD").decode().strip()
    with scene.app.record.write() as tx:
        tx.put(ForgeProject(version=1, project_id="shop", name="shop", created_at=NOW, updated_at=NOW), "shop")
        tx.put(ForgeBuild(version=1, build_id=BUILD, project_id="shop", batch=1, sha256="0", pinned_at=NOW), BUILD)
        tx.put(
            BuildCycle(
                version=1,
                build_id=BUILD,
                project_id="shop",
                branch=branch_of(BUILD),
                baseline_sha=head,  # type: ignore[arg-type]
                head=head,  # type: ignore[arg-type]
                created_at=NOW,
                updated_at=NOW,
            ),
            BUILD,
        )


POLICY = "version: 1\nforge: {build: {turns: 1000}}\n"
MOST_TURNS = 20
"""How many turns of a long build are compared with each other, and how many a short build has."""
REPLY_SECONDS = 0.05


def build_turns(effort: Effort) -> Iterator[Measurement]:
    """Measure a build of many turns, the same build gone on with, and two builds at once."""
    turns = effort.build_turns
    with closing(Scene(effort.folder, files=20)) as scene:
        scene.set_policy(POLICY)
        put_projects(scene, 0, 4, versions=effort.versions)
        long = _built(scene, "p0", turns)
        yield from _turns(scene, long, effort)
        yield Measurement(
            name=f"a build of {turns} turns, memory",
            unit="MB",
            ours=long.megabytes,
            budget=Budget("at most", 250.0),
        )
        yield _resumed(scene, turns)
        yield _at_once(scene, short=_short(effort))


def _turns(scene: Scene, long: LongBuild, effort: Effort) -> Iterator[Measurement]:
    tool = _tool_milliseconds(scene, effort)
    short, warm_up = _short(effort), min(5, effort.build_turns // 2)
    early, late = long.asked[warm_up : warm_up + short], long.asked[-short:]
    yield Measurement(
        name="a turn of a build, model that answers at once",
        ours=_median_milliseconds([each.clock for each in long.asked]),
        floor=tool,
        floor_name="its call of `list_directory`",
        budget=Budget("over", 25.0),
    )
    yield Measurement(
        name=f"the last turns of a build of {effort.build_turns}, processor time",
        ours=_median_milliseconds([each.processor for each in late]),
        floor=_median_milliseconds([each.processor for each in early]),
        floor_name=f"turns {warm_up + 1} to {warm_up + short}",
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


def _short(effort: Effort) -> int:
    return min(MOST_TURNS, effort.build_turns // 2)


def _at_once(scene: Scene, *, short: int) -> Measurement:
    """Measure whole processes, each with a build of its own in the same repository."""
    one = _seconds(scene, ["p1"], short)
    return Measurement(
        name=f"two builds at once, a model that takes {REPLY_SECONDS * 1000:g} ms",
        ours=_seconds(scene, ["p2", "p3"], short) * 1000,
        floor=one * 1000,
        floor_name="one build",
        budget=Budget("times", 1.3),
    )


def _seconds(scene: Scene, projects: Sequence[str], turns: int) -> float:
    began = time.monotonic()
    for process in [_process(scene, each, turns, REPLY_SECONDS) for each in projects]:
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
