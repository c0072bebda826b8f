"""repo.ensure_worktree, repo.status, repo.diff and repo.read_file."""

from __future__ import annotations

import base64
import os
from typing import Any

import pytest

from aop.core.roles import Role
from tests.kernel.tools.conftest import MakeWorld
from tests.kernel.tools.worlds import events, patch_of, plain, state_of
from tests.world import World, files, git

SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"

FILES = {
    "src/config.txt": f"user = ada\ntoken = {SECRET}\nend\n",
    "src/umlaut.txt": "grüße\n",
    "tool.sh": "echo hi\n",
}


@pytest.fixture(scope="module")
def changed(make_shared_world: MakeWorld) -> World:
    """A feature that modified a file, made one and deleted one."""
    world = make_shared_world(files=FILES)
    (world.root / "src/bytes.bin").write_bytes(b"\xff\x00\xfe")
    (world.root / "link").symlink_to("src/a.txt")
    (world.root / "away").symlink_to("/etc")
    git(world.root, "add", "-A")
    git(world.root, "update-index", "--chmod=+x", "tool.sh")
    git(world.root, "commit", "-qm", "More")
    world.plan(files=files(create=("src/new.txt",), modify=("src/a.txt",), delete=("src/b.txt",)))
    world.patch()
    world.patch(diff=patch_of("src/new.txt", "fresh"))
    world.patch(diff="--- a/src/b.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-alpha\n-beta\n")
    return world


CHANGED = [
    {"path": "src/a.txt", "kind": "modify"},
    {"path": "src/b.txt", "kind": "delete"},
    {"path": "src/new.txt", "kind": "create"},
]

# --- repo.ensure_worktree ------------------------------------------------------------------------


@pytest.mark.req("AOP-150", "AOP-170")
def test_the_worktree_is_made_to_hold_exactly_the_feature(world: World) -> None:
    world.plan()
    world.patch()
    worktree = world.root / ".worktrees/one"
    (worktree / "src/a.txt").write_text("scribbled over\n")
    (worktree / "src/b.txt").unlink()

    answer = world.ok("repo.ensure_worktree", feature_id="one")

    assert plain(answer) == {
        "feature_id": "one",
        "branch": "one",
        "worktree_path": ".worktrees/one",
        "base_commit": git(world.root, "rev-parse", "main").strip(),
        "tree": state_of(world).tree,
    }
    assert (worktree / "src/a.txt").read_text() == "one\nTWO\nthree\n"
    assert (worktree / "src/b.txt").read_text() == "alpha\nbeta\n"
    assert world.ok("repo.ensure_worktree", feature_id="one") == answer
    assert events(world)[-1] == "worktree_ensured"


def test_a_stale_expected_version_is_refused(changed: World) -> None:
    error = changed.refusal("repo.ensure_worktree", feature_id="one", expected_version=1)
    assert error["code"] == "version_conflict"


# --- repo.status ---------------------------------------------------------------------------------


@pytest.mark.req("AOP-178")
def test_the_status_tells_what_the_feature_changes_and_what_only_lies_there(world: World) -> None:
    world.plan(files=files(create=("src/new.txt",), modify=("src/a.txt",)))
    world.patch()
    world.patch(diff=patch_of("src/new.txt", "fresh"))
    worktree = world.root / ".worktrees/one"
    (worktree / "notes.txt").write_text("mine\n")
    (worktree / "src/b.txt").write_text("scribbled over\n")
    cut = git(world.root, "rev-parse", "main").strip()
    git(world.root, "commit", "-q", "--allow-empty", "-m", "Elsewhere")

    answer = plain(world.ok("repo.status", role=Role.BUILDER, feature_id="one"))

    assert answer == {
        "feature_id": "one",
        "branch": "one",
        "tree": state_of(world).tree,
        "base_commit": cut,
        "base_branch": "main",
        "base_head": git(world.root, "rev-parse", "main").strip(),
        "porcelain": "M  src/a.txt\n M src/b.txt\nA  src/new.txt\n?? notes.txt\n",
        "changed_files": [{"path": "src/a.txt", "kind": "modify"}, {"path": "src/new.txt", "kind": "create"}],
        "strays": ["notes.txt", "src/b.txt"],
    }


