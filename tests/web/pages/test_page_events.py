"""Page events: every number of the journal once and in order, also over a server that is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from aop.core.roles import Role
from tests.mcpserver.clients import Served, served
from tests.web.pages.page_visits import Browser, visit
from tests.world import World, run_aop


def note(world: World, text: str) -> None:
    world.ok("feature.log_append", role=Role.BUILDER, feature_id="one", note=text)


def newest(world: World) -> int:
    with world.app.record.read() as view:
        return max((entry.seq for entry in view.journal(newest=1)), default=0)


@contextmanager
def stream(server: Served, browser: Browser, after: int, **headers: str) -> Iterator[Iterator[dict[str, str]]]:
    host = browser.origin.removeprefix("http://")
    sent = {"host": host, "cookie": browser.cookie, **headers}
    with httpx2.stream("GET", f"{server.origin}/events?after={after}", headers=sent, timeout=60) as answer:
        assert answer.status_code == 200
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    event: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        else:
            if "event" in event:
                yield event
            event = {}


def covered(events: Iterator[dict[str, str]], until: int) -> list[int]:
    """Return the numbers that events cover, up to one."""
    seen: list[int] = []
    for event in events:
        if event["event"] == "news":
            data = json.loads(event["data"])
            assert event["id"] == str(data["seq"])
            seen += range(data["after"] + 1, data["seq"] + 1)
        if seen and seen[-1] >= until:
            break
    return seen


@pytest.mark.parametrize("lives", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_each_number_comes_once_over_servers_that_are_killed(world: World, lives: int) -> None:
    world.init("one")
    start = seen_last = newest(world)
    seen: list[int] = []
    for life in range(lives):
        with served(world.root) as server, visit(world.root, server) as browser:
            note(world, f"while {life} serves")
            with stream(server, browser, 0, **{"last-event-id": str(seen_last)}) as events:
                note(world, f"while {life} is read")
                seen += covered(events, newest(world))
                seen_last = seen[-1]
                server.process.kill()
        note(world, f"after {life}")
    assert seen == list(range(start + 1, seen_last + 1))


def test_a_stream_ends_with_its_session_and_says_that_it_lives(world: World) -> None:
    world.init("one")
    with (
        served(world.root) as server,
        visit(world.root, server) as browser,
        stream(server, browser, newest(world)) as events,
    ):
        assert next(events)["event"] == "beat"
        sessions = run_aop(world.root, "token", "list", "--json").json["data"]["tokens"]
        for each in sessions:
            run_aop(world.root, "token", "revoke", each["token_id"])
        assert [event for event in events if event["event"] == "news"] == []


@pytest.mark.parametrize("after", ["", "x", "-1", "1" * 30])
def test_a_stream_needs_the_number_at_which_it_begins(world: World, after: str) -> None:
    with served(world.root) as server, visit(world.root, server) as browser:
        assert browser.get(f"/events?after={after}").status == 400
