"""Jira, Confluence and GitLab on this machine: one HTTP server that keeps a journal, and fails as a test wants it."""

from __future__ import annotations

import json
import re
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from tests.real.fake_systems import NOT_FOUND, Answer, Code, Pages, Query, Tracker, routed

TOKENS = {"jira": "jira-token-f00dcafe", "confluence": "confluence-token-f00dcafe", "gitlab": "gitlab-token-f00dcafe"}


class Trouble(Struct):
    """What happens to requests that match, until everything is well again."""

    request: str
    """A pattern of `METHOD /path`."""
    status: int = 500
    times: int = 1
    skip: int = 0
    """How many requests that match are let through first."""
    done: bool = False
    """Whether the request has its effect all the same."""
    headers: Mapping[str, str] = {}
    instead: Callable[[], None] | None = None
    """Called in place of an answer; the connection is closed after it."""


class Asked(NamedTuple):
    """A request without its query, and what was answered."""

    what: str
    status: int


class FakeRest(ThreadingHTTPServer):
    """The three systems, the journal and the troubles."""

    daemon_threads = True

    tracker: Tracker
    pages: Pages
    code: Code
    journal: list[Asked]
    troubles: list[Trouble]
    strangers: list[str]
    """Requests that came without the token of their system."""

    def __init__(self, *world: Any) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.lock = threading.Lock()
        self.begin(*world)

    def begin(self, key: str, description: Any, project: str, pages: Mapping[str, tuple[str, str]]) -> None:
        """Have one ticket, one project and these pages, as if nothing had happened."""
        self.tracker, self.pages, self.code = Tracker(key, description), Pages(pages), Code(project)
        self.journal, self.troubles, self.strangers = [], [], []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def writes(self) -> list[str]:
        """Return what was asked for and may change something, in its order."""
        return [each.what for each in self.journal if not each.what.startswith("GET ") and "/search" not in each.what]

    def answer(self, method: str, path: str, query: Query, body: Any) -> Answer:
        system, rest = path.split("/")[1], "/" + "/".join(path.split("/")[2:])
        routes = {"jira": self.tracker.routes, "confluence": self.pages.routes, "gitlab": self.code.routes}
        return routed(routes[system], method, rest, query, body) if system in routes else NOT_FOUND

    def trouble_with(self, what: str) -> Trouble | None:
        for trouble in self.troubles:
            if trouble.times and re.search(trouble.request, what):
                if trouble.skip:
                    trouble.skip -= 1
                    continue
                trouble.times -= 1
                return trouble
        return None


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeRest

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        what = f"{self.command} {asked.path}"
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        with self.server.lock:
            self._recognise(asked.path)
            trouble = self.server.trouble_with(what)
            status, answer = 0, None
            if trouble is None or trouble.done:
                query, body = parse_qs(asked.query), json.loads(raw) if raw else None
                status, answer = self.server.answer(self.command, asked.path, query, body)
            if trouble is not None:
                status, answer = trouble.status, _said(trouble.status)
            self.server.journal.append(Asked(what, status))
        if trouble is not None and trouble.instead is not None:
            trouble.instead()
            self.close_connection = True
            return
        self._send(status, answer, trouble.headers if trouble else {})

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def _recognise(self, path: str) -> None:
        system = path.split("/")[1]
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        shown = b64decode(token).decode() if kind == "Basic" else f"{token} {self.headers.get('private-token')}"
        if TOKENS.get(system, "?") not in shown:
            self.server.strangers.append(path)

    def _send(self, status: int, answer: Any, headers: Mapping[str, str]) -> None:
        data = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def fake_rest(key: str, description: Any, project: str, pages: Mapping[str, tuple[str, str]]) -> Iterator[FakeRest]:
    """Have the three systems listen, with one ticket, one project and these pages."""
    with FakeRest(key, description, project, pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _said(status: int) -> dict[str, Any]:
    """Return an error as each of the systems words it."""
    words = HTTPStatus(status).phrase
    return {"message": words, "errorMessages": [words], "errors": {}, "statusCode": status}
