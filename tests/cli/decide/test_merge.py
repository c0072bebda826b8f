"""`aop merge` and `aop sync`: the checkout of the base branch follows, and no local change is lost."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.git.repositories import with_noted_git
from tests.cli.shops import Shop
from tests.world import World, files, git, make_repository, run_aop, run_aop_at_terminal


def creates(name: str) -> dict[str, Any]:
    """Return how a feature is made ready that creates `src/NAME.txt`."""
    patch = f"--- /dev/null\n+++ b/src/{name}.txt\n@@ -0,0 +1 @@\n+{name}\n"
    return {"diff": patch, "files": files(create=(f"src/{name}.txt",))}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with `main` checked out and three features that may be merged: one changes, two create a file."""
    made = make_repository(tmp_path / "repo")
    world = World(made)
    world.ready("one")
    world.ready("two", **creates("two"))
    world.ready("three", **creates("three"))
    world.close()
    return made


def status(root: Path) -> str:
    return git(root, "status", "--porcelain")


def events(root: Path) -> list[str]:
    world = World(root)
    with world.app.record.read() as view:
        kinds = [entry.event.kind for entry in view.journal()]
    world.close()
    return kinds


def test_after_each_of_three_merges_the_checkout_shows_the_branch_and_keeps_local_edits(root: Path) -> None:
    (root / "README.md").write_text("Mine.\n")
    (root / "src/b.txt").write_text("staged\n")
    git(root, "add", "src/b.txt")
    (root / "notes.txt").write_text("Not tracked.\n")
    local = " M README.md\nM  src/b.txt\n?? notes.txt\n"
    for name in ("one", "two", "three"):
        ran = run_aop(root, "merge", name, "--yes")
        assert (ran.code, ran.out) == (0, git(root, "rev-parse", "main")), ran.err
        assert status(root) == local
    assert git(root, "stash", "list") == ""
    assert (root / "src/a.txt").read_text() == "one\nTWO\nthree\n"
    assert (root / "src/three.txt").read_text() == "three\n"
    assert (root / "README.md").read_text() == "Mine.\n"
    assert git(root, "diff", "--cached", "--stat", "HEAD", "--", "src/b.txt") != ""


def test_a_local_change_that_would_be_lost_refuses_the_merge_and_nothing_changes(root: Path) -> None:
    (root / "src/a.txt").write_text("mine\n")
    head, before = git(root, "for-each-ref"), events(root)
    ran = run_aop(root, "merge", "one", "--yes")
    assert (ran.code, ran.out) == (4, "")
    assert "1 file of the checkout has local changes that would be lost: `src/a.txt`. [checkout_changed]" in ran.err
    assert "with `--leave-checkout`, `aop merge` leaves the checkout as it is" in ran.err
    assert (git(root, "for-each-ref"), events(root)) == (head, before)
    assert (root / "src/a.txt").read_text() == "mine\n"


@pytest.mark.unmeasured
def test_a_file_that_git_does_not_know_or_ignores_is_not_overwritten(root: Path) -> None:
    (root / ".git/info/exclude").write_text("src/two.txt\n")
    (root / "src/two.txt").write_text("my secret notes\n")
    ran = run_aop(root, "merge", "two", "--yes", "--json")
    assert (ran.code, ran.json["error"]["details"]["paths"]) == (4, ["src/two.txt"])
    assert (root / "src/two.txt").read_text() == "my secret notes\n"


def test_a_checkout_that_was_left_is_warned_of_until_sync_brings_it_along(root: Path) -> None:
    old = git(root, "rev-parse", "main").strip()
    for name in ("one", "two", "three"):
        ran = run_aop(root, "merge", name, "--yes", "--leave-checkout")
        assert ran.code == 0
        assert "update it with `aop sync`" in ran.err
    (root / "README.md").write_text("Mine.\n")
    warning = "`main` is checked out at the repository's root, and shows older files; update it with `aop sync`."
    assert f"Warning: {warning}\n" in run_aop(root, "status").err
    assert run_aop(root, "status", "--json").json["data"]["checkout"] == warning
    assert warning in run_aop(root, "doctor").out
    ran = run_aop(root, "sync", "--json")
    head = git(root, "rev-parse", "main").strip()
    assert (ran.code, ran.json["data"]) == (
        0,
        {
            "base_branch": "main",
            "updated": True,
            "old": old,
            "new": head,
            "files": 3,
            "message": f"The checkout shows `main` at {head[:12]} (before: {old[:12]}).",
        },
    )
    assert status(root) == " M README.md\n"
    assert run_aop(root, "status").err == ""
    assert run_aop(root, "sync").err == "The checkout is up to date with `main`.\n"
    assert events(root).count("checkout_updated") == 1


