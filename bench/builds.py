"""Writing a file of a build, next to the git commands that make the same tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from bench.effort import Effort
from bench.forge import put_projects
from bench.measurements import Budget, Measurement, in_turns
from bench.scenes import Scene, git

PATH = "src/page.py"


def write_file(effort: Effort) -> Iterator[Measurement]:
    """Measure `write_file` in a small repository and in a large one."""
    for files in effort.files:
        with closing(Scene(effort.folder / str(files), files=files)) as scene:
            yield _written(scene, files, effort)


def _written(scene: Scene, files: int, effort: Effort) -> Measurement:
    put_projects(scene, 0, 1)
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
