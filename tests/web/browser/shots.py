"""Shots: pictures of every page while the demo waits for a person, in both themes, on a desktop and on a phone.

`python -m tests.web.browser.shots FOLDER` writes one PNG for each; `make shots` calls it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import get_args

from playwright.sync_api import Page

from aop.web.pages.feature.feature import TABS
from aop.web.pages.page_list import PAGES
from tests.cli.begin.test_demo_pages import demo
from tests.racing import until
from tests.web.browser.windows import Scheme, launched

FEATURE = "volume_discount"
SECONDS = 300.0
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}


def addresses() -> dict[str, str]:
    """Return the name and the address of every page that the demo fills."""
    plain = {page.menu.lower(): page.path for page in PAGES if page.menu and "{" not in page.path}
    return {**plain, **{f"feature-{tab}": f"/features/{FEATURE}/{tab}" for tab in TABS}}


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as temporary,
        demo(Path(temporary)) as (process, link),
        launched() as browser,
    ):
        context = browser.new_context()
        page = context.new_page()
        page.goto(link)
        origin = page.url.removesuffix("/board")
        until(lambda: _is_waiting(page, origin), seconds=SECONDS)
        for scheme in get_args(Scheme):
            for size, (width, height) in SIZES.items():
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": width, "height": height})
                for name, address in addresses().items():
                    page.goto(origin + address)
                    page.screenshot(path=folder / f"{name}-{size}-{scheme}.png")
        process.terminate()
        process.communicate(timeout=SECONDS)
    return 0


def _is_waiting(page: Page, origin: str) -> bool:
    """Tell whether the question is asked and the other four features wait for an approval."""
    page.goto(f"{origin}/")
    return page.locator("#main .row").count() == 5


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