@pytest.mark.unmeasured
def test_sync_after_commits_of_the_person_in_between_loses_neither_side(root: Path) -> None:
    assert run_aop(root, "merge", "one", "--yes", "--leave-checkout").code == 0
    (root / "README.md").write_text("Mine.\n")
    git(root, "commit", "-qm", "Mine", "README.md")  # of this file alone: the index stays behind
    assert run_aop(root, "merge", "two", "--yes", "--leave-checkout").code == 0
    assert run_aop(root, "sync").code == 0
    assert status(root) == ""
    assert (root / "src/a.txt").read_text() == "one\nTWO\nthree\n"
    assert (root / "README.md").read_text() == "Mine.\n"


@pytest.mark.unmeasured
def test_sync_stops_at_a_staged_change_in_a_merged_file(root: Path) -> None:
    assert run_aop(root, "merge", "one", "--yes", "--leave-checkout").code == 0
    (root / "src/a.txt").write_text("mine\n")
    git(root, "add", "src/a.txt")
    ran = run_aop(root, "sync", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (4, "checkout_changed")
    assert (root / "src/a.txt").read_text() == git(root, "show", ":src/a.txt") == "mine\n"


def test_sync_without_its_note_names_the_older_commit_that_the_index_shows(root: Path) -> None:
    old = git(root, "rev-parse", "main").strip()
    for name in ("one", "two"):
        assert run_aop(root, "merge", name, "--yes", "--leave-checkout").code == 0
    (root / "README.md").write_text("Mine.\n")
    git(root, "add", "README.md")
    (root / ".aop/checkout.json").unlink()
    before = status(root)
    ran = run_aop(root, "sync", "--json")
    error = ran.json["error"]
    assert (ran.code, error["code"], status(root)) == (4, "checkout_unknown", before)
    assert (error["details"]["shows"], error["details"]["paths"]) == (old, ["src/a.txt", "src/two.txt"])
    head = git(root, "rev-parse", "main").strip()
    command = f"git update-index -q --refresh; git read-tree -m -u {old} {head}"
    assert error["details"]["suggested_next_actions"] == [
        f"If you did not stage that yourself, update the checkout: `{command}`."
    ]
    subprocess.run(["sh", "-c", command], cwd=root, check=True)
    assert (status(root), run_aop(root, "sync").err) == (
        "M  README.md\n",
        "The checkout is up to date with `main`.\n",
    )


@pytest.mark.unmeasured
def test_a_person_who_followed_with_their_own_git_is_not_warned(root: Path) -> None:
    assert run_aop(root, "merge", "one", "--yes", "--leave-checkout").code == 0
    git(root, "reset", "--hard", "-q")
    assert run_aop(root, "status").err == ""
    assert run_aop(root, "sync").err == "The checkout is up to date with `main`.\n"


def test_a_checkout_in_the_middle_of_a_merge_refuses_both_commands(root: Path) -> None:
    git(root, "switch", "-q", "-c", "topic")
    (root / "README.md").write_text("Theirs.\n")
    git(root, "commit", "-qam", "Theirs")
    git(root, "switch", "-q", "main")
    git(root, "merge", "--no-ff", "--no-commit", "topic")
    head = git(root, "rev-parse", "main")
    for words in (("merge", "one", "--yes"), ("sync",)):
        ran = run_aop(root, *words)
        assert ran.code == 4
        assert "A merge of git is in progress in the checkout of `main`. [checkout_busy]" in ran.err
        assert "End it with `git commit` or `git merge --abort`, then repeat the command." in ran.err
    assert git(root, "rev-parse", "main") == head


@pytest.mark.unmeasured
def test_a_rebase_of_the_base_branch_in_progress_refuses_both_commands(root: Path) -> None:
    (root / "README.md").write_text("Mine.\n")
    git(root, "commit", "-qam", "Mine")
    git(root, "-c", "sequence.editor=sed -i s/pick/edit/", "rebase", "-q", "-i", "HEAD~1")
    before = git(root, "rev-parse", "main")
    for words in (("sync",), ("merge", "one", "--yes")):
        ran = run_aop(root, *words)
        assert (ran.code, "A rebase of git is in progress in the checkout of `main`." in ran.err) == (4, True), ran.err
    assert git(root, "rev-parse", "main") == before


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("switch", "-q", "-c", "topic"), "`main` is not checked out: the checkout is on `topic`."),
        (("switch", "-q", "--detach"), "`main` is not checked out: the checkout is at no branch (detached HEAD)."),
    ],
)
def test_where_the_base_branch_is_not_checked_out_there_is_nothing_to_update(
    root: Path, words: tuple[str, ...], said: str
) -> None:
    git(root, *words)
    assert run_aop(root, "merge", "one", "--yes").code == 0
    assert status(root) == ""
    ran = run_aop(root, "sync")
    assert (ran.code, ran.err) == (0, f"{said} There is nothing to update.\n")


