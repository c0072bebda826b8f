"""Reports, keys and cards in a real Chromium; the record is the judge of what happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.mcpserver.clients import served
from tests.web.browser.windows import window
from tests.world import World, files, make_repository

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("windows") / "repo"))
    made.ready("one")
    made.plan("two", files=files(create=("src/two.txt",)))
    with served(made.root):
        yield made
    made.close()


def row_of(world: World, feature: str) -> Any:
    return next(row for row in world.ok("report.dashboard")["features"] if row["feature_id"] == feature)


@pytest.mark.clicks("frame/nav.html show")
def test_keys_lead_to_pages_rows_and_the_search(world: World, browser: Browser) -> None:
    with window(browser, world.root) as opened:
        page = opened.page
        opened.live()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_contain_text("merge")
        page.keyboard.press("Escape")
        for letters, path in (("gp", "/plan"), ("gm", "/merge"), ("ge", "/errors"), ("gc", "/cost"), ("gb", "/board")):
            page.keyboard.type(letters)
            page.wait_for_url(f"**{path}")
            opened.live()
        page.keyboard.press("j")
        expect(page.locator(".here")).to_have_count(1)
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox", name="Search everything")).to_be_focused()
        page.keyboard.type("two.txt")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search?q=two.txt")
        expect(page.get_by_role("link", name="two").first).to_be_visible()


@pytest.mark.clicks("now/board.html pause", "now/board.html resume")
def test_cards_are_paused_one_after_the_other_and_stay_in_place(world: World, browser: Browser) -> None:
    with window(browser, world.root) as opened:
        page = opened.go("/board")
        opened.live()
        for name in ("one", "two"):
            page.get_by_role("button", name=f"Pause {name}", exact=True).click()
        for name in ("one", "two"):
            expect(page.get_by_role("button", name=f"Resume {name}", exact=True)).to_be_visible(timeout=30_000)
            assert row_of(world, name)["paused"]
        page.get_by_role("button", name="Resume two", exact=True).click()
        expect(page.get_by_role("button", name="Pause two", exact=True)).to_be_visible(timeout=30_000)
    assert not row_of(world, "two")["paused"]
    world.ok("run.resume")


@pytest.mark.clicks("now/board.html add-spec")
def test_a_file_becomes_the_text_of_a_new_spec(world: World, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "spec.md"
    file.write_text("# From a file\n\n- it must work\n")
    with window(browser, world.root) as opened:
        page = opened.go("/board")
        opened.live()
        page.get_by_text("Add a spec").click()
        page.locator("#spec-file").set_input_files(file)
        expect(page.get_by_label("What the feature should do")).to_have_value(file.read_text())
        page.get_by_label("Its id").fill("from-file")
        page.get_by_role("button", name="Add it").click()
        expect(page.get_by_label("What the feature should do")).to_have_value("", timeout=30_000)
    assert "From a file" in (world.root / "agentic/features/from-file/spec.md").read_text()


@pytest.mark.clicks("history/past.html show")
def test_the_slider_shows_the_board_of_its_number(world: World, browser: Browser) -> None:
    with window(browser, world.root) as opened:
        page = opened.go("/journal/board")
        expect(page.get_by_text("This is the past")).to_be_visible()
        page.locator("[data-slider]").fill("1")
        page.wait_for_url("**/journal/board?at=1")
        expect(page.get_by_text("number 1 of")).to_be_visible()
        expect(page.locator(".card")).to_have_count(1)


def test_the_rest_of_the_menu_opens_on_a_phone_also_without_a_script(world: World, browser: Browser) -> None:
    with window(browser, world.root, width=360) as opened:
        session = opened.page.context.storage_state()
        context = browser.new_context(
            java_script_enabled=False, storage_state=session, viewport={"width": 360, "height": 700}
        )
        page = context.new_page()
        page.goto(opened.origin + "/")
        expect(page.get_by_role("link", name="Doctor")).to_be_hidden()
        page.get_by_role("button", name="More").click()
        page.get_by_role("link", name="Doctor").click()
        expect(page.get_by_role("heading", name="Doctor")).to_be_visible()
        context.close()
