"""What only the record decides: reading it and adding to it while it grows, and planning a large run."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from statistics import fmean

from aop.core.roles import Role
from bench.effort import Effort
from bench.measurements import Act, Budget, Measurement, in_turns
from bench.scenes import Scene, patch_of, plan_for, source_file


def dashboard(effort: Effort) -> Iterator[Measurement]:
    """Measure `report.dashboard` next to reading the same rows with plain SQL."""
    for features, limit in ((effort.features_listed, 5.0), (effort.features_most, 20.0)):
        with closing(Scene(effort.folder / str(features), files=20)) as scene:
            scene.place([f"placed_{number}" for number in range(features - 1)], planned=True)
            yield _dashboard(scene, features, limit, effort)


def _dashboard(scene: Scene, features: int, limit: float, effort: Effort) -> Measurement:
    with closing(sqlite3.connect(scene.root / ".aop" / "record.db")) as database:
        took, floor = in_turns(
            lambda _: scene.call("report.dashboard"),
            lambda _: database.execute("SELECT body FROM documents WHERE kind = 'feature'").fetchall(),
            turns=effort.turns,
        )
    return Measurement(
        name=f"report.dashboard, {features} features",
        ours=took,
        floor=floor,
        floor_name="SELECT",
        budget=Budget("at most", limit),
    )


def plan_submit(effort: Effort) -> Iterator[Measurement]:
    """Measure `plan.submit` among many features next to the same among few."""
    yield submitted_among_many(effort, "plan.submit", SAME)


def submitted_among_many(effort: Effort, name: str, limit: float, database: str = "") -> Measurement:
    """Measure `plan.submit` among many features next to the same among 5, in a file or in a database."""
    with (
        closing(Scene(effort.folder / "few", files=20, database=database)) as few,
        closing(Scene(effort.folder / "many", files=20, database=database)) as many,
    ):
        few.place([f"placed_{number}" for number in range(5)], planned=True)
        many.place([f"placed_{number}" for number in range(effort.features_most)], planned=True)
        took, floor = in_turns(submissions(many, effort), submissions(few, effort), turns=effort.turns)
        return Measurement(
            name=f"{name}, {effort.features_most} features",
            ours=took,
            floor=floor,
            floor_name="the same, 5 features",
            budget=Budget("times", limit),
        )


def history(effort: Effort) -> Iterator[Measurement]:
    """Measure calls on a feature that has had many before, next to the same on one that has had none."""
    with closing(Scene(effort.folder / "old", files=20)) as old, closing(Scene(effort.folder / "new", files=20)) as new:
        for tool, calls in (("plan.update", revisions), ("repo.apply_patch", _patches)):
            late, early = calls(old), calls(new)
            for number in range(effort.operations):
                late(number)
            took, floor = in_turns(partial(_later, late, effort.operations), early, turns=effort.turns)
            yield Measurement(
                name=f"{tool} after {effort.operations} on the same feature",
                ours=took,
                floor=floor,
                floor_name="the same, the first",
                budget=Budget("times", SAME),
            )


SAME = 1.25
"""Two medians of the same work differ by as much on a busy machine."""


def submissions(scene: Scene, effort: Effort) -> Act:
    """Return what submits the plan of another feature each time."""
    names = [f"fresh_{turn}" for turn in range(effort.turns + 1)]
    scene.place(names, planned=False)
    return lambda turn: scene.call(
        "plan.submit", feature_id=names[turn], plan_json=plan_for(names[turn], f"filled/{names[turn]}.txt")
    )


def revisions(scene: Scene) -> Act:
    """Return what revises the plan of one feature each time."""
    path = source_file(0)
    scene.begin("planned", path)

    def revise(turn: int) -> object:
        plan = plan_for("planned", path, version=turn + 2)
        return scene.call("plan.update", feature_id="planned", expected_plan_version=turn + 1, plan_json=plan)

    return revise


def _patches(scene: Scene) -> Act:
    path = source_file(1)
    scene.begin("patched", path)

    def patch(turn: int) -> object:
        diff = patch_of(path, old=turn)
        return scene.call("repo.apply_patch", role=Role.BUILDER, feature_id="patched", unified_diff=diff)

    return patch


def _later(act: Act, number: int, turn: int) -> object:
    return act(number + turn)


def planning(effort: Effort) -> Iterator[Measurement]:
    """Plan many features, one after the other."""
    names = [f"planned_{number}" for number in range(effort.features_most)]
    taken = []
    with closing(Scene(effort.folder, files=20)) as scene:
        scene.place(names, planned=False)
        for name in names:
            began = time.process_time()
            scene.call("plan.submit", feature_id=name, plan_json=plan_for(name, f"filled/{name}.txt"))
            taken.append((time.process_time() - began) * 1000)
    tenth = len(names) // 10
    yield Measurement(
        name=f"planning features {len(names) - tenth + 1} to {len(names)} of a run, processor time",
        ours=fmean(taken[-tenth:]),
        floor=fmean(taken[:tenth]),
        floor_name=f"features 1 to {tenth}",
        budget=Budget("times", 1.3),
    )