@pytest.mark.unmeasured
def test_a_linked_worktree_of_the_person_is_left_alone_and_named(root: Path, tmp_path: Path) -> None:
    git(root, "switch", "-q", "-c", "topic")
    git(root, "worktree", "add", "-q", str(tmp_path / "linked"), "main")
    ran = run_aop(root, "merge", "one", "--yes")
    assert (ran.code, "is checked out at `linked`" in ran.err, "git read-tree -m -u" in ran.err) == (0, True, True)
    assert (tmp_path / "linked/src/a.txt").read_text() == "one\ntwo\nthree\n"
    assert "`main` is checked out in the linked worktree `linked`" in run_aop(root, "sync").err


def test_a_merge_of_a_file_that_the_base_changed_too_is_tried_once_and_then_made(root: Path, tmp_path: Path) -> None:
    (root / "src/a.txt").write_text("one\ntwo\nthree\nfour\n")
    git(root, "commit", "-qam", "Meanwhile")
    starts = tmp_path / "starts"
    ran = run_aop(root, "merge", "one", "--yes", env=with_noted_git(starts))
    assert ran.code == 0, ran.err
    assert git(root, "show", "main:src/a.txt") == "one\nTWO\nthree\nfour\n"
    assert starts.read_text().count(" merge-tree ") == 2


def test_at_a_terminal_one_yes_approves_and_merges(root: Path) -> None:
    ran = run_aop_at_terminal(root, "merge", "one", types="y\n")
    assert (ran.code, ran.out) == (0, git(root, "rev-parse", "main")), ran.err
    assert "Approve this tree of one and merge it? [y/N] " in ran.err
    assert "Gates    full: pass" in ran.err
    kinds = events(root)
    assert (kinds.count("approval_granted"), kinds.count("feature_merged")) == (1, 1)
    assert status(root) == ""


@pytest.mark.unmeasured
def test_at_a_terminal_a_no_changes_nothing(root: Path) -> None:
    head, before = git(root, "rev-parse", "main"), events(root)
    ran = run_aop_at_terminal(root, "merge", "one", types="n\n")
    assert (ran.code, ran.out, ran.err.splitlines()[-1].endswith("Not merged. Nothing changed.")) == (3, "", True)
    assert (git(root, "rev-parse", "main"), events(root)) == (head, before)


@pytest.mark.unmeasured
def test_without_a_terminal_a_missing_token_is_called_missing(root: Path) -> None:
    ran = run_aop(root, "merge", "one")
    assert (ran.code, ran.out) == (4, "")
    assert "The approval token for `one` is missing. [user_approval_required]" in ran.err
    assert "`aop merge one` at a terminal (or with `--yes`)" in ran.err
    assert "`aop approve one`" in ran.err


