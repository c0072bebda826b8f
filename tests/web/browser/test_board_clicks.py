"""Board, inbox, merges and errors by clicks in a real Chromium; the record says what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.cli.shops import Shop
from tests.mcpserver.clients import served
from tests.racing import until
from tests.web.browser.windows import window
from tests.world import World, files, git

pytestmark = pytest.mark.browser

SECONDS = 120_000
BROKEN = "--- /dev/null\n+++ b/src/broken.txt\n@@ -0,0 +1 @@\n+broken\n"


def row_of(world: World, feature: str = "one") -> Any:
    return next(row for row in world.ok("report.dashboard")["features"] if row["feature_id"] == feature)


@pytest.mark.clicks("now/board.html stop", "now/board.html retry", "now/inbox.html retry", "now/board.html resume")
def test_a_card_is_stopped_and_taken_up_again_on_the_board_and_in_the_inbox(world: World, browser: Browser) -> None:
    world.plan("one")
    with window(browser, world.root) as opened:
        page = opened.go("/board")
        opened.live()
        page.get_by_role("button", name="Stop one", exact=True).click()
        stopped = page.locator("#col-stopped summary")
        expect(stopped).to_contain_text("1", timeout=SECONDS)
        assert row_of(world)["status"] == "failed"
        stopped.click()
        page.get_by_role("button", name="Retry one", exact=True).click()
        expect(page.get_by_role("button", name="Stop one", exact=True)).to_be_visible(timeout=SECONDS)
        assert row_of(world)["status"] == "building"
        world.ok("feature.stop", feature_id="one")
        page = opened.go("/")
        page.locator("#row-stuck-one").get_by_role("button", name="Retry", exact=True).click()
        expect(page.get_by_text("Nothing waits for you.")).to_be_visible(timeout=SECONDS)
        assert row_of(world)["status"] == "building"
        page = opened.go("/board")
        page.get_by_role("button", name="Pause all").click()
        page.get_by_role("button", name="Resume all").click(timeout=SECONDS)
        expect(page.get_by_role("button", name="Pause all")).to_be_visible(timeout=SECONDS)
    assert not row_of(world)["paused"]


@pytest.mark.clicks("now/inbox.html answer")
def test_a_choice_is_one_click(world: World, browser: Browser) -> None:
    world.plan("one")
    world.ok("inbox.ask", feature_id="one", gate="question", text="Keep the route?", choices=["keep", "drop"])
    with window(browser, world.root) as opened:
        opened.live()
        opened.page.get_by_role("button", name="drop", exact=True).click()
        expect(opened.page.get_by_text("Nothing waits for you.")).to_be_visible(timeout=SECONDS)
    assert [each["answer"] for each in world.ok("inbox.list", answered=True)["questions"]] == ["drop"]


@pytest.mark.clicks("now/merge.html merge")
def test_an_approved_feature_is_merged_in_its_turn_and_the_next_waits_for_a_new_approval(
    world: World, browser: Browser
) -> None:
    world.ready("one")
    world.ready("two", BROKEN.replace("broken", "two"), files=files(create=("src/two.txt",)))
    world.approval("one")
    world.approval("two")
    with window(browser, world.root) as opened:
        page = opened.go("/merge")
        opened.live()
        page.locator("#merge-one").get_by_role("button", name="Merge tree").click()
        expect(page.locator("#merge-one")).to_have_count(0, timeout=SECONDS)
        expect(page.locator("#merge-two")).to_contain_text("Approve it again: the base branch moved after it.")
        expect(page.locator("#merge-two").get_by_role("button", name="Merge tree")).to_have_count(0)
    assert git(world.root, "show", "main:src/a.txt") == "one\nTWO\nthree\n"
    assert (row_of(world)["status"], row_of(world, "two")["status"]) == ("merged", "ready_to_merge")


@pytest.mark.clicks("history/errors.html mark-failure", "history/errors.html request-changes")
def test_a_failure_is_sent_to_its_builder_noted_as_known_and_taken_back(world: World, browser: Browser) -> None:
    world.plan("one", files=files(create=("src/broken.txt",)))
    world.patch("one", BROKEN)
    assert world.call("gates.run", feature_id="one", mode="fast").error
    with window(browser, world.root) as opened:
        page = opened.go("/errors")
        opened.live()
        page.get_by_role("button", name="Send to the builder of one").click()
        until(lambda: bool(world.ok("report.feature_summary", feature_id="one")["requests"]), seconds=60.0)
        page.get_by_label("Why it is known").fill("flaky on Mondays")
        page.get_by_role("button", name="Known", exact=True).click()
        expect(page.get_by_text("known, still a failure")).to_be_visible(timeout=SECONDS)
        (failure,) = world.ok("report.failures")["failures"]
        assert (failure["known"]["note"], row_of(world)["gates"]["fast"]) == ("flaky on Mondays", "fail")
        page.get_by_role("button", name="Not known any more").click()
        expect(page.get_by_text("known, still a failure")).to_have_count(0, timeout=SECONDS)
    assert world.ok("report.failures")["failures"][0]["known"] is None


@pytest.mark.clicks("now/board.html start-run", "feature/feature.html start-run", "now/board.html stop-run")
def test_a_run_is_stopped_and_continued_on_the_board_and_on_a_feature(tmp_path: Path, browser: Browser) -> None:
    shop = Shop(tmp_path)
    shop.wants("held_one")
    assert shop.run("-fl", str(shop.specs)).code == 0
    with served(shop.root, **shop.env), window(browser, shop.root) as opened:
        page = opened.go("/board")
        opened.live()
        for address in ("/board", "/features/held_one"):
            page.get_by_role("button", name="Stop the run").click(timeout=SECONDS)
            shop.until_supervisor_ended()
            page = opened.go(address)
            page.get_by_role("button", name="Continue the run").click(timeout=SECONDS)
            until(shop.is_supervised, seconds=120.0)
            expect(page.get_by_role("button", name="Continue the run")).to_have_count(0, timeout=SECONDS)
            page = opened.go("/board")
        (shop.agent / "go").touch()
        expect(page.locator("#card-held_one")).to_contain_text("full pass", timeout=SECONDS)
    shop.until_supervisor_ended()
    assert shop.statuses() == {"held_one": "ready_to_merge"}
    assert shop.events()["run_began", "None"] == 3


@pytest.mark.clicks("now/inbox.html resume")
def test_a_wait_for_a_provider_is_ended_by_trying_now(tmp_path: Path, browser: Browser) -> None:
    shop = Shop(tmp_path)
    shop.wants("limited_one")
    (shop.agent / "when").write_text("2 hours")
    assert shop.run("-fl", str(shop.specs)).code == 0
    with served(shop.root, **shop.env), window(browser, shop.root) as opened:
        row = opened.page.locator("#row-wait-limited_one")
        expect(row).to_contain_text("Waits for custom until", timeout=SECONDS)
        (shop.agent / "paid").touch()
        row.get_by_role("button", name="Try now").click()
        expect(opened.page.get_by_role("link", name="Review tree")).to_be_visible(timeout=SECONDS)
    shop.until_supervisor_ended()
    assert shop.statuses() == {"limited_one": "ready_to_merge"}
