"""The pages of all repositories in a real Chromium, with payloads in what they show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from aop.web.platform.platform_pages import PLATFORM_PAGES
from tests.adapters.storage.postgres_clusters import programs, running_cluster
from tests.fleet.platform_servers import Managed, PlatformServer, platform_server
from tests.web.browser.readability import faults_for_readers
from tests.web.browser.windows import Scheme, window_at
from tests.world import run_aop

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed (apt-get install postgresql)"),
]
PAYLOAD = "<img src=x onerror=alert(1)> \u202e {{ 7 * 7 }} " + "long" * 200


class Served:
    """Two repositories in one database, and the server of their pages."""

    def __init__(self, shop: Managed, server: PlatformServer) -> None:
        self.shop = shop
        self.server = server


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("platform")
    with running_cluster() as url:
        shop, billing = Managed(folder / "shop", url, "shop"), Managed(folder / "billing", url, "<b>bill</b>")
        shop.feature("search", question=PAYLOAD)
        billing.feature("invoices", question="Round up?")
        assert run_aop(folder, "platform", "init", env=shop.env).code == 0
        with platform_server(folder / "server", url) as server:
            yield Served(shop, server)


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [360, 1440])
def test_payloads_do_nothing_and_everybody_can_read_the_pages(
    platform: Served, browser: Browser, width: int, scheme: Scheme
) -> None:
    found: list[str] = []
    with window_at(browser, platform.server.link(), width=width, scheme=scheme) as opened:
        for page in PLATFORM_PAGES:
            found += faults_for_readers(opened.go(page.path), width)
    assert not found, "\n".join(found)


def test_what_a_person_has_to_decide_appears_in_the_open_inbox(platform: Served, browser: Browser) -> None:
    with window_at(browser, platform.server.link()) as opened:
        opened.go("/")
        opened.live()
        assert "<img src=x onerror=alert(1)>" in opened.page.locator("main").inner_text()
        platform.shop.feature("basket", question="Which currency?")
        opened.page.get_by_text("Which currency?").wait_for()
        opened.page.get_by_role("link", name="Board").click()
        opened.page.get_by_text("basket").first.wait_for()


def test_a_link_for_one_repository_opens_that_one(platform: Served, browser: Browser) -> None:
    with window_at(browser, platform.server.link("--repositories", "shop")) as opened:
        text = opened.go("/repositories").locator("main").inner_text()
    assert "shop" in text
    assert "bill" not in text
