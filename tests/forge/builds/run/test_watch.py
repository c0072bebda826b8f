"""A running build under watch: signs of life, silence, and pauses that end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from aop.brains.conversation import Reply, Request
from aop.core.errors import Fault
from aop.core.roles import Role
from aop.forge.builds.people.watchdog import Sign
from aop.forge.builds.run.build_parts import BuildHeld
from aop.forge.builds.run.knowledge import BuildKnowledge
from aop.forge.generation.stored_steps import ToolRefused
from aop.wiring.forge.build_watch import BuildWatch
from tests.clocks import HandClock, clocked
from tests.forge.builds.cycles import coder, cycle_of
from tests.forge.builds.run.builders import BUILD, FETCHED, WRITTEN_0, build_with, notes_repository, scripted
from tests.racing import until
from tests.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = notes_repository(tmp_path / "repo", "version: 1\nforge:\n  build:\n    pause_minutes: 30\n")
    yield made
    made.close()


@pytest.fixture
def clock(world: World) -> HandClock:
    return clocked(world)


def signs(world: World) -> list[str]:
    """Return what the watchdog told those who follow the build."""
    with world.app.record.read() as view:
        entries = list(view.journal(kinds=("build_log", "build_failed")))
    told = [each.event.payload for each in entries if each.event.payload.get("source") in (None, "watchdog")]
    return [" ".join(str(each.get("message") or each["reason"]).split()[:4]) for each in told]


AT_WORK, NOTHING_FOR, HELD = "The build is at", "The build has done", "The build did nothing"


def test_a_silent_build_beats_warns_and_is_held_but_not_while_a_person_is_asked(world: World, clock: HandClock) -> None:
    def thinks_for_ever(_: Request) -> Reply:
        asked = world.app.gateway.call(
            coder(BUILD, Role.FORGE_BUILDER), "forge_ask_clarification", {"question": "Which colour?"}
        )
        clock.go_on(590)
        until(lambda: signs(world) == [AT_WORK])
        world.ok("forge.clarify", project_id="notes", question_id=asked.data["question_id"], answer="Blue.")
        clock.go_on(300)
        until(lambda: signs(world) == [AT_WORK, AT_WORK, NOTHING_FOR])
        clock.go_on(600)
        until(lambda: cycle_of(world, BUILD).hold == "silent")
        return Reply(model="m", text="I thought.")

    with pytest.raises(BuildHeld) as held:
        build_with(world, scripted(FETCHED, thinks_for_ever))
    assert (held.value.cycle.hold, signs(world)[-1]) == ("silent", HELD)
    assert world.ok("forge.build_status", build_id=BUILD)["silence"] == ""
    world.ok("forge.build_resume", build_id=BUILD)
    on = scripted(WRITTEN_0)
    with pytest.raises(Fault, match="script ends"):
        build_with(world, on)
    assert len(on.asked) == 2


class AnsweredMeanwhile(BuildKnowledge):
    """A build that waits for an answer when its watch looks first; the answer comes before that look has ended."""

    waits = True

    def is_asked(self) -> bool:
        waited, self.waits = self.waits, False
        if waited:
            self._kernel.clock.pause(300)
        return waited


def test_a_build_is_silent_from_an_answer_that_comes_while_its_watch_looks(world: World, clock: HandClock) -> None:
    kernel, told = world.app.gateway.kernel, Queue[tuple[Sign, int]]()
    known, rules = AnsweredMeanwhile(kernel, BUILD), kernel.config().policy.forge.build
    watch = BuildWatch(known, rules, clock.boot_seconds, lambda *sign: told.put(sign))

    async def works() -> list[tuple[Sign, int]]:
        return [await asyncio.to_thread(told.get, timeout=300) for _ in range(2)]

    assert asyncio.run(watch.over(works())) == [("beat", 300), ("warn", 300)]


@pytest.mark.req("FORGE-229")
def test_a_build_that_is_paused_for_too_long_is_given_up_with_its_reason(world: World, clock: HandClock) -> None:
    def paused(_: Request) -> Reply:
        world.ok("forge.build_pause", build_id=BUILD, reason="Lunch.")
        return Reply(model="m", text="I think.")

    with pytest.raises(BuildHeld):
        build_with(world, scripted(paused))
    assert world.ok("forge.build_status", build_id=BUILD)["pause_ends_at"] == "2026-01-02T12:30:00.000Z"
    clock.go_on(1799)
    with pytest.raises(BuildHeld):
        build_with(world, scripted())
    clock.go_on(1)
    with pytest.raises(ToolRefused) as refused:
        build_with(world, scripted())
    assert refused.value.error["code"] == "build_ended"
    cycle = cycle_of(world, BUILD)
    assert (cycle.status, cycle.reason) == ("abandoned", "It was on hold for more than 30 minutes: Lunch.")
    assert world.call("forge.build_resume", build_id=BUILD).error is not None
    world.ok("forge.build_begin", project_id="notes")


def test_a_reader_of_a_build_sees_since_when_it_is_silent(world: World, clock: HandClock) -> None:
    world.ok("forge.build_begin", project_id="notes")
    seen = []
    for seconds in (299, 1, 600):
        clock.go_on(seconds)
        world.ok("forge.build_silence", build_id=BUILD, sign="beat")
        status = world.ok("forge.build_status", build_id=BUILD)
        seen.append((status["alive_at"], status["silence"]))
    assert seen == [("2026-01-02T12:00:00.000Z", silence) for silence in ("", "warn", "fail")]
