"""Faults of the pages: many tabs, two people, other ports, old sessions, a record that cannot be read."""

from __future__ import annotations

import resource
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import msgspec
import pytest

from aop.kernel.gateway.page_sessions import PageSessions
from tests.clocks import HandClock
from tests.mcpserver.clients import served
from tests.web.hostile.crowded_world import addresses
from tests.web.pages.page_visits import browser_at, visit
from tests.web.pages.test_page_events import covered, newest, note, stream
from tests.world import World

TABS = 50


def test_fifty_tabs_hear_the_same_change(world: World) -> None:
    world.init("one")
    start = newest(world)
    with served(world.root) as server, visit(world.root, server) as browser, ExitStack() as tabs:
        start = newest(world)
        opened = [tabs.enter_context(stream(server, browser, start)) for _tab in range(TABS)]
        note(world, "for all of them")
        heard = [covered(events, start + 1) for events in opened]
    assert heard == [[start + 1]] * TABS


def test_changes_that_come_together_are_one_event(world: World) -> None:
    world.init("one")
    with served(world.root) as server, visit(world.root, server) as browser:
        start = newest(world)
        for number in range(20):
            note(world, str(number))
        with stream(server, browser, start) as events:
            event = next(each for each in events if each["event"] == "news")
    assert event["id"] == str(start + 20)


def test_the_second_of_two_people_is_told_what_the_first_did(world: World) -> None:
    world.plan("one")
    world.ok("inbox.ask", feature_id="one", gate="question", text="Which name?")
    world.ok("inbox.ask", feature_id="one", gate="question", text="Keep the route?", choices=["yes", "no"])
    with (
        served(world.root) as server,
        visit(world.root, server) as ada,
        visit(world.root, server) as bob,
    ):
        adas, bobs = ada.get("/").form("answer"), bob.get("/").form("answer")
        assert ada.post("/do/answer", {**adas, "answer": "greet"}).status == 303
        late = bob.post("/do/answer", {**bobs, "answer": "hello"})
        assert late.status in (400, 404, 409)
        assert "answered" in late.text
        assert "Which name?" not in bob.get("/").text
    answers = [each["answer"] for each in world.ok("inbox.list", answered=True)["questions"]]
    assert answers == ["greet", None]


def test_a_session_goes_on_at_a_server_on_another_port(world: World) -> None:
    world.init("one")
    with served(world.root) as first, visit(world.root, first) as browser:
        cookie, host = browser.cookie, urlsplit(browser.origin).hostname
    with served(world.root) as second, browser_at(world.root, second) as elsewhere:
        assert second.origin != first.origin
        port = urlsplit(second.origin).port
        assert elsewhere.get("/board", cookie=cookie, host=f"{host}:{port}").status == 200


@pytest.mark.parametrize("hours", [11, 13])
def test_a_session_ends_after_twelve_hours(world: World, hours: int) -> None:
    clock = HandClock("boot-1", 0.0)
    clock.wall = datetime.now(UTC) - timedelta(hours=hours)
    sessions = PageSessions(tokens=msgspec.structs.replace(world.app.tokens, clock=clock))
    old = sessions.enter(sessions.link(by="person:ada")).text
    with served(world.root) as server, visit(world.root, server) as browser:
        name = browser.cookie.partition("=")[0]
        browser.forget()
        drawn = browser.get("/", cookie=f"{name}={old}")
    assert drawn.status == (200 if hours < 12 else 401)


def test_a_page_that_cannot_read_the_record_says_so_and_shows_nothing_of_it(world: World) -> None:
    world.plan("one", summary="A summary of old")
    with served(world.root) as server, visit(world.root, server) as browser:
        assert "one" in browser.get("/board").text
        for file in (world.root / ".aop").glob("*.db*"):
            file.write_bytes(b"not a record" * 1000)
        for path in addresses():
            drawn = browser.get(path)
            assert (drawn.status >= 400, "record" in drawn.text) == (True, True), drawn.html
            assert "A summary of old" not in drawn.text
            assert "card-one" not in drawn.html


def test_on_a_full_disk_pages_are_read_a_decision_is_refused_by_name_and_repeated_later(world: World) -> None:
    world.plan("one")
    with served(world.root) as server, visit(world.root, server) as browser:
        form = browser.get("/board").form("pause")
        _, most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        # No file of the server can grow any more: what the kernel says then is said of a full disk too.
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, most))
        refused = browser.post("/do/pause", form)
        assert (refused.status >= 400, "Disk full" in refused.text) == (True, True), refused.text
        assert not world.ok("report.dashboard")["features"][0]["paused"]
        for path in ("/", "/board", "/features/one", "/journal"):
            assert browser.get(path).status == 200
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, most))
        assert browser.post("/do/pause", form).status == 303
    assert world.ok("report.dashboard")["features"][0]["paused"]
