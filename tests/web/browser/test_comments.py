"""Comments by clicks in a real Chromium, and a tree that is not swapped under the mouse; the record is the judge."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from aop.core.roles import Role
from tests.web.browser.windows import window
from tests.world import PATCH, World

pytestmark = pytest.mark.browser

SECOND = PATCH.replace("-two", "-TWO").replace("+TWO", "+2")
SECONDS = 60_000


def prove(world: World) -> None:
    for mode in ("fast", "full"):
        world.ok("gates.run", feature_id="one", mode=mode)


def number(page: Page, text: str) -> Locator:
    """Return the number of a line of the diff, which opens the form for a comment."""
    return page.locator("table.diff tr").filter(has_text=text).locator("td.n a").last


def write_range(page: Page) -> None:
    number(page, "one").click()
    expect(page.get_by_label("Lines of src/a.txt")).to_have_value("1")
    number(page, "TWO").click(modifiers=["Shift"])
    expect(page.get_by_label("Lines of src/a.txt")).to_have_value("1-2")
    box = page.get_by_label("Comment", exact=True)
    expect(box).to_be_focused()
    box.fill("Number it.")
    page.get_by_role("button", name="Save as a draft").click()
    expect(page.locator("#drafts")).to_contain_text("Number it.", timeout=SECONDS)
    expect(page.locator("#comment-form")).to_have_count(0)


def write_meanwhile(page: Page, world: World) -> None:
    """Write a comment while another one comes from the terminal: it is drawn, and the words stay."""
    number(page, "three").click()
    page.get_by_label("Comment", exact=True).fill("And drop this")
    world.ok("feature.comment", feature_id="one", text="From the terminal.")
    expect(page.locator("#drafts")).to_contain_text("From the terminal.", timeout=SECONDS)
    expect(page.get_by_label("Comment", exact=True)).to_have_value("And drop this")
    page.get_by_role("button", name="Save as a draft").click()


@pytest.mark.clicks("feature/comments.html comment", "feature/review.html request-changes")
def test_comments_are_written_below_lines_sent_met_and_declined(world: World, browser: Browser) -> None:
    world.ready("one")
    world.approval("one")
    with window(browser, world.root) as opened:
        page = opened.go("/features/one")
        opened.live()
        write_range(page)
        write_meanwhile(page, world)
        page.get_by_role("button", name="Ask for changes and send 3 comments").click(timeout=SECONDS)
        expect(page.get_by_text("the agent has not answered yet")).to_have_count(3, timeout=SECONDS)
        world.patch("one", SECOND)
        said = [{"number": 1, "word": "done"}, {"number": 3, "word": "declined", "reason": "It is needed."}]
        world.ok("feature.answer_comments", role=Role.BUILDER, feature_id="one", comments=said)
        expect(page.get_by_text("the worker declines: It is needed.")).to_be_visible(timeout=SECONDS)
        expect(page.locator("#comment-1")).to_contain_text("AOP sees: changed, outdated")
        expect(page.locator("tr.talk #comment-3")).to_contain_text("AOP sees: unchanged")
        expect(page.locator("#comment-2")).to_contain_text("the worker said nothing about it")
        expect(page.get_by_role("button", name="Approve tree")).to_have_count(0)
    sent = world.ok("feature.comments", feature_id="one")["sent"]
    assert [(each["comment"]["lines"], each["comment"]["batch"], each["standing"]) for each in sent] == [
        ("1-2", 1, "done"),
        ("", 1, "open"),
        ("3", 1, "declined"),
    ]


def test_a_tree_that_takes_the_place_of_another_is_not_approved_before_it_was_looked_at(
    world: World, browser: Browser
) -> None:
    world.ready("one")
    with window(browser, world.root) as opened:
        page = opened.go("/features/one")
        opened.live()
        approve = page.get_by_role("button", name="Approve tree")
        expect(approve).to_be_enabled()
        before = world.ok("repo.status", feature_id="one")["tree"]
        world.ok("feature.request_changes", feature_id="one", text="Number it.")
        world.patch("one", SECOND)
        prove(world)
        after = world.ok("repo.status", feature_id="one")["tree"]
        approve = page.get_by_role("button", name=f"Approve tree {after[:8]}")
        expect(approve).to_be_disabled(timeout=SECONDS)
        expect(page.locator("#moved")).to_contain_text(f"The tree was {before[:8]} and is {after[:8]}.")
        href = page.get_by_role("link", name="Look at its trees").get_attribute("href") or ""
        assert href.endswith(f"/features/one/attempts?from={before}&to={after}")
        # A further redraw does not wake it.
        world.ok("feature.log_append", role=Role.BUILDER, feature_id="one", note="Something else.")
        expect(page.locator("#live")).to_contain_text(str(newest(world)), timeout=SECONDS)
        expect(approve).to_be_disabled()
        page.get_by_role("button", name="I have looked at it").click()
        expect(page.locator("#moved")).to_be_hidden()
        approve.click()
        expect(page.get_by_role("button", name="Merge tree")).to_be_enabled(timeout=SECONDS)
    approvals = world.ok("report.feature_summary", feature_id="one")["approvals"]
    assert [(each["tree"], each["void_because"]) for each in approvals] == [(after, [])]


def newest(world: World) -> int:
    with world.app.record.read() as view:
        return max(entry.seq for entry in view.journal())
