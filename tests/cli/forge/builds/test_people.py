"""A person and a build at the terminal: pause, resume, interject, note, errors, and an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.forge.projects.documents import ProjectNote
from aop.kernel.record.documents.base import revise
from tests.forge.builds.cycles import begun, coder, cycle_of
from tests.world import Ran, World, make_repository, run_aop


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo"))
    begun(made)
    yield made
    made.close()


def forge(world: World, *words: str, stdin: str = "") -> Ran:
    return run_aop(world.root, "forge", *words, stdin=stdin)


def kinds(world: World) -> list[str]:
    with world.app.record.read() as view:
        return [entry.event.kind for entry in view.journal(kinds=("build_paused", "build_resumed", "build_log"))]


@pytest.mark.req("FORGE-229")
def test_a_build_is_paused_once_and_resumed_once(world: World) -> None:
    first = forge(world, "pause", "shop-b1", "--reason", "Lunch.")
    again = forge(world, "pause", "shop-b1")
    assert (first.code, first.out, first.err) == (
        0,
        "",
        "Pausing it after its current step. Continue with: aop forge resume shop-b1\n",
    )
    assert again.err == "It is already paused. Continue with: aop forge resume shop-b1\n"
    assert (cycle_of(world).hold, cycle_of(world).hold_reason) == ("paused", "Lunch.")
    resumed, idle = forge(world, "resume", "shop-b1"), forge(world, "resume", "shop-b1", "--json")
    assert resumed.err == "Resumed. If no process works on it, continue with: aop forge build shop\n"
    assert (idle.code, idle.json["data"]["changed"], idle.json["schema"]) == (0, False, "aop/1")
    assert (cycle_of(world).hold, kinds(world)) == ("", ["build_paused", "build_resumed"])


def test_resume_raises_the_cap_of_a_build_that_reached_it(world: World) -> None:
    cycle = cycle_of(world)
    with world.app.record.write() as tx:
        tx.put(revise(cycle, hold="cost_cap", hold_reason="The build has cost 50.00 USD."), "shop-b1")
    assert forge(world, "pause", "shop-b1").err == (
        "It already waits: The build has cost 50.00 USD. Continue with: aop forge resume shop-b1\n"
    )
    assert forge(world, "resume", "shop-b1").code == 0
    assert world.ok("forge.build_cost", build_id="shop-b1")["cap_usd"] == 100.0


@pytest.mark.req("FORGE-231")
def test_a_person_speaks_to_a_build(world: World) -> None:
    sent = forge(world, "interject", "shop-b1", "-", stdin="Prices are cents.\n")
    assert (sent.code, sent.err) == (0, "Sent. The model is told before its next reply.\n")
    forge(world, "interject", "shop-b1", "No ORM.")
    assert cycle_of(world).interjections == (
        "[USER INTERJECTION] Prices are cents.",
        "[USER INTERJECTION] No ORM.",
    )
    assert forge(world, "interject", "shop-b1", "  ").code == 2
    for number in range(18):
        world.ok("forge.build_interject", build_id="shop-b1", text=f"{number}")
    assert world.refusal("forge.build_interject", build_id="shop-b1", text="x")["code"] == "too_many_interjections"


@pytest.mark.req("FORGE-217", "FORGE-222")
def test_a_note_is_written_read_replaced_and_emptied(world: World) -> None:
    assert forge(world, "note", "shop").err == "No note yet. Write one with: aop forge note shop TEXT\n"
    assert forge(world, "note", "shop", "All times are UTC.").err == (
        "Stored. A running build is told before its next turn.\n"
    )
    assert forge(world, "note", "shop", "-", stdin="Line one.\nLine two.\n").code == 0
    shown = forge(world, "note", "shop")
    assert (shown.code, shown.out, shown.err) == (0, "Line one.\nLine two.\n", "")
    assert forge(world, "note", "shop", "").err == "Emptied. A running build is told before its next turn.\n"
    assert "There is no project `nothing`." in forge(world, "note", "nothing").err


def test_a_note_goes_with_its_project(world: World) -> None:
    project = world.ok("forge.project_new", name="Plain")["project_id"]
    forge(world, "note", project, "Mine.")
    assert forge(world, "delete", project, "--yes").code == 0
    with world.app.record.read() as view:
        assert [note.project_id for note in view.all(ProjectNote)] == []


@pytest.mark.req("FORGE-181", "FORGE-182")
def test_errors_are_listed_with_the_unresolved_first_and_dismissed(world: World) -> None:
    assert forge(world, "errors", "shop-b1").err == "No errors were seen in shop-b1.\n"
    seen = [
        {"message": "src/a.py:3: no name x", "phase": 1},
        {"message": "src/a.py:9: no name x", "phase": 1},
        {"message": "The model is gone.", "severity": "fatal"},
    ]
    world.ok("forge.error_track", build_id="shop-b1", errors=seen)
    dismissed = forge(world, "errors", "shop-b1", "--dismiss", "e1")
    assert (dismissed.code, dismissed.err) == (0, "Dismissed the error `e1`.\n")
    fatal = forge(world, "errors", "shop-b1", "--dismiss", "e2")
    assert (fatal.code != 0, "ended the build" in fatal.err) == (True, True)
    unknown = forge(world, "errors", "shop-b1", "--dismiss", "e7")
    assert "aop forge errors BUILD" in unknown.err
    listed = forge(world, "errors", "shop-b1")
    lines = [" ".join(line.split()) for line in listed.out.splitlines()]
    assert (listed.code, lines[0], lines[3:]) == (
        0,
        "1 unresolved error, 1 resolved",
        [
            "e2 1 - fatal - The model is gone.",
            "e1 2 1 dismissed src/a.py src/a.py:3: no name x",
        ],
    )
    told = forge(world, "errors", "shop-b1", "--json").json
    assert (told["ok"], [each["error_id"] for each in told["data"]["errors"]]) == (True, ["e2", "e1"])


@pytest.mark.req("FORGE-158")
def test_an_answer_at_the_terminal_says_that_the_build_goes_on(world: World) -> None:
    world.app.gateway.call(coder("shop-b1"), "forge_ask_clarification", {"question": "Which currency?"})
    answered = run_aop(world.root, "answer", "q1", "EUR")
    assert (answered.code, answered.err) == (0, "Answered. The build `shop-b1` goes on with it.\n")
    assert kinds(world) == ["build_log", "build_log"]


@pytest.mark.parametrize("action", ["pause", "resume", "errors"])
def test_an_unknown_build_is_refused_with_the_next_command(world: World, action: str) -> None:
    refused = forge(world, action, "shop-b9")
    assert refused.code != 0
    assert "There is no build `shop-b9`." in refused.err


@pytest.mark.req("FORGE-164")
def test_a_cancelled_build_is_over_and_its_questions_are_closed(world: World) -> None:
    world.app.gateway.call(coder("shop-b1"), "forge_ask_clarification", {"question": "Which currency?"})
    cancelled = forge(world, "cancel", "shop-b1")
    assert (cancelled.code, cancelled.err.splitlines()) == (
        0,
        [
            "Cancelled. Its commits stay on the branch forge/build-shop-b1.",
            "Begin another build with: aop forge build shop",
        ],
    )
    assert (cycle_of(world).status, cycle_of(world).reason) == ("abandoned", "Cancelled by person:ada.")
    assert world.ok("inbox.list")["questions"] == []
    refused = forge(world, "pause", "shop-b1")
    assert (refused.code != 0, "The build `shop-b1` is abandoned." in refused.err) == (True, True)


@pytest.mark.req("FORGE-177")
def test_a_build_that_is_silent_for_too_long_is_held_with_a_fatal_error(world: World) -> None:
    world.ok("forge.build_silence", build_id="shop-b1", sign="beat", silent_seconds=1)
    world.ok("forge.build_silence", build_id="shop-b1", sign="warn", silent_seconds=300)
    assert world.ok("forge.build_silence", build_id="shop-b1", sign="fail", silent_seconds=900)["hold"] == "silent"
    with world.app.record.read() as view:
        entries = view.journal(kinds=("build_log", "build_failed"))
        told = [(each.event.kind, each.event.payload.get("message")) for each in entries]
    assert told == [
        ("build_log", "The build is at work; the last reply or call was 1 second ago."),
        ("build_log", "The build has done nothing for 300 seconds."),
        ("build_failed", None),
    ]
    row = world.ok("forge.errors_list", build_id="shop-b1")["errors"][0]
    assert (row["severity"], row["phase"], row["message"]) == (
        "fatal",
        0,
        "The build did nothing for so long that it is held.",
    )
    assert forge(world, "resume", "shop-b1").code == 0
    assert cycle_of(world).hold == ""
