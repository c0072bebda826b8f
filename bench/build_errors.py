"""What an error of a build costs that comes again and again, each time with another line number."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing

from aop.forge.builds.documents import BuildCycle, branch_of
from aop.forge.projects.documents import ForgeBuild, ForgeProject
from bench.effort import Effort
from bench.measurements import Budget, Measurement, in_turns
from bench.scenes import Scene, git

NOW = "2026-01-02T08:00:00.000Z"
BUILD = "shop-b1"
A_CALL = 100
MESSAGE = "File \"src/shop/cart.py\", line {}, in total\nNameError: name 'price' is not defined at 0x{:x}"


def build_errors(effort: Effort) -> Iterator[Measurement]:
    """Measure errors one a call, and many a call as the runner sends those of one log; all of them are one row."""
    errors = effort.operations * 10
    with closing(Scene(effort.folder, files=20)) as scene, closing(_plain_row(scene)) as database:
        _begin(scene)
        took, floor = in_turns(
            lambda number: _track(scene, [number]),
            lambda number: _count(database, number),
            turns=effort.turns * 8,
        )
        began = time.perf_counter()
        for first in range(0, errors, A_CALL):
            _track(scene, range(first, first + A_CALL))
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
