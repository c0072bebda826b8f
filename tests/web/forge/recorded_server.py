"""A door before an `aop serve` that writes down each request and its status."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import msgspec

from tests.mcpserver.clients import Served


class Exchange(msgspec.Struct, frozen=True):
    """A request, and how it was answered."""

    path: str
    has_tag: bool
    status: int


class RecordedServer(msgspec.Struct, frozen=True, kw_only=True):
    """The door, and what went through it."""

    url: str
    exchanges: list[Exchange]

    def since(self, count: int) -> list[Exchange]:
        return self.exchanges[count:]


@contextmanager
def recorded(server: Served) -> Iterator[RecordedServer]:
    exchanges: list[Exchange] = []

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            tag = self.headers.get("if-none-match")
            given = {"authorization": self.headers["authorization"], **({"if-none-match": tag} if tag else {})}
            answer = httpx2.get(server.origin + self.path, headers=given, timeout=60)
            exchanges.append(Exchange(self.path, tag is not None, answer.status_code))
            self.send_response(answer.status_code)
            for name in ("etag", "content-type"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_words: object) -> None:
            pass

    door = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=door.serve_forever)
    thread.start()
    try:
        yield RecordedServer(url=f"http://127.0.0.1:{door.server_port}", exchanges=exchanges)
    finally:
        door.shutdown()
        thread.join()
        door.server_close()
