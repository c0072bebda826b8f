"""Features that ended: a merged one is not run again, and a deleted one stays deleted until a person starts it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shops import Shop
from tests.racing import until
from tests.world import run_aop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def delete(shop: Shop, name: str) -> None:
    ran = run_aop(shop.root, "delete", name, "--yes", "--worktree", "--branch", "--force")
    assert ran.code == 0, ran.err


def test_a_merged_feature_is_not_run_again_by_its_spec_or_its_folder(shop: Shop) -> None:
    shop.wants("one", "two")
    assert shop.all_at_once().code == 0
    assert run_aop(shop.root, "merge", "one", "--yes", "--delete").code == 0
    named = shop.run("--file", str(shop.specs / "one.md"), "--wait")
    assert (named.code, named.out) == (2, "")
    assert "The feature `one` is already merged. [feature_merged]" in named.err
    assert "the name of the file is the id of the feature" in named.err
    before = shop.events()
    ran = shop.all_at_once()
    assert (ran.code, ran.out) == (3, "two  ready_to_merge\n")
    assert "Skipped one: it is merged.\n" in ran.err
    assert not (shop.root / ".worktrees/one").exists()
    assert {key: n for key, n in shop.events().items() if key[1] == "one"} == {
        key: n for key, n in before.items() if key[1] == "one"
    }


def test_a_deleted_feature_stays_deleted_until_its_spec_is_named(shop: Shop) -> None:
    shop.wants("asks_one", "two")
    assert shop.all_at_once().code == 4
    delete(shop, "asks_one")
    resumed = shop.aop("resume", "--wait")
    assert "asks_one" not in shop.statuses(), resumed.err
    again = shop.all_at_once()
    assert "Skipped asks_one: it is deleted. Start it anew with: aop run --file SPEC\n" in again.err
    assert "asks_one" not in shop.statuses()
    assert not (shop.root / ".worktrees/asks_one").exists()
    assert shop.run("--file", str(shop.specs / "asks_one.md"), "--wait").code == 4
    assert shop.statuses()["asks_one"] == "planning"


@pytest.mark.unmeasured
def test_a_feature_that_is_deleted_after_its_supervisor_was_killed_gets_no_further_turn(shop: Shop) -> None:
    shop.wants("held_one")
    process = shop.started()
    until(lambda: shop.is_supervised() and shop.turns_in_progress() == 1, seconds=60)
    assert run_aop(shop.root, "stop").code == 0
    process.wait(timeout=60)
    shop.until_supervisor_ended()
    delete(shop, "held_one")
    (shop.agent / "go").touch()
    before = shop.events()
    ran = shop.aop("resume", "--wait")
    assert shop.statuses() == {}, ran.err
    assert {key: n for key, n in shop.events().items() if key[1] == "held_one"} == {
        key: n for key, n in before.items() if key[1] == "held_one"
    }
