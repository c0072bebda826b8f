"""Payloads on every page: each is visible as text, and no element, attribute or address comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html.parser import HTMLParser

import pytest

from aop.core.text.visible import visible_lines
from tests.mcpserver.clients import served
from tests.web.hostile.crowded_world import (
    BUILD,
    CONTRACT,
    FEATURE,
    NUMBERED,
    PROJECT,
    RUN,
    addresses,
    crowded_world,
)
from tests.web.hostile.payloads import NOT_SHOWN_RAW, PAYLOADS
from tests.web.pages.page_visits import Drawn, visit

FORBIDDEN = frozenset(
    "img iframe object embed base style video audio source template portal math noscript applet frame frameset param"
    " animate set use foreignobject image marquee".split()
)
"""Elements that no page of ours has."""
ADDRESSES = frozenset("href src action formaction xlink:href srcset data poster background ping cite".split())


class Elements(HTMLParser):
    """What a browser makes of a page: its elements, what is wrong with them, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.scripts: list[str | None] = []
        self._said: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.scripts.append(dict(attrs).get("src"))
        if tag in FORBIDDEN:
            self.wrong.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "evil") or not name.replace("-", "").isalnum():
                self.wrong.append(f"{tag} {name}={value}")
            if name in ADDRESSES and not _is_ours(value or ""):
                self.wrong.append(f"{tag} {name}={value}")
            if name in ("value", "title", "placeholder", "aria-label") and value:
                self._said.append(value)

    def handle_data(self, data: str) -> None:
        self._said.append(data)

    @property
    def text(self) -> str:
        """Return what a person reads, also in fields and in what the mouse shows."""
        return _plain("".join(self._said))


def _is_ours(address: str) -> bool:
    return address.startswith(("/", "#", "?")) and not address.startswith(("//", "/\\"))


def _plain(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Drawn]]:
    world = crowded_world(tmp_path_factory.mktemp("hostile") / "re<b>po\"'&amp;{{7*7}}")
    with served(world.root) as server, visit(world.root, server) as browser:
        yield {path: browser.get(world.at(path)) for path in addresses()}
    world.close()


@pytest.mark.hostile("B05", "B06", "B07", "B17")
@pytest.mark.parametrize("path", addresses())
def test_no_element_attribute_or_address_comes_of_a_payload(pages: Mapping[str, Drawn], path: str) -> None:
    drawn = pages[path]
    assert drawn.status == 200, drawn.text
    elements = Elements(drawn.html)
    assert elements.wrong == []
    assert all(address is not None and address.startswith("/static/") for address in elements.scripts)
    assert len(elements.scripts) <= 1
    assert [each for each in NOT_SHOWN_RAW if each in drawn.html] == []
    assert drawn.headers["content-type"] == "text/html; charset=utf-8"
    assert "set-cookie" not in drawn.headers


@pytest.mark.hostile("B05", "B07", "B17", "B18")
@pytest.mark.parametrize("number", range(len(PAYLOADS)), ids=list(PAYLOADS))
def test_a_payload_is_visible_as_text(pages: Mapping[str, Drawn], number: int) -> None:
    shown = _plain(visible_lines(NUMBERED[number]))
    read = Elements(pages[f"/features/{FEATURE}"].html).text
    # As criterion and as risk; most of them also as line of the diff, of the log, of the spec or of the question.
    assert read.count(shown) >= 2


@pytest.mark.hostile("B05", "B06", "B17")
@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("/tickets", 12),
        (f"/tickets/{RUN}", 60),
        ("/gated", 60),
        (f"/contracts/{PROJECT}/{CONTRACT}", 60),
        (f"/contracts/{PROJECT}/{CONTRACT}?before=1&after=2", 60),
        (f"/builds/{BUILD}", 60),
        (f"/builds/{BUILD}/changes", 8),
        (f"/builds/{BUILD}/errors", 60),
    ],
)
def test_the_pages_of_work_show_payloads_as_text(pages: Mapping[str, Drawn], path: str, least: int) -> None:
    read = Elements(pages[path].html).text
    shown = [text for text in NUMBERED if _plain(visible_lines(text.splitlines()[0])[:40]) in read]
    assert len(shown) >= least, f"{len(shown)} of {len(NUMBERED)}"
