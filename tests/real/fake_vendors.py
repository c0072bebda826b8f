"""Fake vendors: one scripted model for the agents of all vendors.

It speaks the parts of Anthropic's Messages, OpenAI's Responses and Chat Completions, and Google's streamGenerateContent
that agents use.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct

Json = dict[str, Any]
NO_HEADERS: Mapping[str, str] = {}


class Asked(Struct, frozen=True, kw_only=True):
    """What an agent asks its model, whatever the protocol."""

    prompt: str
    """All that the user said."""
    results: tuple[str, ...]
    """What tools answered so far."""
    offered: Mapping[str, str | None]
    """The tools, and the namespace of each."""
    model: str

    def tool(self, name: str) -> str | None:
        """Return the tool that ends with a name, as hosts put words before it."""
        plain = {known.replace(".", "_"): known for known in self.offered}
        return next((known for shown, known in plain.items() if f"_{shown}".endswith(f"_{name}")), None)


class Call(Struct, frozen=True, kw_only=True):
    """A tool that the model wants called."""

    name: str
    arguments: Json
    code: str = ""
    """For a tool that runs code: what to run."""


Says = Callable[[Asked], Call | str]


class Trouble(Struct, frozen=True, kw_only=True):
    """An answer that is not the model's, to every question."""

    status: int = 200
    kind: str = "application/json"
    body: bytes = b""
    headers: Mapping[str, str] = {}
    is_silent: bool = False
    """Whether nothing comes at all."""


class FakeVendors(ThreadingHTTPServer):
    """Listens on this machine."""

    daemon_threads = True

    def __init__(self, says: Says, handler: type[Conversation] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), handler or Conversation, bind_and_activate=False)
        # Bound, and not listening yet: a connection is refused.
        self.server_bind()
        self.over = threading.Event()
        self.says = says
        self.asked: list[Asked] = []
        self.keys: set[str] = set()
        self.trouble: Trouble | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def number(self) -> int:
        """Return how many questions there were: two calls with one id are one to an agent."""
        return len(self.asked)

    def reply(self, asked: Asked) -> Call | str:
        self.asked.append(asked)
        return self.says(asked)


@contextmanager
def fake_vendors(says: Says) -> Iterator[FakeVendors]:
    """Have such a model listen."""
    with FakeVendors(says) as model, listening(model):
        yield model


@contextmanager
def listening(model: FakeVendors) -> Iterator[None]:
    """Have a model answer, which refused every connection before."""
    model.server_activate()
    thread = threading.Thread(target=model.serve_forever)
    thread.start()
    try:
        yield
    finally:
        model.over.set()
        model.shutdown()
        thread.join()


class Conversation(BaseHTTPRequestHandler):
    """Speaks for the model, one request after the other."""

    protocol_version = "HTTP/1.1"
    server: FakeVendors

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_GET(self) -> None:
        self.answer_get()

    def do_POST(self) -> None:
        self.answer_post()

    def answer_get(self) -> None:
        """List no models."""
        self._send("application/json", b'{"object": "list", "data": [], "models": []}')

    def answer_post(self) -> None:
        """Reply as the model, or with the trouble that it has."""
        request = json.loads(self._body() or b"{}")
        path = self.path.split("?")[0]
        trouble = self.server.trouble
        if trouble is not None:
            self._answer_with(trouble)
            return
        self._note_key()
        if path.endswith("/messages"):
            events = _anthropic(self.server.reply(_asked_anthropic(request)), self.server.number)
        elif path.endswith("/responses"):
            events = _openai(self.server.reply(_asked_openai(request)), self.server.number)
        elif path.endswith("/chat/completions"):
            events = _chat(self.server.reply(_asked_chat(request)), self.server.number)
        elif "generateContent" in path or "streamGenerateContent" in path:
            events = gemini_events(self._reply_as_gemini(request, path), self.server.number)
            if ":generateContent" in path:
                self._send("application/json", json.dumps(next(iter(events))).encode())
                return
        else:
            self._send("application/json", b'{"input_tokens": 1, "totalTokens": 1}')
            return
        named = "".join(
            (f"event: {event['type']}\n" if "type" in event else "") + f"data: {json.dumps(event)}\n\n"
            for event in events
        )
        self._send("text/event-stream", named.encode())

    def _answer_with(self, trouble: Trouble) -> None:
        if trouble.is_silent:
            self.server.over.wait(600)
            self.close_connection = True
        else:
            self._send(trouble.kind, trouble.body, trouble.status, trouble.headers)

    def _note_key(self) -> None:
        for name in ("x-api-key", "authorization", "x-goog-api-key"):
            if name in self.headers:
                self.server.keys.add(self.headers[name].removeprefix("Bearer "))

    def _reply_as_gemini(self, request: Json, path: str) -> Call | str:
        name = path.partition("/models/")[2].partition(":")[0]
        said = self.server.reply(_asked_gemini(request, name))
        # The agent asks aside who speaks next, or which model is to work, in a form that it prescribes.
        form = json.dumps(request.get("generationConfig") or {})
        asides: dict[str, Json] = {
            "next_speaker": {"reasoning": "It is done.", "next_speaker": "user"},
            "model_choice": {"reasoning": "It is much.", "model_choice": "pro"},
            "complexity_score": {"complexity_reasoning": "It is much.", "complexity_score": 90},
        }
        return next((json.dumps(answer) for part, answer in asides.items() if part in form), said)

    def _body(self) -> bytes:
        if "content-length" in self.headers:
            return self.rfile.read(int(self.headers["content-length"]))
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, kind: str, body: bytes, status: int = 200, headers: Mapping[str, str] = NO_HEADERS) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _text(content: Any) -> str:
    parts = [content] if isinstance(content, str | dict) else content or []
    return "\n".join(part if isinstance(part, str) else str(part.get("text") or "") for part in parts)


