"""Every page in a real Chromium, crowded with payloads: nothing runs, nothing leaves, everybody can read it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Request

from tests.mcpserver.clients import served
from tests.web.browser.readability import faults_for_readers
from tests.web.browser.windows import Scheme, window
from tests.web.hostile.crowded_world import FEATURE, CrowdedWorld, addresses, crowded_world

pytestmark = pytest.mark.browser
MOST_REQUESTS, MOST_BYTES = 8, 60_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrowdedWorld]:
    made = crowded_world(tmp_path_factory.mktemp("every") / "repo")
    with served(made.root):
        yield made
    made.close()


@pytest.mark.hostile("B05", "B06", "B07", "B17", "B18")
@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [360, 1440])
def test_payloads_do_nothing_and_no_rule_of_accessibility_is_broken(
    world: CrowdedWorld, browser: Browser, width: int, scheme: Scheme
) -> None:
    found: list[str] = []
    with window(browser, world.root, width=width, scheme=scheme) as opened:
        for path in addresses():
            found += faults_for_readers(opened.go(world.at(path)), width)
    assert not found, "\n".join(found)


def test_payloads_are_read_as_text(world: CrowdedWorld, browser: Browser) -> None:
    with window(browser, world.root) as opened:
        text = opened.go(f"/features/{FEATURE}").locator("main").inner_text()
    assert "<img src=x onerror=alert(1)>" in text
    assert "\\u{202e}" in text
    assert "{{ 1111 * 1111 }}" in text


def test_the_first_view_takes_few_requests_and_bytes(world: CrowdedWorld, browser: Browser) -> None:
    with window(browser, world.root) as opened:
        asked: list[Request] = []

        def note(request: Request) -> None:
            asked.append(request)

        opened.page.context.on("requestfinished", note)
        opened.go("/board").wait_for_load_state()
        loaded = [each for each in asked if "/events" not in each.url]
        assert len(loaded) + 1 <= MOST_REQUESTS
        assert sum(each.sizes()["responseBodySize"] for each in loaded) <= MOST_BYTES
