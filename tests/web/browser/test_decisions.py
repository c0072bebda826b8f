"""Decisions by clicks in a real Chromium; the record and git say what happened."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from aop.core.roles import Role
from tests.web.browser.windows import Scheme, window
from tests.world import World, git

pytestmark = pytest.mark.browser

REPORTS = ("/plan", "/merge", "/errors", "/cost", "/time", "/journal", "/journal/board", "/search?q=one", "/doctor")
PATHS = ("/", "/board", *REPORTS)


@pytest.mark.clicks("feature/review.html approve", "feature/review.html merge")
def test_a_feature_is_reviewed_approved_and_merged_by_clicks(world: World, browser: Browser) -> None:
    world.ready("one")
    with window(browser, world.root) as opened:
        page = opened.page
        page.get_by_role("link", name="Review tree").click()
        opened.live()
        page.get_by_role("button", name="Approve tree").click()
        page.get_by_label("Message of the merge").fill("By clicks")
        page.get_by_role("button", name="Merge tree").click()
        expect(page.get_by_role("heading", name="Merged")).to_be_visible(timeout=60_000)
    assert "By clicks" in git(world.root, "log", "-1", "--format=%B", "main")


@pytest.mark.clicks("now/inbox.html answer")
def test_what_happens_elsewhere_is_shown_and_what_is_typed_stays(world: World, browser: Browser) -> None:
    world.plan("one")
    world.ok("inbox.ask", feature_id="one", gate="question", text="Which name?")
    with window(browser, world.root) as opened:
        page = opened.page
        opened.live()
        box = page.get_by_label("Answer")
        box.fill("half an ans")
        world.ok("inbox.ask", feature_id="one", gate="question", text="And a second one?")
        expect(page.get_by_text("And a second one?")).to_be_visible(timeout=30_000)
        expect(box.first).to_have_value("half an ans")
        expect(box.first).to_be_focused()
        box.first.press_sequentially("wer")
        page.get_by_role("button", name="Answer").first.click()
        expect(page.get_by_text("Which name?")).to_be_hidden(timeout=30_000)
    answers = [each["answer"] for each in world.ok("inbox.list", answered=True)["questions"]]
    assert answers == ["half an answer", None]


def test_a_refusal_is_told_on_the_page(world: World, browser: Browser) -> None:
    world.ready("one")
    with window(browser, world.root) as opened:
        page = opened.go("/features/one")
        opened.live()
        # The base branch moves behind AOP's back: the journal says nothing, and the page cannot know yet.
        (world.root / "more.txt").write_text("more\n")
        git(world.root, "add", "more.txt")
        git(world.root, "commit", "-q", "-m", "More")
        page.get_by_role("button", name="Approve tree").click()
        expect(page.get_by_role("alert")).to_contain_text("changed since it was shown", timeout=30_000)
        assert [each for each in opened.wrong if "400" in each]
        opened.wrong.clear()


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [360, 1440, 2560])
def test_no_page_is_wider_than_its_window(world: World, browser: Browser, width: int, scheme: Scheme) -> None:
    world.ready("one")
    world.ok("feature.log_append", role=Role.BUILDER, feature_id="one", note="x" * 3000)
    with window(browser, world.root, width=width, scheme=scheme) as opened:
        for path in (*PATHS, "/features/one", "/features/one/timeline"):
            page = opened.go(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_the_pages_work_without_a_script(world: World, browser: Browser) -> None:
    world.plan("one")
    with window(browser, world.root) as opened:
        session = opened.page.context.storage_state()
        context = browser.new_context(java_script_enabled=False, storage_state=session)
        page = context.new_page()
        page.goto(opened.origin + "/board")
        page.get_by_role("button", name="Pause all").click()
        expect(page.get_by_role("button", name="Resume all")).to_be_visible()
        context.close()
    assert world.ok("report.dashboard")["features"][0]["paused"]
