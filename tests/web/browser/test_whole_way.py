"""A feature on its whole way, from spec to merge, by clicks alone; a scripted agent works under a real supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli.shops import Shop, close_shops
from tests.mcpserver.clients import served
from tests.web.browser.windows import window
from tests.world import git

pytestmark = pytest.mark.browser

SECONDS = 90_000


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A run with a second feature that waits, so that its supervisor stays."""
    made = Shop(tmp_path)
    made.wants("asks_one", "held_two")
    assert made.run("-fl", str(made.specs)).code == 0
    with served(made.root):
        yield made
    (made.agent / "go").touch()
    close_shops()


def save(page: Page, text: str) -> None:
    page.get_by_label("Comment", exact=True).fill(text)
    page.get_by_role("button", name="Save as a draft").click()
    expect(page.locator("#drafts")).to_contain_text(text, timeout=SECONDS)


def test_a_question_is_answered_comments_are_met_and_the_tree_is_merged(shop: Shop, browser: Browser) -> None:
    with window(browser, shop.root) as opened:
        page = opened.page
        page.get_by_label("Answer").fill("blue", timeout=SECONDS)
        page.get_by_role("button", name="Answer", exact=True).click()
        page.get_by_role("link", name="Review tree").click(timeout=SECONDS)
        opened.live()
        page.locator("table.diff tr").filter(has_text="Write asks_one.").locator("td.n a").last.click()
        save(page, "Make it green.")
        page.get_by_role("link", name="Comment on this file").click()
        save(page, "decline: Translate it.")
        page.get_by_role("button", name="Ask for changes and send 2 comments").click()
        expect(page.locator("#comment-1")).to_contain_text("the worker says: done: Written.", timeout=SECONDS)
        expect(page.locator("#comment-1")).to_contain_text("AOP sees: changed, outdated")
        expect(page.locator("#comment-2")).to_contain_text("the worker declines: I will not.")
        page.get_by_role("button", name="I have looked at it").click(timeout=SECONDS)
        page.get_by_role("button", name="Approve tree").click(timeout=SECONDS)
        page.get_by_label("Message of the merge").fill("By clicks alone", timeout=SECONDS)
        page.get_by_role("button", name="Merge tree").click()
        expect(page.get_by_role("heading", name="Merged")).to_be_visible(timeout=SECONDS)
    assert "By clicks alone" in git(shop.root, "log", "-1", "--format=%B", "main")
    assert git(shop.root, "show", "main:src/asks_one.txt") == "Make it green.\n"
