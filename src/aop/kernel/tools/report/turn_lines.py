"""Turn lines: what an agent says or calls, in words, from a line of its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_SHOWN_CHARS = 400


def turn_line_text(line: str) -> str:
    """Return an event of a model's loop in words, and any other line unchanged."""
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return line
    return _event_text(event) if isinstance(event, dict) else line


def _event_text(event: Mapping[str, Any]) -> str:
    match event:
        case {"type": "replied", "text": str(text), "model": str(model)}:
            return f"{model} says: {_short(text)}" if text else f"{model} replies"
        case {"type": "called", "tool": str(tool), "arguments": str(given)}:
            return f"calls {tool} {_short(given)}"
        case {"type": "observed", "tool": str(tool), "ok": bool(ok), "text": str(text)}:
            return f"{tool} {'answers' if ok else 'refuses'}: {_short(text)}"
        case _:
            return msgspec.json.encode(event).decode()


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _SHOWN_CHARS else f"{one_line[:_SHOWN_CHARS]}…"
