"""Visits to the pages: browsers without a screen, which keep their cookie and send the headers of real ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct

from tests.mcpserver.clients import Served
from tests.world import run_aop

SECONDS = 60.0


class Drawn(Struct, frozen=True, kw_only=True):
    """A page as the server drew it."""

    status: int
    html: str
    headers: httpx2.Headers

    @property
    def text(self) -> str:
        """Return what a person reads."""
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", self.html)).split())

    def form(self, action: str, number: int = 0) -> dict[str, str]:
        """Return the fields of a form of the page, as they were drawn."""
        found = re.findall(rf'<form[^>]*action="/do/{action}"[^>]*>(.*?)</form>', self.html, re.DOTALL)
        fields = re.findall(r'<input[^>]*name="([^"]*)"[^>]*value="([^"]*)"', found[number])
        return {name: unescape(value) for name, value in fields}


class Browser:
    """A browser at the pages of one server."""

    def __init__(self, client: httpx2.Client, link: str) -> None:
        self._client = client
        self.link = link
        self.origin = "{0.scheme}://{0.netloc}".format(urlsplit(link))

    def get(self, path: str, **headers: str) -> Drawn:
        return _drawn(self._client.get(path, headers=_named(headers)))

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Drawn:
        return _drawn(self.fetch(path, fields, **headers))

    def fetch(self, path: str, fields: dict[str, str], **headers: str) -> httpx2.Response:
        """Send a form, and return the answer as it came."""
        sent = {"origin": self.origin, "sec-fetch-site": "same-origin", **_named(headers)}
        return self._client.post(path, data=fields, headers=sent)

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[str]]:
        """Open a stream of events, and yield its lines."""
        with self._client.stream("GET", path) as answer:
            assert answer.status_code == 200
            yield answer.iter_lines()

    def enter(self) -> Drawn:
        """Follow the link of `aop web` in this browser."""
        parts = urlsplit(self.link)
        return self.get(f"{parts.path}?{parts.query}")

    @property
    def cookie(self) -> str:
        """Return the name and the text of the session."""
        return "; ".join(f"{each.name}={each.value}" for each in self._client.cookies.jar)

    def forget(self) -> None:
        self._client.cookies.clear()


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _drawn(answer: httpx2.Response) -> Drawn:
    return Drawn(status=answer.status_code, html=answer.text, headers=answer.headers)


def link_to(root: Path, *words: str) -> str:
    """Return a link that lets one person in."""
    ran = run_aop(root, "web", "--print", "--json", *words)
    assert ran.code == 0, ran.err
    url: str = ran.json["data"]["url"]
    return url


@contextmanager
def browser_at(root: Path, server: Served) -> Iterator[Browser]:
    """Open a browser that has no session yet."""
    with _browser_for(link_to(root), server.origin) as browser:
        yield browser


@contextmanager
def entered(link: str) -> Iterator[Browser]:
    """Open a browser with the session that a link gives."""
    with _browser_for(link, f"http://127.0.0.1:{urlsplit(link).port}") as browser:
        assert browser.enter().status == 303
        yield browser


@contextmanager
def _browser_for(link: str, origin: str) -> Iterator[Browser]:
    # The name of the pages leads to this machine in a browser; here it is only sent.
    host = urlsplit(link).netloc
    with httpx2.Client(base_url=origin, headers={"host": host}, timeout=SECONDS) as client:
        yield Browser(client, link)


@contextmanager
def visit(root: Path, server: Served) -> Iterator[Browser]:
    """Open a browser with a session."""
    with browser_at(root, server) as browser:
        assert browser.enter().status == 303
        yield browser
