"""Parts of a feature, journal and search by clicks in a real Chromium; the record says what happened."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.web.browser.windows import window
from tests.world import PATCH, World

pytestmark = pytest.mark.browser

SECONDS = 60_000
SECOND = PATCH.replace("-two", "-TWO").replace("+TWO", "+2")


def state_of(world: World) -> Any:
    return world.ok("feature.state_get", feature_id="one")["front_matter"]


def drafts(world: World) -> list[str]:
    return [each["comment"]["text"] for each in world.ok("feature.comments", feature_id="one")["drafts"]]


@pytest.mark.clicks("feature/review.html viewed", "feature/review.html not-viewed")
def test_a_file_is_marked_as_viewed_and_as_not_viewed(world: World, browser: Browser) -> None:
    world.ready("one")

    def viewed() -> str:
        who: str = world.ok("repo.diff_bundle", feature_id="one")["files"][0]["viewed_by"]
        return who

    with window(browser, world.root) as opened:
        page = opened.go("/features/one")
        opened.live()
        page.get_by_role("button", name="Mark as viewed").click()
        expect(page.locator("#decide")).to_contain_text("1 of 1 file viewed", timeout=SECONDS)
        assert viewed() == "person:ada"
        page.get_by_role("button", name="Not viewed").click()
        expect(page.locator("#decide")).to_contain_text("0 of 1 file viewed", timeout=SECONDS)
        assert viewed() == ""


@pytest.mark.clicks("feature/comments.html comment-edit", "feature/comments.html comment-delete")
def test_a_draft_is_edited_and_another_one_deleted(world: World, browser: Browser) -> None:
    world.ready("one")
    for text in ("First.", "Second."):
        world.ok("feature.comment", feature_id="one", text=text)
    with window(browser, world.root) as opened:
        page = opened.go("/features/one")
        opened.live()
        page.locator("#edit-1 summary").click()
        page.get_by_label("Comment 1").fill("Primo.")
        page.locator("#edit-1").get_by_role("button", name="Save").click()
        expect(page.locator("#drafts")).to_contain_text("Primo.", timeout=SECONDS)
        page.get_by_role("button", name="Delete").last.click()
        expect(page.locator("#drafts")).not_to_contain_text("Second.", timeout=SECONDS)
        page.get_by_role("button", name="Ask for changes and send 1 comment").wait_for()
    assert drafts(world) == ["Primo."]


@pytest.mark.clicks("feature/comments.html comment", "feature/plan.html request-changes")
def test_a_comment_on_a_clause_of_the_plan_goes_back_to_the_planner(world: World, browser: Browser) -> None:
    world.ready("one")
    with window(browser, world.root) as opened:
        page = opened.go("/features/one/plan")
        opened.live()
        page.get_by_role("link", name="Comment on criterion 1").click()
        page.get_by_label("Comment", exact=True).fill("Which file?")
        page.get_by_role("button", name="Save as a draft").click()
        page.get_by_role("button", name="Ask for changes and send 1 comment").click(timeout=SECONDS)
        expect(page.get_by_text("the agent has not answered yet")).to_be_visible(timeout=SECONDS)
    (sent,) = world.ok("feature.comments", feature_id="one")["sent"]
    assert (sent["comment"]["clause"], state_of(world)["status"]) == ("criterion-1", "planning")


@pytest.mark.clicks("feature/review.html reject")
def test_an_approach_is_rejected_with_a_reason_and_planned_again_from_the_base(world: World, browser: Browser) -> None:
    world.ready("one")
    base = world.ok("feature.trees", feature_id="one")["trees"][0]["tree"]
    with window(browser, world.root) as opened:
        page = opened.go("/features/one")
        opened.live()
        page.get_by_label("Changes for the agent").fill("Use the other file.")
        page.get_by_role("button", name="Reject the approach").click()
        expect(page.get_by_text("A person rejected the approach.")).to_be_visible(timeout=SECONDS)
        expect(page.get_by_role("button", name="Reject the approach")).to_have_count(0)
    (asked,) = world.ok("report.feature_summary", feature_id="one")["requests"]
    assert (asked["kind"], asked["text"]) == ("rejection", "Use the other file.")
    assert (state_of(world)["status"], state_of(world)["tree"]) == ("planning", base)


@pytest.mark.clicks("feature/attempts.html show", "feature/attempts.html undo")
def test_two_trees_are_compared_and_the_feature_goes_back_to_one(world: World, browser: Browser) -> None:
    world.plan("one")
    world.patch("one")
    world.patch("one", SECOND)
    _base, first, second = (each["tree"] for each in world.ok("feature.trees", feature_id="one")["trees"])
    with window(browser, world.root) as opened:
        page = opened.go("/features/one/attempts")
        opened.live()
        page.locator("select[name=from]").select_option(first)
        page.locator("select[name=to]").select_option(second)
        page.get_by_role("button", name="Compare").click()
        expect(page.locator("table.diff tr.d")).to_contain_text("TWO")
        expect(page.locator("table.diff tr.a")).to_contain_text("2")
        row = page.get_by_role("row").filter(has_text=first[:8])
        row.get_by_role("button", name="Go back to it").click()
        expect(row.get_by_text("now", exact=True)).to_be_visible(timeout=SECONDS)
    assert state_of(world)["tree"] == first


@pytest.mark.clicks("feature/log.html show", "history/journal.html show", "now/search.html show")
def test_log_journal_and_search_show_what_they_are_asked_for(world: World, browser: Browser) -> None:
    world.plan("one")
    log = world.root / ".aop/logs/one/builder.log"
    log.parent.mkdir(parents=True)
    log.write_text("first words\nother words\n")
    with window(browser, world.root) as opened:
        page = opened.go("/features/one/log")
        page.get_by_label("Text").fill("first")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator("#log-builder li")).to_have_text(["first words"])
        page = opened.go("/journal")
        page.get_by_label("Kind").fill("plan_accepted")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        (entry,) = world.ok("report.journal", kind="plan_accepted")["entries"]
        expect(page.locator(f"#e{entry['seq']}")).to_be_visible()
        page = opened.go("/search")
        page.get_by_label("Words").fill("first file")
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page.get_by_text("Change the first file").first).to_be_visible()
