"""Bringing a checkout of the base branch along, next to the git command that does it without looking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from aop.core.ids import CommitId, ObjectId
from bench.effort import Effort
from bench.measurements import Budget, Measurement, in_turns
from bench.scenes import Scene, git, source_file

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
