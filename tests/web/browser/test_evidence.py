"""Evidence and versions in a real Chromium: verified, downloaded and compared by clicks."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.web.browser.windows import window
from tests.world import World, plan_for

pytestmark = pytest.mark.browser


@pytest.mark.clicks("feature/evidence.html show", "feature/evidence.html bundle")
def test_a_person_verifies_the_chain_and_downloads_the_bundle(world: World, browser: Browser, tmp_path: Path) -> None:
    world.ready("one")
    with window(browser, world.root) as opened:
        page = opened.go("/features/one/evidence")
        page.get_by_role("button", name="Verify", exact=True).click()
        page.locator("#verify .p-ok").wait_for()
        found = world.ok("evidence.verify", feature_id="one")
        assert f"{found['head_seq']}:{found['head_hash']}" in page.locator("#verify").inner_text()
        with page.expect_download() as downloading:
            page.get_by_role("button", name="Download the bundle").click()
        assert downloading.value.suggested_filename == "one-evidence.tar.gz"
        downloading.value.save_as(tmp_path / "bundle.tar.gz")
    with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
        assert "one-evidence/SHA256SUMS" in archive.getnames()


@pytest.mark.clicks("feature/plan.html show")
@pytest.mark.parametrize("width", [1440, 360])
def test_two_versions_of_a_plan_are_compared_on_the_page(world: World, browser: Browser, width: int) -> None:
    world.plan("one")
    for version in (2, 3):
        plan = plan_for(
            "one",
            plan_version=version,
            revision_of=version - 1,
            revision_reason=f"Reason {version}",
            acceptance_criteria=["The file says so", *(f"Further point {number}" for number in range(2, version + 1))],
        )
        world.ok("plan.update", feature_id="one", plan_json=plan, expected_plan_version=version - 1)
    with window(browser, world.root, width=width) as opened:
        page = opened.go("/features/one/plan")
        assert "Changes from version 2 to version 3" in page.locator("#changes").inner_text()
        page.get_by_label("Changes from version").select_option("1")
        page.get_by_role("button", name="Compare").click()
        page.get_by_text("Changes from version 1 to version 3").wait_for()
        told = page.locator("#changes").inner_text()
        assert ("Criterion 2 is new" in told, "Criterion 3 is new" in told) == (True, True)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
