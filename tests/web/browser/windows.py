"""Windows of a real Chromium at the pages: what it says, asks for and shows is watched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.web.pages.page_visits import link_to

Scheme = Literal["dark", "light"]

PRESSED = "sent a form:"
# Written to the console by the page itself: a request does not tell which page sent it, once that page is left.
REPORT_FORMS = f"""\
document.addEventListener("submit", (event) => {{
  const form = event.target;
  const action = event.submitter?.getAttribute("formaction") || form.getAttribute("action") || "";
  const name = form.method === "post" ? action.replace("/do/", "") : "show";
  if (form.method !== "dialog") console.debug("{PRESSED}", location.pathname, name);
}}, true);
"""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Return the Chromium of this machine, or None."""
    return next((found for found in map(shutil.which, PROGRAMS) if found), None)


@contextmanager
def launched() -> Iterator[Browser]:
    """Run Chromium without a screen."""
    with sync_playwright() as playwright:
        # Its own sandbox cannot start for root in a container.
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


sent_forms: list[tuple[str, str]] = []
"""What the windows of the test that runs have sent: the path of the page, and the action."""


class Window:
    """One window with a session; at its end nothing may have gone wrong in it."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin
        self.wrong: list[str] = []
        self.pressed: list[tuple[str, str]] = []
        """The path of the page and the action of each form that was sent."""
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))
        page.on("request", self._asked)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.text.startswith(PRESSED):
            path, action = message.text.removeprefix(PRESSED).split()
            self.pressed.append((path, action))
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.origin).netloc:
            self.wrong.append(f"request: {request.url}")

    def go(self, path: str) -> Page:
        self.page.goto(self.origin + path)
        return self.page

    def live(self) -> None:
        """Wait until the page hears the server."""
        self.page.wait_for_selector("#live.on")


@contextmanager
def window(browser: Browser, root: Path, *, width: int = 1440, scheme: Scheme = "dark") -> Iterator[Window]:
    """Open a window by the link of `aop web`."""
    with window_at(browser, link_to(root), width=width, scheme=scheme) as opened:
        yield opened


@contextmanager
def window_at(browser: Browser, link: str, *, width: int = 1440, scheme: Scheme = "dark") -> Iterator[Window]:
    """Open a window by a link."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.add_init_script(REPORT_FORMS)
    opened = Window(context.new_page(), "{0.scheme}://{0.netloc}".format(urlsplit(link)))
    try:
        opened.page.goto(link)
        yield opened
        assert opened.wrong == []
    finally:
        context.close()
        sent_forms.extend(opened.pressed)
