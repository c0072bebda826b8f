"""`aop comment` and `aop comments`: drafts, their batch and their answers, in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shops import Shop, error_of
from tests.world import World, make_repository, run_aop


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    world = World(make_repository(tmp_path / "repo"))
    world.ready("one")
    world.close()
    return world.root


def test_drafts_are_written_edited_deleted_listed_and_sent(ready: Path) -> None:
    made = run_aop(ready, "comment", "one", "Say it.", "--file", "src/a.txt", "--lines", "2-3")
    assert (made.code, made.out, made.err.splitlines()) == (
        0,
        "",
        [
            "Draft 1 of a comment on src/a.txt, lines 2-3.",
            "1 draft of yours. Send with: aop request-changes one",
        ],
    )
    run_aop(ready, "comment", "one", "Why?", "--file", "src/a.txt", "--lines", "2", "--old")
    run_aop(ready, "comment", "one", "Which file?", "--plan", "criterion-1")
    run_aop(ready, "comment", "one", "All in all good.")
    edited = run_aop(ready, "comment", "one", "--edit", "4", "All in all fine.")
    assert edited.err.startswith("Draft 4 of a comment on the whole feature.")
    deleted = run_aop(ready, "comment", "one", "--delete", "2")
    assert deleted.err == "Deleted the draft 2. 3 drafts left.\n"
    listed = run_aop(ready, "comments", "one")
    assert (listed.code, listed.out.splitlines()) == (
        0,
        [
            "1  src/a.txt, lines 2-3; draft, not sent",
            "    Say it.",
            "    > TWO",
            "    > three",
            "3  criterion-1 of the plan; draft, not sent",
            "    Which file?",
            "    > The file says so",
            "4  the whole feature; draft, not sent",
            "    All in all fine.",
            "3 drafts of yours. Send with: aop request-changes one",
        ],
    )
    sent = run_aop(ready, "request-changes", "one")
    assert sent.err.splitlines()[0] == (
        "Requested changes of one: ready_to_merge -> planning. The next planner's turn gets 3 comments."
    )
    found = run_aop(ready, "comments", "one", "--json").json["data"]
    assert [(each["comment"]["number"], each["standing"]) for each in found["sent"]] == [
        (1, "waiting"),
        (3, "waiting"),
        (4, "waiting"),
    ]
    nothing = run_aop(ready, "request-changes", "one", "--json")
    assert (nothing.code, error_of(nothing)["code"]) == (2, "invalid_arguments")


def test_characters_that_steer_are_named_and_shown_as_escapes(ready: Path) -> None:
    made = run_aop(ready, "comment", "one", "Look \x1b[2J\u202eesrever")
    assert made.code == 0
    assert "Warning: the text has characters that are invisible or imitate others: 2" in made.err
    listed = run_aop(ready, "comments", "one").out
    assert "    Look \\u{1b}[2J\\u{202e}esrever\n" in listed


@pytest.mark.series(4)
@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (("comment", "nobody", "Better."), 1, "unknown_feature"),
        (("comment", "one"), 2, "invalid_cli_args"),
        (("comment", "one", " "), 2, "invalid_arguments"),
        (("comment", "one", "x" * 20_000), 2, "invalid_arguments"),
        (("comment", "one", "Better.", "--file", "src/c.txt"), 1, "file_not_found"),
        (("comment", "one", "Better.", "--file", "src/a.txt", "--lines", "4"), 2, "invalid_arguments"),
        (("comment", "one", "Better.", "--plan", "everything"), 2, "invalid_arguments"),
        (("comment", "one", "--edit", "1", "Better.", "--plan", "summary"), 2, "invalid_cli_args"),
        (("comment", "one", "--edit", "7", "Better."), 1, "unknown_comment"),
        (("comment", "one", "--delete", "7"), 1, "unknown_comment"),
        (("comment", "one", "Better.", "--delete", "7"), 2, "invalid_cli_args"),
        (("comments", "nobody"), 1, "unknown_feature"),
        (("comments",), 2, "invalid_cli_args"),
    ],
)
def test_a_bad_comment_is_refused_with_an_exit_code(
    ready: Path, words: tuple[str, ...], exit_code: int, code: str
) -> None:
    ran = run_aop(ready, *words, "--json")
    assert (ran.code, error_of(ran)["code"]) == (exit_code, code)


@pytest.mark.slow
def test_the_agent_meets_one_comment_and_declines_another(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.wants("plain")
    assert shop.all_at_once().code == 0
    shop.aop("comment", "plain", "Write it better.", "--file", "src/plain.txt", "--lines", "1")
    shop.aop("comment", "plain", "decline: Translate it.", "--file", "src/plain.txt")
    assert shop.aop("approve", "plain", "--yes").code == 0
    assert shop.aop("request-changes", "plain").code == 0
    assert shop.aop("merge", "plain", "--yes").code == 1
    resumed = shop.aop("resume", "--wait")
    assert (resumed.code, shop.statuses()) == (0, {"plain": "ready_to_merge"}), resumed.err
    listed = shop.aop("comments", "plain").out.splitlines()
    assert [line for line in listed if not line.startswith(("1  ", "2  "))] == [
        "    Write it better.",
        "    > Write plain.",
        "    the worker says: done: Written.",
        "    AOP sees: changed, outdated",
        "    decline: Translate it.",
        "    the worker declines: I will not.",
        "    AOP sees: changed",
    ]
    assert shop.turns() == [("planner", []), ("builder", []), ("builder", [1, 2])]


@pytest.mark.slow
def test_an_agent_that_declines_everything_goes_on_without_a_patch(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.wants("plain")
    assert shop.all_at_once().code == 0
    shop.aop("comment", "plain", "decline: Translate it.", "--file", "src/plain.txt", "--lines", "1")
    shop.aop("comment", "plain", "decline: Say more.", "--plan", "summary")
    assert shop.aop("request-changes", "plain").code == 0
    resumed = shop.aop("resume", "--wait")
    assert (resumed.code, shop.statuses()) == (0, {"plain": "ready_to_merge"}), resumed.err
    found = shop.aop("comments", "plain", "--json").json["data"]["sent"]
    assert [(each["standing"], each["place"]["fate"]) for each in found] == [
        ("declined", "unchanged"),
        ("declined", "unchanged"),
    ]
    assert [word["by"].partition(":")[0] for word in found[1]["comment"]["words"]] == ["planner", "builder"]
    assert shop.turns() == [("planner", []), ("builder", []), ("planner", [2]), ("builder", [1, 2])]
