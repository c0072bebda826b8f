"""Readability of a page: the rules of accessibility, and a width that fits the window."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from playwright.sync_api import Page

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}


def faults_for_readers(page: Page, width: int) -> list[str]:
    """Return the broken rules of a page, with all that it can unfold unfolded."""
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    page.evaluate(AXE)
    broken: list[dict[str, Any]] = page.evaluate("rules => axe.run(rules)", RULES)["violations"]
    found = [f"{page.url} {each['id']}: {each['nodes'][0]['html'][:200]} ({len(each['nodes'])})" for each in broken]
    # The menu of a phone stays where it is when the page is scrolled.
    menu = "[...document.querySelectorAll('#nav .bar > *')].map(each => each.getBoundingClientRect().right)"
    if max(page.evaluate("document.documentElement.scrollWidth"), *page.evaluate(menu)) > width:
        found.append(f"{page.url} is wider than {width}")
    return found
