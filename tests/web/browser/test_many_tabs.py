"""Many tabs of one browser: they share one stream, each is drawn again, and none waits for the others."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from aop.kernel.record.port import newest_seq
from tests.web.browser.windows import window
from tests.world import World

pytestmark = pytest.mark.browser

TABS = 12
"""Twice as many as the connections that a browser opens to one server."""
SECONDS = 60_000


def newest(world: World) -> str:
    with world.app.record.read() as view:
        return str(newest_seq(view))


def test_all_tabs_of_a_browser_share_one_stream_and_another_takes_over(world: World, browser: Browser) -> None:
    world.init("one")
    with window(browser, world.root) as opened:
        first, context = opened.page, opened.page.context
        streams: list[str] = []

        def note(request: Request) -> None:
            if "/events" in request.url:
                streams.append(request.url)

        opened.live()
        context.on("request", note)
        tabs = [context.new_page() for _tab in range(TABS)]
        for tab in tabs:
            tab.goto(f"{opened.origin}/board")
        shown(tabs, newest(world))
        assert streams == []
        world.init("two")
        shown(tabs, newest(world))
        # The tab that listened for all is closed: exactly one of the others listens from where it is.
        first.close()
        world.init("three")
        shown(tabs, newest(world))
        assert len(streams) == 1
        assert all(tab.locator("#card-three").count() == 1 for tab in tabs)


def shown(tabs: list[Page], number: str) -> None:
    for tab in tabs:
        expect(tab.locator("#live .seq")).to_have_text(number, timeout=SECONDS)
        expect(tab.locator("#live")).to_have_class("on", timeout=SECONDS)
