"""Making features and patching them, next to raw git: in small and large repositories, among few and many features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from aop.core.roles import Role
from bench.effort import Effort
from bench.measurements import Budget, Measurement, in_turns
from bench.scenes import Scene, git, patch_of, source_file


def feature_init(effort: Effort) -> Iterator[Measurement]:
    """Measure `feature.init` next to the one git command that makes a branch with its worktree."""
    for files in effort.files:
        with closing(Scene(effort.folder / str(files), files=files)) as scene:
            for present in effort.features_present:
                scene.fill(present)
                yield _init(scene, f"{files} files, {present} features", effort, prefix=f"n{present}")


def _init(scene: Scene, where: str, effort: Effort, *, prefix: str) -> Measurement:
    def ours(turn: int) -> object:
        return scene.call("feature.init", feature_id=f"{prefix}_{turn}")

    def raw(turn: int) -> object:
        name = f"raw_{prefix}_{turn}"
        return git(scene.root, "worktree", "add", "-q", "-b", name, f".worktrees/{name}", "main")

    took, floor = in_turns(ours, raw, turns=effort.slow_turns)
    return Measurement(
        name=f"feature.init, {where}",
        ours=took,
        floor=floor,
        floor_name="git worktree add -b",
        budget=Budget("times", 1.5),
    )


def apply_patch(effort: Effort) -> Iterator[Measurement]:
    """Measure `repo.apply_patch` next to a `git apply` that checks nothing and records nothing."""
    for files in effort.files:
        with closing(Scene(effort.folder / str(files), files=files)) as scene:
            patches = _Patches(scene)
            for present in effort.features_present:
                scene.fill(present)
                yield patches.measured(f"{files} files, {present} features", effort)


class _Patches:
    """One feature and one raw worktree that get the same patches."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._path = source_file(0)
        scene.begin("patched", self._path)
        self._raw = scene.root / ".worktrees" / "raw"
        git(scene.root, "worktree", "add", "-q", "-b", "raw", str(self._raw), "main")
        self._version = 0

    def measured(self, where: str, effort: Effort) -> Measurement:
        before = self._version

        def ours(turn: int) -> object:
            patch = patch_of(self._path, old=before + turn)
            return self._scene.call("repo.apply_patch", role=Role.BUILDER, feature_id="patched", unified_diff=patch)

        def raw(turn: int) -> object:
            return git(self._raw, "apply", "-", stdin=patch_of(self._path, old=before + turn).encode())

        took, floor = in_turns(ours, raw, turns=effort.turns)
        self._version += effort.turns + 1
        return Measurement(
            name=f"repo.apply_patch, {where}",
            ours=took,
            floor=floor,
            floor_name="git apply",
            budget=Budget("times", 3.0),
        )
