"""`aop request-changes` and `aop reject`: a person speaks, the next turn obeys; all in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shops import SECONDS, Shop, error_of
from tests.racing import until
from tests.world import World, git, make_repository, run_aop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def made(shop: Shop, feature: str, path: str = "") -> str:
    return (shop.root / f".worktrees/{feature}" / (path or f"src/{feature}.txt")).read_text()


def is_building(shop: Shop) -> bool:
    """Tell whether the builder of the only feature takes its turn now."""
    return shop.statuses() == {"waits": "building"} and shop.turns_in_progress() == 1


@pytest.mark.slow
def test_the_next_turn_gets_the_request_and_obeys_and_the_feature_is_ready_again(shop: Shop) -> None:
    shop.wants("plain")
    assert shop.all_at_once().code == 0
    said = shop.aop("request-changes", "plain", "Write it better.", "--file", "src/plain.txt", "--lines", "1")
    assert (said.code, said.out, said.err.splitlines()) == (
        0,
        "",
        [
            "Requested changes of plain: ready_to_merge -> building. The next builder's turn gets the text.",
            "Continue with: aop resume",
        ],
    )
    assert shop.aop("request-changes", "plain", "At once.").code == 0
    review = shop.aop("review", "plain", "--no-pager").out
    block = review[review.index("Requested by a person") :].splitlines()
    assert [line.partition("Z ")[2] or line for line in block[:6]] == [
        "Requested by a person, not done yet",
        "person:ada: src/plain.txt, line 1",
        "    Write it better.",
        "    > Write plain.",
        "person:ada: changes",
        "    At once.",
    ]
    assert shop.aop("approve", "plain", "--yes").code == 1
    resumed = shop.aop("resume", "--wait")
    assert (resumed.code, shop.statuses()) == (0, {"plain": "ready_to_merge"}), resumed.err
    assert made(shop, "plain") == "Write it better. At once.\n"
    assert shop.turns() == [("planner", []), ("builder", []), ("builder", [1, 2])]
    assert "Requested by a person" not in shop.aop("review", "plain", "--no-pager").out
    assert shop.events()["change_requests_given", "plain"] == 1


@pytest.mark.slow
def test_a_running_supervisor_takes_a_ready_feature_up_again(shop: Shop) -> None:
    shop.wants("plain", "held_one")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: shop.statuses().get("plain") == "ready_to_merge", seconds=SECONDS)
    said = shop.aop("request-changes", "plain", "Shorter.", "--json")
    assert (said.code, said.json["data"]["status"]) == (0, "building")
    until(lambda: shop.statuses().get("plain") == "ready_to_merge", seconds=SECONDS)
    assert made(shop, "plain") == "Shorter.\n"
    (shop.agent / "go").touch()
    shop.until_supervisor_ended()
    assert shop.statuses() == {"held_one": "ready_to_merge", "plain": "ready_to_merge"}


@pytest.mark.slow
def test_a_request_during_a_turn_is_for_the_turn_after_it(shop: Shop) -> None:
    shop.wants("waits")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: is_building(shop), seconds=SECONDS)
    said = shop.aop("request-changes", "waits", "Like this.")
    assert said.code == 0
    assert "continues it. Watch with: aop watch" in said.err
    (shop.agent / "go").touch()
    shop.until_supervisor_ended()
    assert shop.statuses() == {"waits": "ready_to_merge"}
    assert shop.turns() == [("planner", []), ("builder", []), ("builder", [1])]
    assert made(shop, "waits") == "Like this.\n"


@pytest.mark.slow
def test_a_rejected_approach_is_planned_and_built_again(shop: Shop) -> None:
    shop.wants("plain")
    assert shop.all_at_once().code == 0
    said = shop.aop("reject", "plain", "It belongs into src/other.txt")
    assert said.code == 0
    assert said.err.startswith("Rejected the approach of plain: ready_to_merge -> planning.")
    resumed = shop.aop("resume", "--wait")
    assert (resumed.code, shop.statuses()) == (0, {"plain": "ready_to_merge"}), resumed.err
    assert made(shop, "plain", "src/other.txt") == "Write plain.\n"
    assert not (shop.root / ".worktrees/plain/src/plain.txt").exists()
    assert shop.turns() == [("planner", []), ("builder", []), ("planner", [1]), ("builder", [])]
    kept = next(line for line in said.err.splitlines() if "refs/aop/undone" in line).split()[-1]
    assert git(shop.root, "show", f"{kept}:src/plain.txt") == "Write plain.\n"


@pytest.mark.slow
def test_a_rejection_during_a_builders_turn_ends_the_work_on_the_old_plan(shop: Shop) -> None:
    shop.wants("waits")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: is_building(shop), seconds=SECONDS)
    assert shop.aop("reject", "waits", "It belongs into src/other.txt").code == 0
    (shop.agent / "go").touch()
    shop.until_supervisor_ended()
    assert shop.statuses() == {"waits": "ready_to_merge"}
    assert shop.turns() == [("planner", []), ("builder", []), ("planner", [1]), ("builder", [])]
    assert made(shop, "waits", "src/other.txt") == "Write waits.\n"


@pytest.mark.slow
def test_what_was_undone_goes_on_with_resume(shop: Shop) -> None:
    shop.wants("plain")
    assert shop.all_at_once().code == 0
    assert shop.aop("undo", "plain", "--yes").code == 0
    assert shop.statuses() == {"plain": "building"}
    assert not (shop.root / ".worktrees/plain/src/plain.txt").exists()
    resumed = shop.aop("resume", "plain", "--wait")
    assert (resumed.code, shop.statuses()) == (0, {"plain": "ready_to_merge"}), resumed.err
    assert made(shop, "plain") == "Write plain.\n"


@pytest.mark.slow
def test_taken_edits_are_proven_without_another_turn(shop: Shop) -> None:
    shop.wants("plain")
    assert shop.all_at_once().code == 0
    (shop.root / ".worktrees/plain/src/plain.txt").write_text("Written by hand.\n")
    assert shop.aop("take", "plain", "--yes").code == 0
    assert shop.statuses() == {"plain": "building"}
    resumed = shop.aop("resume", "--wait")
    assert (resumed.code, shop.statuses()) == (0, {"plain": "ready_to_merge"}), resumed.err
    assert made(shop, "plain") == "Written by hand.\n"
    assert shop.turns() == [("planner", []), ("builder", [])]


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    world = World(make_repository(tmp_path / "repo"))
    world.ready("one")
    world.close()
    return world.root


@pytest.mark.series(4)
@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (("request-changes", "nobody", "Better."), 1, "unknown_feature"),
        (("request-changes", "one", ""), 2, "invalid_arguments"),
        (("request-changes", "one", "x" * 20_000), 2, "invalid_arguments"),
        (("request-changes", "one", "Better.", "--file", "src/c.txt"), 1, "file_not_found"),
        (("request-changes", "one", "Better.", "--file", "src/a.txt", "--lines", "4"), 2, "invalid_arguments"),
        (("request-changes", "one", "Better.", "--file", "src/a.txt", "--lines", "two"), 2, "invalid_arguments"),
        (("request-changes", "one"), 2, "invalid_arguments"),
        (("reject", "nobody", "No."), 1, "unknown_feature"),
        (("reject", "one", " "), 2, "invalid_arguments"),
        (("reject", "one"), 2, "invalid_cli_args"),
    ],
)
def test_a_bad_objection_is_refused_with_an_exit_code(
    ready: Path, words: tuple[str, ...], exit_code: int, code: str
) -> None:
    ran = run_aop(ready, *words, "--json")
    assert (ran.code, error_of(ran)["code"]) == (exit_code, code)
    assert run_aop(ready, "status", "--json").json["data"]["features"][0]["status"] == "ready_to_merge"


def test_a_merged_feature_takes_no_objection(ready: Path) -> None:
    world = World(ready)
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval("one"))
    world.close()
    for verb in ("request-changes", "reject"):
        ran = run_aop(ready, verb, "one", "Better.")
        assert ran.code == 1
        assert "The feature `one` is `merged`" in ran.err
