"""A ticket by clicks in a real Chromium; tracker and ledger say what happened."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.cli.tickets.test_ticket import Place
from tests.mcpserver.clients import served
from tests.tickets.local_worlds import KEY
from tests.web.browser.windows import window
from tests.web.pages.test_ticket_page import made_place

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Made before the browser starts: while Playwright works, an answer of a model cannot be recorded."""
    return made_place(tmp_path_factory.mktemp("tickets"))


@pytest.mark.clicks("work/tickets.html dry-run")
def test_a_ticket_is_tried_and_nothing_is_written(place: Place, browser: Browser) -> None:
    with served(place.repo, **place.env), window(browser, place.repo) as opened:
        page = opened.go("/tickets")
        opened.live()
        page.get_by_label("Ticket").fill(KEY)
        page.get_by_role("button", name="Dry run: from ticket to merge request").click()
        expect(page.get_by_text("would work, 7 writes")).to_be_visible(timeout=120_000)
        expect(page.get_by_text("Scaffolding of `orders`")).to_be_visible()
        expect(page.get_by_text(f"aop ticket scaffold {KEY}", exact=True)).to_be_visible()
    assert (place.ticket["comments"], place.aop("runs", "--json").json["data"]["runs"]) == ([], [])
