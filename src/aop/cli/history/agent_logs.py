"""Agent logs: the output of a feature's agents, without secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import msgspec

from aop.adapters.agents.turn_logs import AGENT_LOGS, TurnLogReader
from aop.cli.shell.terminal import Terminal
from aop.core.clock import Clock
from aop.core.errors import Json
from aop.core.ids import FeatureId
from aop.core.text.visible import visible
from aop.wiring.build import App

LOOK_AGAIN_SECONDS = 0.2
_SHOWN_CHARS = 400


def show_agent(app: App, feature: FeatureId, terminal: Terminal, *, follow: bool) -> None:
    """Print the output of each role's newest turn, and follow new output if wanted."""
    is_empty = True
    with closing(TurnLogReader(app.root / AGENT_LOGS, feature)) as reader:
        for role, line in _lines(reader, app.gateway.kernel.clock, follow=follow):
            is_empty = False
            clean = app.gateway.kernel.redact(line)
            entry: Json = {"type": "agent", "feature_id": feature, "role": role, "line": clean}
            terminal.line(entry, f"{role:<8} {visible(_text_of(clean))}")
    if is_empty:
        terminal.say(f"No output of an agent for `{feature}` yet.")


def _lines(reader: TurnLogReader, clock: Clock, *, follow: bool) -> Iterator[tuple[str, str]]:
    yield from reader.new_lines(with_unended=not follow)
    while follow:
        clock.pause(LOOK_AGAIN_SECONDS)
        yield from reader.new_lines(with_unended=False)


def _text_of(line: str) -> str:
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
