"""A person's edits in a worktree, taken as a patch of that person."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from aop.core.roles import Role
from tests.world import World, files, git, run_aop, run_aop_at_terminal

SECRET = "ghp_" + "0123456789abcdefABCDEF0123456789abcd"
PLANNED = files(create=("src/new.txt", "src/run.sh"), modify=("src/a.txt",), delete=("src/b.txt",))


@pytest.fixture
def ready(world: World) -> World:
    (world.root / ".gitignore").write_text("*.log\n")
    git(world.root, "add", "-A")
    git(world.root, "commit", "-qm", "Ignore logs")
    world.ready("one", files=PLANNED)
    return world


def tree(world: World) -> Path:
    return world.root / ".worktrees/one"


def take(world: World) -> dict[str, object]:
    taken: dict[str, object] = world.ok("repo.take_edits", feature_id="one", dry_run=False)
    return taken


def test_edits_new_and_removed_files_become_the_tree_and_the_gates_are_stale(ready: World) -> None:
    token = ready.approval("one")
    (tree(ready) / "src/a.txt").write_text("one\nDEUX\nthree\n")
    (tree(ready) / "src/new.txt").write_text("new\n")
    (tree(ready) / "src/run.sh").write_text("true\n")
    (tree(ready) / "src/run.sh").chmod(0o755)
    (tree(ready) / "src/b.txt").unlink()
    (tree(ready) / "debug.log").write_text("ignored\n")
    taken = take(ready)
    assert (taken["status"], taken["taken"]) == ("building", True)
    assert taken["changed_files"] == [
        {"path": "src/a.txt", "kind": "modify"},
        {"path": "src/b.txt", "kind": "delete"},
        {"path": "src/new.txt", "kind": "create"},
        {"path": "src/run.sh", "kind": "create"},
    ]
    listed = git(ready.root, "ls-tree", "-r", str(taken["tree"]), "--", "src")
    assert [line.split()[0] + " " + line.split()[3] for line in listed.splitlines()] == [
        "100644 src/a.txt",
        "100644 src/new.txt",
        "100755 src/run.sh",
    ]
    assert (tree(ready) / "src/a.txt").read_text() == "one\nDEUX\nthree\n"
    front = ready.ok("feature.state_get", feature_id="one")["front_matter"]
    assert (front["gates"]["fast"], front["gates"]["full"]) == ("na", "na")
    assert ready.call("feature.ready_to_merge", feature_id="one", user_approval_token=token).ok is False
    rows = ready.ok("feature.trees", feature_id="one")["trees"]
    assert (rows[-1]["event"], rows[-1]["actor"], rows[-1]["files"]) == ("edits_taken", "person:ada", 4)
    ready.ok("feature.undo", feature_id="one")
    assert (tree(ready) / "src/a.txt").read_text() == "one\nTWO\nthree\n"


def test_taken_edits_are_proven_and_ready_again(ready: World) -> None:
    (tree(ready) / "src/a.txt").write_text("one\nDEUX\nthree\n")
    take(ready)
    assert [ready.ok("gates.run", feature_id="one", mode=mode)["status"] for mode in ("fast", "full")] == [
        "qa",
        "ready_to_merge",
    ]
    assert (tree(ready) / "src/a.txt").read_text() == "one\nDEUX\nthree\n"


def test_a_dry_run_shows_and_changes_nothing(ready: World) -> None:
    (tree(ready) / "src/a.txt").write_text("one\nDEUX\nthree\n")
    before = ready.ok("feature.state_get", feature_id="one")
    shown = ready.ok("repo.take_edits", feature_id="one")
    assert (shown["taken"], "src/a.txt | 2 +-" in shown["diff_stat"]) == (False, True)
    assert ready.ok("feature.state_get", feature_id="one") == before
    (tree(ready) / "src/a.txt").write_text("one\nother\nthree\n")
    refused = ready.refusal("repo.take_edits", feature_id="one", dry_run=False, tree=shown["tree"])
    said = "The edits in the worktree of `one` changed since they were shown."
    assert (refused["code"], refused["message"]) == ("edits_changed", said)


def test_forbidden_paths_are_all_named_and_the_edits_stay(ready: World) -> None:
    (tree(ready) / "src/a.txt").write_text("one\nDEUX\nthree\n")
    (tree(ready) / "agentic/orchestrator/gates.yaml").write_text("version: 1\n")
    (tree(ready) / "agentic/orchestrator/policy.yaml").write_text("version: 1\n")
    refused = ready.refusal("repo.take_edits", feature_id="one", dry_run=False)
    assert refused["code"] == "protected_path"
    assert refused["details"]["paths"] == ["agentic/orchestrator/gates.yaml", "agentic/orchestrator/policy.yaml"]
    assert (tree(ready) / "src/a.txt").read_text() == "one\nDEUX\nthree\n"


def test_unplanned_files_are_all_named_and_the_edits_stay(ready: World) -> None:
    (tree(ready) / "README.md").write_text("Another text.\n")
    (tree(ready) / "src/unplanned.txt").write_text("new\n")
    refused = ready.refusal("repo.take_edits", feature_id="one", dry_run=False)
    assert (refused["code"], refused["details"]["paths"]) == ("unplanned_file", ["README.md", "src/unplanned.txt"])
    assert (tree(ready) / "src/unplanned.txt").read_text() == "new\n"


def test_a_link_is_not_followed_and_a_secret_is_refused(ready: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("not yours\n")
    (tree(ready) / "src/new.txt").symlink_to(outside)
    assert ready.refusal("repo.take_edits", feature_id="one", dry_run=False)["code"] == "invalid_patch"
    (tree(ready) / "src/new.txt").unlink()
    (tree(ready) / "src/new.txt").write_text(f"token = {SECRET}\n")
    refused = ready.refusal("repo.take_edits", feature_id="one", dry_run=False)
    assert refused["code"] == "secret_detected"
    assert SECRET not in str(refused)


def test_a_folder_that_is_a_link_hides_nothing_of_another_place(ready: World, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("not yours\n")
    for name in ("a.txt", "b.txt"):
        (tree(ready) / "src" / name).unlink()
    (tree(ready) / "src").rmdir()
    (tree(ready) / "src").symlink_to(elsewhere)
    assert ready.refusal("repo.take_edits", feature_id="one", dry_run=False)["code"] in (
        "unplanned_file",
        "invalid_patch",
    )


def test_a_pipe_cannot_be_taken(ready: World) -> None:
    os.mkfifo(tree(ready) / "src/new.txt")
    refused = ready.call("repo.take_edits", feature_id="one", dry_run=False)
    assert (refused.error or {})["code"] in ("invalid_patch", "nothing_to_take")


def test_without_edits_or_without_a_plan_nothing_is_taken(ready: World) -> None:
    assert ready.refusal("repo.take_edits", feature_id="one", dry_run=False)["code"] == "nothing_to_take"
    assert ready.refusal("repo.take_edits", feature_id="nobody")["code"] == "unknown_feature"
    ready.init("two")
    assert ready.refusal("repo.take_edits", feature_id="two")["code"] == "plan_required"
    ready.ok("feature.ready_to_merge", feature_id="one", user_approval_token=ready.approval("one"))
    assert ready.refusal("repo.take_edits", feature_id="one")["code"] == "invalid_status_transition"


def test_no_agent_takes_edits_for_a_person(ready: World) -> None:
    (tree(ready) / "src/a.txt").write_text("one\nDEUX\nthree\n")
    for role in (Role.ORCHESTRATOR, Role.BUILDER):
        answer = ready.call_as_worker("repo.take_edits", role, "one", feature_id="one", dry_run=False)
        assert (answer.error or {})["code"] == "forbidden_tool_for_role"


def test_the_command_shows_the_stat_and_takes_the_edits(ready: World) -> None:
    assert run_aop(ready.root, "take", "one", "--yes").code == 3
    (tree(ready) / "src/a.txt").write_text("one\nDEUX\nthree\n")
    asked = run_aop(ready.root, "take", "one")
    assert (asked.code, "--yes" in asked.err) == (2, True)
    listed = run_aop(ready.root, "take", "one", "--json")
    assert (listed.code, listed.json["data"]["taken"]) == (3, False)
    taken = run_aop(ready.root, "take", "one", "--yes")
    assert taken.code == 0, taken.err
    assert "src/a.txt | 2 +-" in taken.err
    assert taken.err.endswith("Continue with: aop resume\n")
    (tree(ready) / "README.md").write_text("Another text.\n")
    refused = run_aop(ready.root, "take", "one", "--yes")
    assert (refused.code, "`README.md`" in refused.err, "aop request-changes" in refused.err) == (1, True, True)


def test_a_person_at_a_terminal_is_asked_first(ready: World) -> None:
    (tree(ready) / "src/a.txt").write_text("one\nDEUX\nthree\n")
    kept = run_aop_at_terminal(ready.root, "take", "one", types="n\n")
    assert (kept.code, kept.err.endswith("Not taken. Nothing changed.\n")) == (3, True)
    assert ready.ok("feature.state_get", feature_id="one")["front_matter"]["status"] == "ready_to_merge"
    taken = run_aop_at_terminal(ready.root, "take", "one", types="y\n")
    assert (taken.code, "Take these edits as a patch of one? [y/N]" in taken.err) == (0, True)


BYTES = bytes(range(256)) * 4


def test_binary_files_and_text_in_other_encodings_are_taken_as_they_are(ready: World) -> None:
    (tree(ready) / "src/new.txt").write_bytes(BYTES)
    (tree(ready) / "src/a.txt").write_bytes("größer\n".encode("latin-1"))
    ran = run_aop(ready.root, "take", "one", "--yes")
    assert ran.code == 0, ran.err
    assert "src/new.txt | Bin 0 -> 1024 bytes" in ran.err
    found = ready.ok("feature.state_get", feature_id="one")["front_matter"]["tree"]
    (tree(ready) / "src/new.txt").write_bytes(BYTES[::-1])
    again = take(ready)
    assert again["before"] == found
    for data, path in ((BYTES[::-1], "src/new.txt"), ("größer\n".encode("latin-1"), "src/a.txt")):
        shown = subprocess.run(
            ["git", "show", f"{again['tree']}:{path}"], cwd=ready.root, capture_output=True, check=True
        )
        assert shown.stdout == data
    assert [ready.ok("gates.run", feature_id="one", mode=mode)["status"] for mode in ("fast", "full")] == [
        "qa",
        "ready_to_merge",
    ]


def test_a_secret_in_binary_edits_is_found(ready: World) -> None:
    (tree(ready) / "src/new.txt").write_bytes(b"\0" + SECRET.encode())
    assert ready.refusal("repo.take_edits", feature_id="one", dry_run=False)["code"] == "secret_detected"


def test_a_file_that_is_too_large_for_a_patch_is_named(ready: World) -> None:
    (tree(ready) / "src/a.txt").write_text("small\n")
    (tree(ready) / "src/new.txt").write_bytes(os.urandom(1024 * 1024))
    error = ready.refusal("repo.take_edits", feature_id="one", dry_run=False)
    assert (error["code"], error["details"]["path"]) == ("invalid_patch", "src/new.txt")
    assert "The largest file is `src/new.txt`." in error["message"]