# --- repo.diff -----------------------------------------------------------------------------------


@pytest.mark.req("AOP-010", "AOP-179")
def test_the_diff_has_new_and_deleted_files_too(changed: World) -> None:
    answer = changed.ok("repo.diff", role=Role.QA, feature_id="one")

    assert plain(answer["changed_files"]) == CHANGED
    assert (answer["truncated"], answer["tree"]) == (False, state_of(changed).tree)
    assert [line for line in answer["text"].splitlines() if line[:1] in "+-"] == [
        *("--- a/src/a.txt", "+++ b/src/a.txt", "-two", "+TWO"),
        *("--- a/src/b.txt", "+++ /dev/null", "-alpha", "-beta"),
        *("--- /dev/null", "+++ b/src/new.txt", "+fresh"),
    ]


@pytest.mark.req("AOP-179")
def test_the_diff_is_what_would_make_the_feature_out_of_its_base(changed: World) -> None:
    text = changed.ok("repo.diff", feature_id="one")["text"]
    copy = changed.root.parent / "copy"
    git(changed.root, "clone", "-q", str(changed.root), str(copy))
    (copy / "change.patch").write_text(text)
    git(copy, "apply", "--index", "change.patch")
    assert git(copy, "write-tree").strip() == state_of(changed).tree


@pytest.mark.req("AOP-179")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"name_only": True}, "src/a.txt\nsrc/b.txt\nsrc/new.txt\n"),
        ({"name_only": True, "paths": ["src/new.txt"]}, "src/new.txt\n"),
        ({"name_only": True, "paths": ["./src/"]}, "src/a.txt\nsrc/b.txt\nsrc/new.txt\n"),
        ({"name_only": True, "paths": ["src/n"]}, ""),
        ({"name_only": True, "paths": ["src/*"]}, ""),
        ({"paths": ["nowhere"]}, ""),
        (
            {"stat": True, "paths": ["src/a.txt"]},
            " src/a.txt | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n",
        ),
    ],
)
def test_the_diff_can_be_short(changed: World, options: dict[str, Any], text: str) -> None:
    assert changed.ok("repo.diff", feature_id="one", options=options)["text"] == text


def test_the_diff_can_be_of_one_file_without_context(changed: World) -> None:
    answer = changed.ok("repo.diff", feature_id="one", options={"context_lines": 0, "paths": ["src/a.txt"]})
    assert answer["text"].endswith("@@ -2 +2 @@ one\n-two\n+TWO\n")
    assert plain(answer["changed_files"]) == CHANGED[:1]


def test_a_feature_without_changes_has_an_empty_diff(world: World) -> None:
    world.init()
    answer = world.ok("repo.diff", feature_id="one")
    assert (answer["text"], plain(answer["changed_files"])) == ("", [])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"output": "x"}, "invalid_arguments"),
        ({"stat": "--output=x"}, "invalid_arguments"),
        ({"context_lines": -1}, "invalid_arguments"),
        ({"context_lines": 1000}, "invalid_arguments"),
        ({"paths": "src"}, "invalid_arguments"),
        ({"paths": ["src/a.txt"] * 201}, "invalid_arguments"),
        ({"paths": ["--output=stolen"]}, "path_out_of_bounds"),
        ({"paths": ["-O"]}, "path_out_of_bounds"),
        ({"paths": ["../.."]}, "path_out_of_bounds"),
        ({"paths": ["/etc"]}, "path_out_of_bounds"),
        ({"paths": [".git"]}, "path_out_of_bounds"),
        ({"paths": [""]}, "path_out_of_bounds"),
        ({"paths": [":(top)src"]}, "path_out_of_bounds"),
    ],
)
def test_nothing_that_a_caller_writes_becomes_an_option_of_git(
    changed: World, options: dict[str, Any], code: str
) -> None:
    assert changed.refusal("repo.diff", feature_id="one", options=options)["code"] == code


