"""Faults of the server seen from a real Chromium: killed, back again, without its record, and flooded by a log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from aop.core.roles import Role
from aop.kernel.record.port import newest_seq
from tests.mcpserver.clients import Served, served
from tests.web.browser.windows import Window, window
from tests.world import World, make_repository

pytestmark = pytest.mark.browser

KILLS = 10
LINES_A_SECOND, FLOOD_SECONDS = 400, 3
SECONDS = 120_000
NUMBERS = """\
() => {
  window.numbers = [];
  new MutationObserver(() => {
    const shown = document.getElementById("main").dataset.seq;
    if (window.numbers.at(-1) !== Number(shown)) window.numbers.push(Number(shown));
  }).observe(document.getElementById("main"), { attributes: true, attributeFilter: ["data-seq"] });
}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo"))
    made.init("one")
    yield made
    made.close()


def note(world: World, text: str) -> None:
    world.ok("feature.log_append", role=Role.BUILDER, feature_id="one", note=text)


def newest(world: World) -> int:
    with world.app.record.read() as view:
        return newest_seq(view)


def kill(server: Served) -> None:
    server.process.kill()
    server.process.wait(timeout=60)


def ignore_lost_connections(opened: Window) -> None:
    """Forget what Chromium says of a server that does not answer."""
    opened.wrong = [each for each in opened.wrong if "Failed to load resource" not in each]


def listed(page: Page) -> list[int]:
    return [int(text) for text in page.locator("#main td.n:first-child").all_inner_texts()]


def test_over_ten_kills_each_event_is_shown_once_and_in_order(world: World, browser: Browser) -> None:
    with served(world.root) as first, window(browser, world.root) as opened:
        port = str(urlsplit(first.origin).port)
        page = opened.go("/features/one/timeline")
        opened.live()
        page.evaluate(NUMBERS)
        begun = newest(world)
        kill(first)
        for life in range(KILLS):
            expect(page.locator("#live")).to_have_class("lost", timeout=SECONDS)
            note(world, f"while nobody serves, {life}")
            with served(world.root, "--port", port) as server:
                note(world, f"while {life} serves")
                expect(page.locator("#live .seq")).to_have_text(str(newest(world)), timeout=SECONDS)
                note(world, f"when {life} is killed")
                kill(server)
        with served(world.root, "--port", port):
            expect(page.locator("#live .seq")).to_have_text(str(newest(world)), timeout=SECONDS)
            expect(page.locator("#live")).to_have_class("on", timeout=SECONDS)
            numbers, shown = page.evaluate("window.numbers"), listed(page)
            ignore_lost_connections(opened)
    end = begun + 3 * KILLS
    assert sorted(shown, reverse=shown[0] > shown[-1]) == shown
    assert [each for each in sorted(shown) if each > begun] == list(range(begun + 1, end + 1))
    # It never went back to an older number, and no number was drawn as two.
    assert sorted(set(numbers)) == numbers
    assert numbers[-1] == end


def test_a_page_whose_record_cannot_be_read_says_so_and_shows_nothing_of_it(world: World, browser: Browser) -> None:
    with served(world.root), window(browser, world.root) as opened:
        page = opened.go("/board")
        opened.live()
        expect(page.locator("#card-one")).to_be_visible()
        for file in (world.root / ".aop").glob("*.db*"):
            file.write_bytes(b"not a record" * 1000)
        expect(page.locator("#live")).to_have_class("lost", timeout=SECONDS)
        expect(page.locator("#live")).to_contain_text("as of")
        # What a page that is open asks for is refused: the old cards go.
        page.evaluate("dispatchEvent(new PopStateEvent('popstate'))")
        expect(page.locator("#card-one")).to_have_count(0, timeout=SECONDS)
        expect(page.locator("#main")).to_contain_text("Nothing is shown here that could not be read just now.")
        expect(page.locator("#live")).to_have_class("lost")
        opened.wrong.clear()


def test_a_log_of_four_hundred_lines_a_second_is_followed_to_its_end(world: World, browser: Browser) -> None:
    log = world.root / ".aop/logs/one/builder.log"
    log.parent.mkdir(parents=True)
    log.write_text("line 0\n")
    total = LINES_A_SECOND * FLOOD_SECONDS
    with served(world.root), window(browser, world.root) as opened:
        page = opened.go("/features/one/log?follow=1")
        opened.live()
        writer = threading.Thread(target=flood, args=(log, total))
        writer.start()
        # The page answers while it is flooded.
        page.get_by_label("Text").fill("typed meanwhile")
        expect(page.get_by_text(f"line {total}", exact=True)).to_be_visible(timeout=SECONDS)
        expect(page.get_by_label("Text")).to_have_value("typed meanwhile")
        writer.join()
        shown = page.locator("#log-builder li").all_text_contents()
        numbers = [int(text.removeprefix("line ")) for text in shown]
        assert numbers == list(range(numbers[0], total + 1))
        assert page.locator("#log-builder li").count() <= total


def flood(log: Path, total: int) -> None:
    """Write lines as fast as a talkative program does, in bursts of forty."""
    pause = threading.Event()
    with log.open("a") as file:
        for start in range(1, total + 1, 40):
            file.write("".join(f"line {number}\n" for number in range(start, start + 40)))
            file.flush()
            pause.wait(40 / LINES_A_SECOND)
