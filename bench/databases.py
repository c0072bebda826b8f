"""The record on PostgreSQL next to the record in a file: what a call costs the process that makes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from bench.effort import Effort
from bench.measurements import Act, Budget, Measurement, Skipped, in_turns
from bench.records import revisions, submissions, submitted_among_many
from bench.scenes import Scene
from tests.adapters.storage.postgres_clusters import programs, running_cluster

MOST = 2.0
"""The processor time of a call on PostgreSQL over that of the same call on SQLite."""
MOST_AMONG_MANY = 1.3


def databases(effort: Effort) -> Iterator[Measurement | Skipped]:
    """Measure mutating calls with the record in a database."""
    if programs() is None:
        yield Skipped("PostgreSQL is not installed.")
        return
    with running_cluster() as url:
        with (
            closing(Scene(effort.folder / "in_database", files=20, database=url)) as there,
            closing(Scene(effort.folder / "in_file", files=20)) as here,
        ):
            for tool, calls in CALLS.items():
                took, floor = in_turns(
                    calls(there, effort), calls(here, effort), turns=effort.turns, clock=time.process_time
                )
                yield Measurement(
                    name=f"{tool} on PostgreSQL, processor time",
                    ours=took,
                    floor=floor,
                    floor_name="the same on SQLite",
                    budget=Budget("times", MOST),
                )
        yield submitted_among_many(effort, "plan.submit on PostgreSQL", MOST_AMONG_MANY, url)


def _notes(scene: Scene, _effort: Effort) -> Act:
    scene.call("feature.init", feature_id="noted")
    return lambda _turn: scene.call("feature.log_append", feature_id="noted", note="Measured")


CALLS: dict[str, Callable[[Scene, Effort], Act]] = {
    "feature.log_append": _notes,
    "plan.submit": submissions,
    "plan.update": lambda scene, _effort: revisions(scene),
}