def test_as_many_paths_as_are_allowed_are_not_too_many_for_git(changed: World) -> None:
    paths = [f"{'x' * 200}/{'y' * 200}/{'z' * 200}/{number}" for number in range(200)]
    assert changed.ok("repo.diff", feature_id="one", options={"paths": [*paths[1:], "src/a.txt"]})["text"] != ""


# --- repo.read_file ------------------------------------------------------------------------------


@pytest.mark.req("AOP-180")
def test_a_file_is_read_as_it_is_in_the_feature_and_not_in_the_checkout(changed: World) -> None:
    (changed.root / ".worktrees/one/src/a.txt").write_text("scribbled over\n")

    answer = plain(changed.ok("repo.read_file", role=Role.PLANNER, feature_id="one", path="src/a.txt"))

    tree = state_of(changed).tree
    assert answer == {
        "feature_id": "one",
        "path": "src/a.txt",
        "tree": tree,
        "oid": git(changed.root, "rev-parse", f"{tree}:src/a.txt").strip(),
        "mode": "100644",
        "size": 14,
        "encoding": "utf-8",
        "content": "one\nTWO\nthree\n",
        "offset": 0,
        "truncated": False,
    }


@pytest.mark.req("AOP-129")
def test_a_path_is_read_by_its_plain_form(changed: World) -> None:
    assert changed.ok("repo.read_file", feature_id="one", path="./src//a.txt")["path"] == "src/a.txt"


def test_an_executable_says_so(changed: World) -> None:
    assert changed.ok("repo.read_file", feature_id="one", path="tool.sh")["mode"] == "100755"


@pytest.mark.parametrize(
    ("part", "content", "truncated"),
    [
        ({"offset": 4, "limit": 3}, "TWO", True),
        ({"offset": 4}, "TWO\nthree\n", False),
        ({"offset": 14}, "", False),
        ({"offset": 99}, "", False),
    ],
)
def test_a_part_of_a_file_is_read(changed: World, part: dict[str, Any], content: str, truncated: bool) -> None:  # noqa: FBT001
    answer = changed.ok("repo.read_file", feature_id="one", path="src/a.txt", **part)
    assert (answer["content"], answer["truncated"], answer["size"]) == (content, truncated, 14)


def test_what_is_not_text_comes_as_base64(changed: World) -> None:
    answer = changed.ok("repo.read_file", feature_id="one", path="src/bytes.bin")
    assert (answer["encoding"], base64.b64decode(answer["content"])) == ("base64", b"\xff\x00\xfe")


def test_the_pieces_of_a_text_make_up_the_text_wherever_it_is_cut(changed: World) -> None:
    pieces = b""
    for offset in range(8):
        piece = changed.ok("repo.read_file", feature_id="one", path="src/umlaut.txt", offset=offset, limit=1)
        text = piece["content"]
        pieces += base64.b64decode(text) if piece["encoding"] == "base64" else text.encode()
    assert pieces.decode() == "grüße\n"


@pytest.mark.req("AOP-269")
def test_a_secret_is_not_read_whole_and_not_in_pieces(changed: World) -> None:
    whole = changed.ok("repo.read_file", feature_id="one", path="src/config.txt")
    pieces = [
        changed.ok("repo.read_file", feature_id="one", path="src/config.txt", offset=offset, limit=9)["content"]
        for offset in range(0, whole["size"], 9)
    ]
    assert "".join(pieces) == whole["content"]
    assert SECRET[:12] not in whole["content"]
    assert whole["content"].startswith("user = ada\n")
    assert whole["content"].endswith("\nend\n")


