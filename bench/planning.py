"""Planning the last features of a large run next to the first ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from statistics import fmean

from bench.effort import Effort
from bench.measurements import Budget, Measurement
from bench.scenes import Scene, plan_for

EARLY, LATE = slice(0, 100), slice(900, 1000)


def planning(effort: Effort) -> Iterator[Measurement]:
    """Plan a thousand features, one after the other."""
    names = [f"planned_{number}" for number in range(LATE.stop)]
    taken = []
    with closing(Scene(effort.folder, files=20)) as scene:
        scene.place(names, planned=False)
        for name in names:
            began = time.process_time()
            scene.call("plan.submit", feature_id=name, plan_json=plan_for(name, f"filled/{name}.txt"))
            taken.append((time.process_time() - began) * 1000)
    yield Measurement(
        name="planning features 901 to 1000 of a run, processor time",
        ours=fmean(taken[LATE]),
        floor=fmean(taken[EARLY]),
        floor_name="features 1 to 100",
        budget=Budget("times", 1.3),
    )
