"""Webhook server: a local HTTP server that stores requests and answers as scripted."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Heard(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes


class Listener:
    """What was heard, and what is answered: the statuses in turn, the last one for ever."""

    def __init__(self, statuses: tuple[int, ...]) -> None:
        self.heard: list[Heard] = []
        self.url = ""
        self._statuses = list(statuses)
        self._changed = threading.Condition()

    def take(self, heard: Heard) -> int:
        with self._changed:
            self.heard.append(heard)
            self._changed.notify_all()
            return self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]

    def await_heard(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.heard) >= count, timeout=300)


@contextmanager
def listening(*statuses: int) -> Iterator[Listener]:
    listener = Listener(statuses or (200,))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = listener.take(Heard(self.path, dict(self.headers.items()), body))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{listener.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