@pytest.mark.req("AOP-130", "AOP-131")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../../README.md", "path_out_of_bounds"),
        ("src/../../x", "path_out_of_bounds"),
        ("/etc/passwd", "path_out_of_bounds"),
        (".git/config", "path_out_of_bounds"),
        (".git", "path_out_of_bounds"),
        (".GIT/config", "path_out_of_bounds"),
        ("", "path_out_of_bounds"),
        ("src/a.txt\0", "path_out_of_bounds"),
        ("src", "file_not_found"),
        ("nowhere.txt", "file_not_found"),
        ("src/b.txt", "file_not_found"),
        ("link", "file_not_found"),
        ("away/passwd", "file_not_found"),
        (".worktrees/one/src/a.txt", "file_not_found"),
        (".aop/keys/approval.key", "file_not_found"),
    ],
)
def test_nothing_but_the_files_of_the_feature_is_read(changed: World, path: str, code: str) -> None:
    assert changed.refusal("repo.read_file", feature_id="one", path=path)["code"] == code


@pytest.mark.parametrize("part", [{"offset": -1}, {"limit": 0}, {"limit": 1024 * 1024 + 1}, {"limit": True}])
def test_a_part_that_makes_no_sense_is_refused(changed: World, part: dict[str, Any]) -> None:
    error = changed.refusal("repo.read_file", feature_id="one", path="src/a.txt", **part)
    assert error["code"] == "invalid_arguments"


def test_a_file_that_lies_in_the_worktree_only_is_not_part_of_the_feature(changed: World) -> None:
    stray = changed.root / ".worktrees/one/stray.txt"
    stray.write_text("mine\n")
    assert changed.refusal("repo.read_file", feature_id="one", path="stray.txt")["code"] == "file_not_found"
    os.unlink(stray)


# --- a worktree that somebody has pruned ---------------------------------------------------------


def pruned(world: World) -> World:
    """A feature whose worktree git has forgotten, with its files still there."""
    world.plan()
    world.patch()
    moved = world.root / ".worktrees/elsewhere"
    (world.root / ".worktrees/one").rename(moved)
    git(world.root, "worktree", "prune")
    moved.rename(world.root / ".worktrees/one")
    return world


def test_a_worktree_that_was_pruned_is_a_refusal_that_names_the_way_out(make_world: MakeWorld) -> None:
    world = pruned(make_world())
    error = world.call("repo.status", feature_id="one").error
    assert error is not None
    assert (error["code"], error["message"]) == ("worktree_missing", "Git has no worktree of `one`.")
    assert "`repo.ensure_worktree`" in error["details"]["suggested_next_actions"][0]
    world.ok("repo.ensure_worktree", feature_id="one")
    assert world.ok("repo.status", feature_id="one")["strays"] == []
    assert (world.root / ".worktrees/one/src/a.txt").read_text() == "one\nTWO\nthree\n"


def test_a_patch_makes_a_worktree_again_that_was_pruned(make_world: MakeWorld) -> None:
    world = pruned(make_world())
    world.patch(diff=patch_of("src/a.txt", "Two", old=("one", "TWO", "three")))
    assert world.ok("repo.status", feature_id="one")["strays"] == []
    assert (world.root / ".worktrees/one/src/a.txt").read_text() == "Two\n"


@pytest.mark.parametrize(("tool", "more"), [("repo.ensure_worktree", {}), ("gates.run", {"mode": "fast"})])
def test_what_somebody_edited_in_a_worktree_is_kept_and_the_journal_says_so(
    world: World, tool: str, more: dict[str, Any]
) -> None:
    world.plan()
    world.patch()
    (world.root / ".worktrees/one/src/a.txt").write_text("mine\n")
    world.ok(tool, feature_id="one", **more)
    assert (world.root / ".worktrees/one/src/a.txt").read_text() == "one\nTWO\nthree\n"
    assert (world.root / ".aop/quarantine/one/1/src/a.txt").read_text() == "mine\n"
    with world.app.record.read() as view:
        [told] = [entry.event.payload for entry in view.journal(kinds=("worktree_quarantined",))]
    assert told == {"paths": ["src/a.txt"], "count": 1}
