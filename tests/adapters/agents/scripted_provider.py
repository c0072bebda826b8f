"""Scripted provider: a local endpoint that answers with the bytes of a script."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct

BREAK = "break"
"""A part of an answer after which the connection is gone."""
HANG = "hang"
"""A part of an answer that never comes."""
Part = bytes | threading.Event | str


class Answer(Struct, frozen=True, kw_only=True):
    """What is sent: bytes, events to wait for, or one of the words above."""

    parts: tuple[Part, ...]
    status: int = 200
    headers: Mapping[str, str] = {}


class Heard(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Provider(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, next_answer: Callable[[], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.heard: list[Heard] = []
        self.over = threading.Event()
        self.next_answer = next_answer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that left."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def providing(*answers: Answer) -> Iterator[Provider]:
    """Serve the answers in their order; the last one is repeated."""
    left = list(answers)
    with answering(lambda: left.pop(0) if len(left) > 1 else left[0]) as server:
        yield server


@contextmanager
def answering(next_answer: Callable[[], Answer]) -> Iterator[Provider]:
    """Serve what a function says to each request."""
    server = Provider(next_answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def whole(said: Any, *, status: int = 200, **headers: str) -> Answer:
    """An answer in one JSON text."""
    return Answer(
        parts=(json.dumps(said).encode(),), status=status, headers={"content-type": "application/json", **headers}
    )


def events(*said: Any) -> tuple[bytes, ...]:
    """Events of a stream, one part each."""
    return tuple(b"data: " + json.dumps(each).encode() + b"\n\n" for each in said)


def streamed(*parts: Part) -> Answer:
    return Answer(parts=parts, headers={"content-type": "text/event-stream"})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Provider

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.heard.append(Heard(method=self.command, path=self.path, headers=headers, body=body))
        answer = self.server.next_answer()
        self.send_response(answer.status)
        for name, value in {**answer.headers, "transfer-encoding": "chunked"}.items():
            self.send_header(name, value)
        self.close_connection = True
        # Before the first part: a script that begins with a wait has not even a status.
        if isinstance(answer.parts[0], bytes):
            self.end_headers()
        for part in answer.parts:
            if part == BREAK:
                return
            if isinstance(part, bytes):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            else:
                waited_for = part if isinstance(part, threading.Event) else self.server.over
                assert waited_for.wait(300)
        self.wfile.write(b"0\r\n\r\n")
