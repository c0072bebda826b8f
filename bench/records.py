"""What only the record decides: reading it and adding to it while it grows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from statistics import median

from aop.core.roles import Role
from bench.effort import Effort
from bench.measurements import Budget, Measurement, in_turns, one_by_one
from bench.scenes import Scene, patch_of, plan_for, source_file


def dashboard(effort: Effort) -> Iterator[Measurement]:
    """Measure `report.dashboard` next to reading the same rows with plain SQL."""
    for features, limit in ((200, 5.0), (1000, 20.0)):
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
    with (
        closing(Scene(effort.folder / "few", files=20)) as few,
        closing(Scene(effort.folder / "many", files=20)) as many,
    ):
        few.place([f"placed_{number}" for number in range(5)], planned=True)
        many.place([f"placed_{number}" for number in range(1000)], planned=True)
        took, floor = in_turns(_submissions(many, effort), _submissions(few, effort), turns=effort.turns)
        yield Measurement(
            name="plan.submit, 1000 features",
            ours=took,
            floor=floor,
            floor_name="the same, 5 features",
            budget=Budget("times", SAME),
        )


def thousandth_operation(effort: Effort) -> Iterator[Measurement]:
    """Measure the last of many operations on one feature next to the first ones."""
    path = source_file(0)
    with closing(Scene(effort.folder, files=20)) as scene:
        scene.begin("patched", path)
        scene.begin("planned", source_file(1))

        def patch(turn: int) -> object:
            diff = patch_of(path, old=turn)
            return scene.call("repo.apply_patch", role=Role.BUILDER, feature_id="patched", unified_diff=diff)

        def replan(turn: int) -> object:
            plan = plan_for("planned", source_file(1), version=turn + 2)
            return scene.call("plan.update", feature_id="planned", expected_plan_version=turn + 1, plan_json=plan)

        for name, act in (("plan.update", replan), ("repo.apply_patch", patch)):
            took = one_by_one(act, turns=effort.operations)
            few = max(10, effort.operations // 20)
            yield Measurement(
                name=f"{name}, the {effort.operations}th on one feature",
                ours=median(took[-few:]),
                floor=median(took[:few]),
                floor_name="the same, the first",
                budget=Budget("times", SAME),
            )


SAME = 1.25
"""Two medians of the same work differ by as much on a busy machine."""


def _submissions(scene: Scene, effort: Effort) -> Callable[[int], object]:
    names = [f"fresh_{turn}" for turn in range(effort.turns + 1)]
    scene.place(names, planned=False)
    return lambda turn: scene.call(
        "plan.submit", feature_id=names[turn], plan_json=plan_for(names[turn], f"filled/{names[turn]}.txt")
    )
