"""Local endpoints in the protocols of the providers, with scripted replies."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct

Call = tuple[str, Mapping[str, Any]]


class Step(Struct, frozen=True, kw_only=True):
    """What the endpoint does with one request."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = {}
    body: str | None = None
    """Sent as it is, in place of a reply."""
    half: bool = False
    hangs: bool = False
    drips: bool = False
    """The reply comes for ever, a little at a time."""
    cut_off: bool = False
    """The reply says that it reached its token limit."""
    declined: bool = False
    usage: bool = True


class Heard(Struct, frozen=True, kw_only=True):
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Any


class Endpoint(ThreadingHTTPServer):
    """One provider on this machine."""

    daemon_threads = True

    def __init__(self, family: str, steps: list[Step]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.family = family
        self.steps = steps
        self.heard: list[Heard] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        """Return the base URL, as the provider's client wants it."""
        return f"http://127.0.0.1:{self.server_port}{'' if self.family in ('anthropic', 'google', 'vertex') else '/v1'}"

    def next_step(self) -> Step:
        return self.steps[min(len(self.heard), len(self.steps)) - 1]


@contextmanager
def serving(family: str, *steps: Step) -> Iterator[Endpoint]:
    """Serve a script; its last step is repeated."""
    server = Endpoint(family, list(steps))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the standard library's name
        """Say nothing."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.heard.append(Heard(path=self.path, headers=headers, body=json.loads(raw)))
        step = self.server.next_step()
        if step.hangs:
            self.server.over.wait(300)
            return
        body = step.body if step.body is not None else json.dumps(self._reply(step, json.loads(raw)))
        data = body.encode()
        self.send_response(step.status)
        given = {"content-type": "application/json", "content-length": str(len(data) * (2 if step.half else 1))}
        for name, value in {**given, **step.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):
            while step.drips and not self.server.over.wait(0.01):
                self.wfile.write(b" ")
            self.wfile.write(data)
        self.close_connection = True

    def _reply(self, step: Step, asked: Any) -> Any:
        if step.status != 200:
            return _error(self.server.family, step.status)
        return FAMILIES[self.server.family](step, asked)


def _error(family: str, status: int) -> Any:
    message = f"status {status}"
    if family == "anthropic":
        return {"type": "error", "error": {"type": "api_error", "message": message}}
    if family == "google":
        states = {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 401: "UNAUTHENTICATED", 500: "INTERNAL"}
        return {"error": {"code": status, "message": message, "status": states.get(status, "INVALID_ARGUMENT")}}
    return {"error": {"type": "server_error", "code": None, "message": message, "param": None}}


def _anthropic(step: Step, asked: Any) -> Any:
    content: list[Any] = [{"type": "text", "text": step.text}] if step.text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": given}
        for at, (name, given) in enumerate(step.calls)
    ]
    stop = "refusal" if step.declined else "max_tokens" if step.cut_off else "tool_use" if step.calls else "end_turn"
    used = {"input_tokens": 60, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0, "output_tokens": 20}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": content,
        "stop_reason": stop, "stop_sequence": None,
        "usage": used if step.usage else {"input_tokens": 0, "output_tokens": 0},
    }  # fmt: skip


def _openai(step: Step, asked: Any) -> Any:
    spoken = {"type": "output_text", "text": step.text, "annotations": []}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [spoken]}
    calls = [
        {
            "type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}", "name": name,
            "arguments": json.dumps(given), "status": "completed",
        }
        for at, (name, given) in enumerate(step.calls)
    ]  # fmt: skip
    why = "content_filter" if step.declined else "max_output_tokens" if step.cut_off else None
    used = {
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120,
    }  # fmt: skip
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": asked["model"], "error": None,
        "incomplete_details": {"reason": why} if why else None, "instructions": None,
        "metadata": {}, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "store": False,
        "status": "incomplete" if why else "completed", "output": [*([said] if step.text else []), *calls],
        "usage": used if step.usage else None,
    }  # fmt: skip


def _chat(step: Step, asked: Any) -> Any:
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (name, given) in enumerate(step.calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": step.text or None}
    if calls and asked.get("response_format", {}).get("type") == "json_schema":
        message["content"] = json.dumps(step.calls[0][1])
    elif calls:
        message["tool_calls"] = calls
    ending = (
        "content_filter"
        if step.declined
        else "length"
        if step.cut_off
        else "tool_calls"
        if "tool_calls" in message
        else "stop"
    )
    used = {
        "prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens": 20,
        "total_tokens": 120,
    }  # fmt: skip
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": ending, "logprobs": None}],
        "usage": used if step.usage else None,
    }  # fmt: skip


def _google(step: Step, asked: Any) -> Any:
    parts: list[Any] = [{"text": step.text}] if step.text else []
    parts += [
        {"functionCall": {"id": f"fc_{at}", "name": name, "args": given}, "thoughtSignature": "c2lnbmVk"}
        for at, (name, given) in enumerate(step.calls)
    ]
    used = {
        "promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120, "cachedContentTokenCount": 40,
    }  # fmt: skip
    ending = "SAFETY" if step.declined else "MAX_TOKENS" if step.cut_off else "STOP"
    reply = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, "finishReason": ending}],
        "modelVersion": "gemini", "responseId": "r1",
    }  # fmt: skip
    return {**reply, "usageMetadata": used} if step.usage else reply


FAMILIES: Mapping[str, Callable[[Step, Any], Any]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "google": _google,
    "vertex": _google,
    "openrouter": _chat,
    "ollama": _chat,
    "vllm": _chat,
    "compatible": _chat,
}
