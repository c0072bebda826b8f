"""Scanning for collisions: among few and many plans, and after one of many features has moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from aop.core.roles import Role
from bench.effort import Effort
from bench.measurements import Act, Budget, Measurement, after_each, in_turns
from bench.scenes import Scene, patch_of, source_file


def scan(effort: Effort) -> Iterator[Measurement]:
    """Measure `collisions.scan` over plans next to the same over five, and over features of which one has moved."""
    yield from _plans(effort)
    yield _moved(effort, "that keep apart", [source_file(number) for number in range(effort.features_changed)])
    yield _moved(effort, "that all meet", [source_file(0)] * effort.features_changed)


def _moved(effort: Effort, which: str, paths: Sequence[str]) -> Measurement:
    with closing(Scene(effort.folder / which.replace(" ", "_"), files=100)) as scene:
        scene.let_all_patch()
        for number, path in enumerate(paths):
            scene.call("feature.init", feature_id=f"moving_{number}")
            _patch(scene, number, path, old=0)
        took = after_each(
            lambda turn: _patch(scene, 0, paths[0], old=turn + 1),
            _scans(scene),
            turns=effort.turns,
        )
    return Measurement(
        name=f"collisions.scan, 1 moved of {len(paths)} features {which}", ours=took, budget=Budget("at most", 150.0)
    )


def _scans(scene: Scene) -> Act:
    return lambda _: scene.call("collisions.scan")


def _patch(scene: Scene, number: int, path: str, *, old: int) -> None:
    diff = patch_of(path, old=old)
    scene.call("repo.apply_patch", role=Role.BUILDER, feature_id=f"moving_{number}", unified_diff=diff)


def _plans(effort: Effort) -> Iterator[Measurement]:
    with closing(Scene(effort.folder / "few", files=20)) as few:
        few.place([f"placed_{number}" for number in range(4)], planned=True)
        for features in (effort.features_listed // 4, effort.features_listed, effort.features_most):
            with closing(Scene(effort.folder / str(features), files=20)) as many:
                many.place([f"placed_{number}" for number in range(features - 1)], planned=True)
                took, floor = in_turns(_scans(many), _scans(few), turns=effort.slow_turns)
            yield Measurement(
                name=f"collisions.scan, {features} features",
                ours=took,
                floor=floor,
                floor_name="the same, 5 features",
                # A millisecond for each feature.
                budget=Budget("at most", features),
            )
