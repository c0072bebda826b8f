"""A model that says what a test wants: Anthropic's Messages API on this machine, as far as a coding agent needs it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Block = dict[str, Any]


class FakeModel(ThreadingHTTPServer):
    """Calls one tool as soon as it is offered; when the result is there, says `done`."""

    daemon_threads = True

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.tool = tool
        self.arguments = arguments
        self.offered: set[str] = set()
        self.results: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def says(self, request: Any) -> Block:
        """Return the next thing that the model says."""
        offered = {tool["name"] for tool in request.get("tools") or ()}
        self.offered |= offered
        contents = [message["content"] for message in request["messages"] if isinstance(message["content"], list)]
        results = [block for content in contents for block in content if block.get("type") == "tool_result"]
        if self.tool in offered and not results:
            return {"type": "tool_use", "id": "toolu_1", "name": self.tool, "input": self.arguments}
        self.results += results
        return {"type": "text", "text": "done"}


class _Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeModel

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_GET(self) -> None:
        self._send("application/json", b"{}")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "/messages" not in self.path or "count_tokens" in self.path:
            self._send("application/json", b'{"input_tokens": 1}')
            return
        block = self.server.says(request)
        events = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _stream(block))
        self._send("text/event-stream", events.encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _stream(block: Block) -> Iterator[Block]:
    called = block["type"] == "tool_use"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": [], "usage": usage}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}}
    opened = {**block, "input": {}} if called else {"type": "text", "text": ""}
    yield {"type": "content_block_start", "index": 0, "content_block": opened}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if called
        else {"type": "text_delta", "text": block["text"]}
    )
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    ending = {"stop_reason": "tool_use" if called else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


@contextmanager
def fake_model(tool: str, arguments: dict[str, Any]) -> Iterator[FakeModel]:
    """Have such a model listen."""
    with FakeModel(tool, arguments) as model:
        thread = threading.Thread(target=model.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            model.shutdown()
            thread.join()
