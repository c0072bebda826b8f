"""The review in a real Chromium: what a reader opens stays open while the record moves on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from aop.core.roles import Role
from aop.kernel.record.port import newest_seq
from tests.mcpserver.clients import served
from tests.web.browser.windows import window
from tests.web.pages.test_review_diff import NEW, OLD, patch_of
from tests.world import FILES, World, files, make_repository

pytestmark = pytest.mark.browser


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo", {**FILES, "src/long.txt": OLD}))
    with served(made.root):
        yield made
    made.close()


def test_opened_lines_stay_while_the_record_moves_on(world: World, browser: Browser) -> None:
    world.plan("one", files=files(modify=("src/long.txt",)))
    world.patch("one", patch_of({"src/long.txt": (OLD, NEW)}))
    with window(browser, world.root) as opened:
        page = opened.go("/features/one")
        opened.live()
        page.get_by_role("link", name="all 46").click()
        expect(page.get_by_role("cell", name="line 1", exact=True)).to_be_visible()
        page.get_by_role("link", name="Side by side").click()
        expect(page.locator("table.pair").first).to_be_visible()
        expect(page.get_by_role("cell", name="line 1", exact=True)).to_have_count(2)
        # The same rows, not new ones, are there after the journal grew.
        page.evaluate("document.querySelector('table.pair').dataset.seen = 'yes'")
        world.ok("feature.log_append", role=Role.BUILDER, feature_id="one", note="still here")
        with world.app.record.read() as view:
            seq = newest_seq(view)
        expect(page.locator("#nav .seq")).to_have_text(str(seq), timeout=30_000)
        expect(page.locator("table.pair[data-seen=yes]")).to_have_count(1)
        # The layout is remembered, and no address has to say so.
        expect(opened.go("/features/one").locator("table.pair").first).to_be_visible()
        page.get_by_role("link", name="Inline").click()
        expect(page.locator("table.pair")).to_have_count(0)
