"""Making features, patching them and bringing a checkout along, next to raw git: in small and large repositories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from aop.core.ids import CommitId, ObjectId
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
            budget=Budget("times", 2.5),
        )


def rebase(effort: Effort) -> Iterator[Measurement]:
    """Measure `repo.rebase_onto_main` next to the one `git merge-tree` that it rests on."""
    for which, path in (("beside", source_file(1)), ("in the same file", source_file(0))):
        with closing(Scene(effort.folder / which.replace(" ", "_"), files=max(effort.files))) as scene:
            yield _Rebase(scene, path).measured(f"base moved {which}", effort)


class _Rebase:
    """One feature, and a base branch that moves before each turn."""

    def __init__(self, scene: Scene, moving: str) -> None:
        self._scene = scene
        self._moving = moving
        scene.let_all_patch()
        scene.call("feature.init", feature_id="moved")
        diff = patch_of(source_file(0), old=0)
        scene.call("repo.apply_patch", role=Role.BUILDER, feature_id="moved", unified_diff=diff)
        self._raw = _raw_commit(scene.root)

    def measured(self, where: str, effort: Effort) -> Measurement:
        took, floor = in_turns(self._ours, self._merge_tree, turns=effort.turns, before=self._move_base)
        return Measurement(
            name=f"repo.rebase_onto_main, {max(effort.files)} files, {where}",
            ours=took,
            floor=floor,
            floor_name="git merge-tree",
            budget=Budget("times", 3.0),
        )

    def _ours(self, _turn: int) -> object:
        return self._scene.call("repo.rebase_onto_main", role=Role.SYSTEM, feature_id="moved")

    def _merge_tree(self, _turn: int) -> object:
        # Its feature says something else: git would write nothing if the merged tree existed already.
        return git(self._scene.root, "merge-tree", "--write-tree", "main", self._raw)

    def _move_base(self, turn: int) -> object:
        file = self._scene.root / self._moving
        file.write_text(f"{turn} before\n" * 4 + file.read_text().split(" before\n")[-1])
        git(self._scene.root, "commit", "-q", "-m", "Meanwhile", "--", self._moving)
        # The configuration lies on the base branch: the first call of any kind after a move reads it.
        return self._scene.call("report.dashboard")


def _raw_commit(root: Path) -> str:
    """Commit another change of the file that the feature changes; return the commit."""
    asked = (
        "commit refs/heads/raw\ncommitter Ada <ada@example.org> 1900000000 +0000\ndata 3\nRaw\n"
        f"from refs/heads/main\nM 100644 inline {source_file(0)}\ndata <<END\nfirst\nversion raw\nlast\nEND\n"
    )
    git(root, "fast-import", "--quiet", stdin=asked.encode())
    return git(root, "rev-parse", "raw").decode().strip()


CHANGED = 1000
"""How many files a merge changes, at most."""


def sync(effort: Effort) -> Iterator[Measurement]:
    """Measure `repo.sync` next to `git read-tree -m -u` on the same commits."""
    files = effort.files[-1]
    with closing(Scene(effort.folder / str(files), files=files)) as scene:
        for changed in (1, min(CHANGED, files // 2)):
            yield _sync(scene, f"{changed} of {files} files changed", changed, effort)


def _sync(scene: Scene, where: str, changed: int, effort: Effort) -> Measurement:
    commits = _commits(scene, changed, effort.slow_turns + 1)
    raw = scene.root.parent / f"raw{changed}"
    git(scene.root, "worktree", "add", "-q", "--detach", str(raw), commits[0])
    branches = scene.app.repository.branches

    def move_both(turn: int) -> None:
        branches.move("main", to=commits[turn + 1], old=commits[turn])
        git(raw, "update-ref", "--no-deref", "HEAD", commits[turn + 1])

    took, floor = in_turns(
        lambda _turn: scene.call("repo.sync"),
        lambda turn: git(raw, "read-tree", "-m", "-u", commits[turn], commits[turn + 1]),
        turns=effort.slow_turns,
        before=move_both,
    )
    return Measurement(
        name=f"repo.sync, {where}",
        ours=took,
        floor=floor,
        floor_name="git read-tree -m -u",
        # A step of one file is mostly the cost of one recorded call.
        budget=Budget("times", 1.5) if changed > 1 else None,
    )


def _commits(scene: Scene, changed: int, count: int) -> list[CommitId]:
    """Return the head of `main`, and as many commits on top of it as asked for."""
    root, made = scene.root, []
    head = git(root, "rev-parse", "main").decode().strip()
    for number in range(count + 1):
        made.append(CommitId(ObjectId(head)))
        lines = "".join(
            f"M 100644 inline {source_file(each)}\ndata <<END\nfirst\nversion {head}\nlast\nEND\n"
            for each in range(changed)
        )
        asked = (
            f"commit refs/heads/next\ncommitter Ada <ada@example.org> {1_900_000_000 + number} +0000\n"
            f"data <<END\nStep\nEND\nfrom {head}\n{lines}\n"
        )
        git(root, "fast-import", "--quiet", "--force", stdin=asked.encode())
        head = git(root, "rev-parse", "next").decode().strip()
    return made
