"""Reading through the real door: nothing but the files of a feature's tree, and no option of git."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.hostile.arena import Arena
from tests.hostile.test_names_and_paths import NAMES, SPELLED_OTHERWISE_IN_PLANS
from tests.world import git

NO_NAMES = [(row, name) for row, name in NAMES if row not in SPELLED_OTHERWISE_IN_PLANS]


def no_path(name: str) -> str:
    """Return the code for a name that no file can have; half of a surrogate pair cannot come in as JSON at all."""
    return "path_out_of_bounds" if name.encode(errors="ignore").decode() == name else "invalid_arguments"


@pytest.mark.series(8)
@pytest.mark.parametrize(("row", "name"), NO_NAMES)
def test_a_name_that_no_file_may_have_is_neither_read_nor_compared(arena: Arena, row: str, name: str) -> None:
    compared = arena.call("repo.diff", feature_id="one", options={"paths": [name]})
    assert (compared.error or {})["code"] == no_path(name)
    assert arena.refusal("repo.read_file", feature_id="one", path=name)["code"] == no_path(name)


OUT_OF_REACH = [
    "tracked_out",
    "tracked_out/secret.txt",
    "tracked_in/a.txt",
    ".env",
    "src",
    "*.txt",
    "agentic/features/one/state.md",
    ".aop/record.db",
    ".worktrees/one/x",
]


@pytest.mark.req("AOP-131", "AOP-180")
@pytest.mark.parametrize("path", OUT_OF_REACH)
def test_no_link_is_followed_and_nothing_beside_the_tree_is_read(arena: Arena, path: str) -> None:
    assert arena.refusal("repo.read_file", feature_id="one", path=path)["code"] == "file_not_found"


def test_a_folder_whose_name_begins_alike_is_another_folder(arena: Arena) -> None:
    beside = arena.root / ".worktrees" / "one-evil"
    beside.mkdir()
    (beside / "secret.txt").write_text("x\n")
    for path in ("../one-evil/secret.txt", f"{beside}/secret.txt"):
        assert arena.refusal("repo.read_file", feature_id="one", path=path)["code"] == "path_out_of_bounds"


def test_the_feature_is_read_and_neither_the_checkout_nor_the_worktree(arena: Arena) -> None:
    for folder in (arena.root, arena.worktree):
        (folder / "x").unlink()
        (folder / "x").symlink_to(arena.outside / "secret.txt")
        (folder / "src/a.txt").write_text("scribbled over\n")
    read = [arena.ok("repo.read_file", feature_id="one", path=path)["content"] for path in ("x", "src/a.txt")]
    assert read == ["x\n", "x\n"]


OPTIONS: list[Any] = [
    "--output=stolen",
    ["--output=stolen"],
    {"output": "stolen"},
    {"--output": "stolen"},
    {"stat": "--output=stolen"},
    {"name_only": "--output=stolen"},
    {"context_lines": "3 --output=stolen"},
    {"context_lines": "--output=stolen"},
    {"context_lines": 3.0},
    {"paths": "--output=stolen"},
    {"paths": ["--output=stolen"]},
    {"paths": ["-Ostolen"]},
    {"paths": ["--no-index", "x"]},
    {"paths": ["--", "x"]},
    {"paths": [":(exclude)x"]},
]


@pytest.mark.req("AOP-179")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_no_option_reaches_git(arena: Arena, options: Any) -> None:
    error = arena.refusal("repo.diff", feature_id="one", options=options)
    assert error["code"] in ("invalid_arguments", "path_out_of_bounds")


@pytest.mark.parametrize("key", ["diff.external", "diff.x.command", "diff.x.textconv", "core.pager", "pager.diff"])
def test_no_setting_of_the_repository_runs_a_program_for_a_diff(arena: Arena, key: str) -> None:
    mark = arena.outside / "ran"
    git(arena.root, "config", key, f"touch {mark}")
    (arena.root / ".git/info/attributes").write_text("* diff=x\n")
    arena.patch(diff="--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n")
    assert "+y\n" in arena.ok("repo.diff", feature_id="one")["text"]
    assert not os.path.lexists(mark)