def _asked_anthropic(request: Json) -> Asked:
    said: list[Json] = []
    for message in request["messages"]:
        content = message["content"]
        said += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return Asked(
        prompt="\n".join(block["text"] for block in said if block["type"] == "text"),
        results=tuple(_text(block.get("content")) for block in said if block["type"] == "tool_result"),
        offered={tool["name"]: None for tool in request.get("tools") or ()},
        model=request["model"],
    )


def _anthropic(reply: Call | str, number: int) -> Iterator[Json]:
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake", "content": [], "usage": usage}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}}
    delta: Json
    if isinstance(reply, Call):
        opened: Json = {"type": "tool_use", "id": f"toolu_{number}", "name": reply.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
    else:
        opened = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply}
    yield {"type": "content_block_start", "index": 0, "content_block": opened}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    ending = {"stop_reason": "tool_use" if isinstance(reply, Call) else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _asked_openai(request: Json) -> Asked:
    items = [item for item in request["input"] if isinstance(item, dict)]
    offered: dict[str, str | None] = {}
    # A model that takes tools as code has them in its input.
    added = [tool for item in items if item.get("type") == "additional_tools" for tool in item["tools"]]
    for tool in [*(request.get("tools") or ()), *added]:
        if tool.get("type") == "namespace":
            offered |= {inner["name"]: tool["name"] for inner in tool["tools"]}
        elif "name" in tool:
            offered[tool["name"]] = None
    return Asked(
        prompt="\n".join(_text(item.get("content")) for item in items if item.get("role") == "user"),
        results=tuple(_text(item.get("output")) for item in items if str(item.get("type")).endswith("_output")),
        offered=offered,
        model=request["model"],
    )


def _openai(reply: Call | str, number: int) -> Iterator[Json]:
    base = {"id": "resp_1", "object": "response", "created_at": 1, "model": "fake", "error": None}
    item: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    if isinstance(reply, Call) and reply.code:
        item = {"type": "custom_tool_call", "id": f"ctc_{number}", "call_id": f"call_{number}", "status": "completed"}
        item |= {"name": reply.name, "input": reply.code}
    elif isinstance(reply, Call):
        name, _, space = reply.name.partition("@")
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "status": "completed",
            "name": name,
        }
        item |= {"arguments": json.dumps(reply.arguments), **({"namespace": space} if space else {})}
    else:
        item["content"] = [{"type": "output_text", "text": reply, "annotations": []}]
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, **details}
    yield {"type": "response.created", "response": {**base, "status": "in_progress", "output": []}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {**base, "status": "completed", "output": [item], "usage": usage}}


def _asked_chat(request: Json) -> Asked:
    said = request["messages"]
    return Asked(
        prompt="\n".join(_text(message.get("content")) for message in said if message["role"] == "user"),
        results=tuple(_text(message.get("content")) for message in said if message["role"] == "tool"),
        offered={tool["function"]["name"]: None for tool in request.get("tools") or ()},
        model=request["model"],
    )


def _chat(reply: Call | str, number: int) -> Iterator[Json]:
    chunk: Json = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    delta: Json = {"role": "assistant", "content": reply}
    if isinstance(reply, Call):
        function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
        delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function"}]}
        delta["tool_calls"][0]["function"] = function
    ending = "tool_calls" if isinstance(reply, Call) else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": ending}]}
    yield {**chunk, "choices": [], "usage": usage}


def _asked_gemini(request: Json, model: str) -> Asked:
    parts = [(content.get("role"), part) for content in request["contents"] for part in content.get("parts") or ()]
    offered = [tool.get("functionDeclarations") or () for tool in request.get("tools") or ()]
    return Asked(
        prompt="\n".join(part["text"] for role, part in parts if role == "user" and "text" in part),
        results=tuple(json.dumps(part["functionResponse"]) for _, part in parts if "functionResponse" in part),
        offered={declared["name"]: None for declarations in offered for declared in declarations},
        model=model,
    )


def gemini_events(reply: Call | str, number: int) -> Iterator[Json]:
    part: Json = {"text": reply}
    if isinstance(reply, Call):
        part = {
            "functionCall": {"id": f"fc_{number}", "name": reply.name, "args": reply.arguments},
            "thoughtSignature": "ZmFrZQ==",
        }
    candidate = {"content": {"role": "model", "parts": [part]}, "index": 0, "finishReason": "STOP"}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    yield {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake", "responseId": "r1"}