@pytest.mark.parametrize(("answer", "shown"), [("y", ""), ("n", "M  src/a.txt\n")])
def test_the_policy_can_have_the_person_asked_about_the_checkout(root: Path, answer: str, shown: str) -> None:
    (root / "agentic/orchestrator/policy.yaml").write_text("version: 1\nmerge_policy: {checkout: ask}\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Ask about my checkout")
    asked = run_aop_at_terminal(root, "merge", "one", types=f"{answer}\ny\n")
    assert (asked.code, status(root)) == (0, shown), asked.err
    assert "Bring a checkout of the base branch along? [y/N] " in asked.err
    unasked = run_aop(root, "merge", "two", "--token", "none", "--json")
    assert (unasked.code, unasked.json["error"]["message"]) == (2, "There is no terminal to ask on.")


@pytest.mark.unmeasured
def test_the_policy_can_leave_the_checkout_alone(root: Path) -> None:
    (root / "agentic/orchestrator/policy.yaml").write_text("version: 1\nmerge_policy: {checkout: leave}\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Leave my checkout")
    world = World(root)
    world.ready("four", **creates("four"))
    world.close()
    assert run_aop(root, "merge", "four", "--yes").code == 0
    assert status(root) == "D  src/four.txt\n"


def test_delete_removes_worktree_and_branch_of_the_merged_feature_and_keeps_its_record(root: Path) -> None:
    ran = run_aop(root, "merge", "one", "--yes", "--delete", "--strategy", "squash")
    assert (ran.code, ran.out) == (0, git(root, "rev-parse", "main"))
    assert "worktree one: removed\nbranch one: removed\n" in ran.err
    assert not (root / ".worktrees/one").exists()
    assert git(root, "branch", "--format=%(refname:short)").split() == ["main", "three", "two"]
    assert git(root, "for-each-ref", "refs/aop/rescue") == ""
    rows = run_aop(root, "status", "--json").json["data"]["features"]
    assert {row["feature_id"]: row["status"] for row in rows}["one"] == "merged"
    assert run_aop(root, "review", "one").code == 0


@pytest.mark.unmeasured
def test_gc_offers_what_merged_features_left_and_removes_it_when_asked(root: Path) -> None:
    assert run_aop(root, "merge", "one", "--yes").code == 0
    ran = run_aop(root, "gc")
    assert (ran.code, ran.out) == (3, "worktree  one  merged\nbranch  one  merged\n")
    ran = run_aop(root, "gc", "--apply")
    assert (ran.code, ran.out) == (0, "worktree  one  removed\nbranch  one  removed\n")
    assert sorted(path.name for path in (root / ".worktrees").iterdir()) == ["three", "two"]
    assert run_aop(root, "gc").err == "Nothing to clean up.\n"


@pytest.mark.unmeasured
def test_of_two_merges_at_once_one_gets_a_clear_answer_and_the_checkout_is_right(root: Path) -> None:
    with ThreadPoolExecutor(2) as both:
        ran = list(both.map(lambda name: run_aop(root, "merge", name, "--yes", "--json"), ("one", "two")))
    merged = [each for each in ran if each.code == 0]
    refused = [each.json["error"]["code"] for each in ran if each.code != 0]
    # The second may also come after the first, and is then merged on top of it.
    assert (len(merged), refused) in ((2, []), (1, ["approval_invalid"]), (1, ["evidence_stale"]))
    assert (status(root), run_aop(root, "sync").err) == ("", "The checkout is up to date with `main`.\n")


def test_what_a_real_run_leaves_in_git_status_is_the_spec_alone(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.wants("one")
    assert shop.all_at_once().code == 0
    assert git(shop.root, "status", "--porcelain", "-uall") == "?? agentic/features/one/spec.md\n"
    assert shop.aop("merge", "one", "--yes").code == 0
    assert git(shop.root, "status", "--porcelain", "-uall") == "?? agentic/features/one/spec.md\n"
