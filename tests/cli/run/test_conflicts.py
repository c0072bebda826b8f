"""Features that change the same lines, from `aop run` to the last merge, in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shops import Shop
from tests.world import Ran, git

AREAS_ONLY = "version: 1\npatch_policy: {enforce_plan: false}\n"
"""Plans do not name every file, so that two features can meet in one."""
LINES = "main:src/a.txt"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, AREAS_ONLY)


def merge(shop: Shop, feature: str) -> Ran:
    """Approve and merge a feature, as a person does with two commands."""
    approved = shop.aop("approve", feature, "--yes")
    assert approved.code == 0, approved.err
    merged = shop.aop("merge", feature, "--token", approved.out.strip())
    assert merged.code == 0, merged.err
    return merged


def status_of(shop: Shop) -> str:
    """Return the table of features without its line breaks."""
    return " ".join(shop.aop("status").out.split())


@pytest.mark.slow
def test_three_features_that_change_one_line_are_all_merged_each_conflict_resolved_by_a_turn(shop: Shop) -> None:
    first, second, third = "line_a", "line_b", "line_c"
    shop.wants(first, second, third)
    ran = shop.all_at_once()
    assert (ran.code, set(shop.statuses().values())) == (0, {"ready_to_merge"}), ran.err

    merged = merge(shop, first)
    assert f"`{second}` conflicts with the base branch in 1 file.\n" in merged.err
    assert "    on the base branch:\n      | line_a\n    in the feature:\n      | line_b\n" in merged.err
    assert shop.statuses() == {first: "merged", second: "building", third: "building"}
    assert "`line_b` conflicts with the base branch in 1 file. (`src/a.txt`)" in status_of(shop)
    assert "      | line_b\n" in shop.aop("review", second).out
    refused = shop.aop("approve", second, "--yes")
    assert (refused.code != 0, refused.out) == (True, "")

    resumed = shop.aop("resume", "--wait")
    assert (resumed.code, shop.statuses()[second], shop.statuses()[third]) == (
        0,
        "ready_to_merge",
        "ready_to_merge",
    ), resumed.err

    merge(shop, second)
    assert shop.aop("resume", "--wait").code == 0
    merge(shop, third)
    assert git(shop.root, "show", LINES) == "one\nline_a line_b line_c\nthree\n"
    assert set(shop.statuses().values()) == {"merged"}


@pytest.mark.slow
def test_a_conflict_with_a_persons_own_commit_is_seen_before_anything_is_approved_and_resolved(shop: Shop) -> None:
    shop.wants("line_a")
    assert shop.all_at_once().code == 0
    (shop.root / "src/a.txt").write_text("one\nzwei\nthree\n")
    git(shop.root, "commit", "-qam", "Mine")
    status = status_of(shop)
    assert ("Conflicts with the base branch: src/a.txt" in status, "aop rebase line_a --resolve" in status) == (
        True,
        True,
    )
    inbox = " ".join(shop.aop("inbox").out.split())
    assert "1 conflict" in inbox
    assert "Conflicts with the base branch: src/a.txt aop review line_a aop rebase line_a --resolve" in inbox
    refused = shop.aop("approve", "line_a", "--yes")
    assert (refused.code, refused.out, "      | zwei\n" in refused.err) == (1, "", True)
    assert shop.statuses() == {"line_a": "building"}
    resumed = shop.aop("resume", "--wait")
    assert (resumed.code, shop.statuses()) == (0, {"line_a": "ready_to_merge"}), resumed.err
    merge(shop, "line_a")
    assert git(shop.root, "show", LINES) == "one\nzwei line_a\nthree\n"


@pytest.mark.slow
def test_after_two_turns_that_do_not_resolve_it_a_person_is_asked_and_can_start_anew(tmp_path: Path) -> None:
    shop = Shop(tmp_path, AREAS_ONLY)
    (shop.root / "check.sh").write_text("! grep -q nonsense src/a.txt\n")
    git(shop.root, "commit", "-qam", "No nonsense")
    shop.wants("line_a")
    assert shop.all_at_once().code == 0
    (shop.root / "src/a.txt").write_text("one\nzwei\nthree\n")
    git(shop.root, "commit", "-qam", "Mine")
    (shop.agent / "careless").touch()
    assert shop.aop("rebase", "line_a", "--resolve").code == 0
    asked = shop.aop("resume", "--wait")
    assert asked.code == 4, asked.err
    inbox = " ".join(shop.aop("inbox").out.split())
    assert "did not resolve the conflict with the base branch in `src/a.txt` in 2 turns." in inbox
    assert shop.aop("answer", "q1", "anew").code == 0
    resumed = shop.aop("resume", "--wait")
    assert (resumed.code, shop.statuses()) == (0, {"line_a": "ready_to_merge"}), resumed.err
    merge(shop, "line_a")
    assert git(shop.root, "show", LINES) == "one\nline_a\nthree\n"


@pytest.mark.slow
def test_a_feature_that_waited_for_another_begins_on_the_base_as_it_is_then(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.wants("same_a", "same_b")
    assert shop.all_at_once().code == 5
    (first,) = [name for name, status in shop.statuses().items() if status == "ready_to_merge"]
    (second,) = {"same_a", "same_b"} - {first}
    merge(shop, first)
    resumed = shop.aop("resume", "--wait")
    assert (resumed.code, shop.statuses()) == (0, {first: "merged", second: "ready_to_merge"}), resumed.err
    merge(shop, second)
    assert git(shop.root, "show", "main:src/same.txt") == f"Write {second}.\n"
