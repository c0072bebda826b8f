"""Approvals that a person did not mean: a tree that was swapped, a page in a frame, a form of another site."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, expect

from aop.core.roles import Role
from tests.web.browser.windows import window
from tests.world import PATCH, World

pytestmark = pytest.mark.browser

SECONDS = 60_000
SECOND = PATCH.replace("-two", "-TWO").replace("+TWO", "+2")
LOSE_PARTS = """\
() => {
  const plain = window.fetch;
  window.fetch = (address, how) => {
    if (how?.headers?.["aop-have"]) for (const part of document.querySelectorAll("[data-keep]")) part.replaceChildren();
    return plain(address, how);
  };
  window.sameDocument = true;
}
"""
"""What the page says that it has is gone when the answer comes."""


def approvals(world: World) -> list[str]:
    return [each["tree"] for each in world.ok("report.feature_summary", feature_id="one")["approvals"]]


def test_a_page_that_lost_a_part_fetches_it_again_and_still_knows_which_tree_was_looked_at(
    world: World, browser: Browser
) -> None:
    world.ready("one")
    with window(browser, world.root) as opened:
        page = opened.go("/features/one")
        opened.live()
        page.get_by_label("Changes for the agent").fill("half a thou")
        world.ok("feature.request_changes", feature_id="one", text="Number it.")
        world.patch("one", SECOND)
        for mode in ("fast", "full"):
            world.ok("gates.run", feature_id="one", mode=mode)
        after = world.ok("repo.status", feature_id="one")["tree"]
        approve = page.get_by_role("button", name=f"Approve tree {after[:8]}")
        expect(approve).to_be_disabled(timeout=SECONDS)
        page.evaluate(LOSE_PARTS)
        world.ok("feature.log_append", role=Role.BUILDER, feature_id="one", note="Something else.")
        expect(page.locator("#live .seq")).to_have_text(str(world.ok("report.journal")["newest"]), timeout=SECONDS)
        expect(page.locator("table.diff tr.a")).to_contain_text("2", timeout=SECONDS)
        expect(approve).to_be_disabled()
        expect(page.locator("#moved")).to_be_visible()
        expect(page.get_by_label("Changes for the agent")).to_have_value("half a thou")
        assert page.evaluate("window.sameDocument")
    assert approvals(world) == []


@contextmanager
def other_site(html: str) -> Iterator[str]:
    """Serve a page under another name of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://evil.localhost:{server.server_port}/"
        server.shutdown()


@pytest.mark.hostile("T25", "B15")
def test_a_page_in_a_frame_of_another_site_shows_nothing_to_click(world: World, browser: Browser) -> None:
    world.ready("one")
    with window(browser, world.root) as opened:
        framed = f'<h1>Win</h1><iframe src="{opened.origin}/features/one" width="900" height="900"></iframe>'
        with other_site(framed) as address:
            opened.page.goto(address)
            expect(opened.page.get_by_role("heading", name="Win")).to_be_visible()
            expect(opened.page.frame_locator("iframe").get_by_text("Approve tree")).to_have_count(0)
        opened.wrong.clear()


@pytest.mark.hostile("T25", "B03")
def test_a_form_that_another_site_sends_by_itself_approves_nothing(world: World, browser: Browser) -> None:
    world.ready("one")
    status = world.ok("repo.status", feature_id="one")
    fields = {"feature_id": "one", "tree": status["tree"], "base": status["base_head"], "operation_id": "op-1-evil"}
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    with window(browser, world.root) as opened:
        # It even knows the proof of the form: the cookie is not sent, and the origin is not ours.
        page = opened.go("/features/one")
        proof = page.locator("[data-approve] input[name=form]").get_attribute("value")
        form = f'<form method="post" action="{opened.origin}/do/approve">{inputs}<input name="form" value="{proof}">'
        with other_site(f"{form}</form><script>document.forms[0].submit()</script>") as address:
            page.goto(address)
            page.wait_for_url(f"{opened.origin}/do/approve")
            expect(page.locator("main")).to_contain_text("another site")
        opened.wrong.clear()
        # The same fields from the page itself are an approval.
        opened.go("/features/one").get_by_role("button", name="Approve tree").click()
        expect(page.get_by_role("button", name="Merge tree")).to_be_visible(timeout=SECONDS)
    assert approvals(world) == [status["tree"]]
