"""ACP protocol: the part of the Agent Client Protocol that one turn needs.

The agent's updates are logged. Token and sandbox limit what it can do; permission requests are decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from aop.adapters.agents.workers.turn_faults import AUTH_REQUIRED
from aop.core.errors import NoUsableAnswer
from aop.core.text.json import MalformedText, parse_json
from aop.core.version import VERSION
from aop.kernel.record.documents.usage import Usage

PROTOCOL = 1
_NO_SUCH_METHOD = -32601
_EXCERPT = 300
_MOST_TOKENS, _MOST_DOLLARS = 10**12, 10**6
"""The limits of `Usage`; a larger figure is not plausible."""

Params = Mapping[str, Any]


class Streams(Protocol):
    """The standard streams of an agent."""

    def send(self, data: bytes) -> None:
        """Write to its standard input."""

    def offer(self, data: bytes) -> None:
        """Write to its standard input if that does not block."""

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of its standard output until it ends."""


class AcpTurn(Struct, frozen=True, kw_only=True):
    """The settings of one turn."""

    prompt: str
    tree: str
    mcp_url: str
    token: str
    model: str | None
    edits: bool
    shell: bool
    is_over: Callable[[Usage], bool]
    """Tells whether a usage reaches the cap of the turn."""
    resumed: str = ""
    """The id of the session that goes on, if the agent can load one; empty for a new one."""


class Conversation:
    """One turn with an agent; it is held in one thread and may be cancelled from another."""

    def __init__(self, streams: Streams, note: Callable[[str], None]) -> None:
        self._streams = streams
        self._note = note
        self._lines = streams.lines()
        self._number = 0
        self._session = ""
        self.can_load = False
        """Whether the agent can go on with a session."""
        self.usage = Usage(self_reported=True)
        self.stop_reason = ""
        """The agent's own stop reason; empty until it stops."""

    def run(self, turn: AcpTurn) -> None:
        """Run the turn to its end. Raises: NoUsableAnswer."""
        self._turn = turn
        agent = self._ask("initialize", _GREETING)
        if not _member(agent, "agentCapabilities", "mcpCapabilities", "http"):
            raise NoUsableAnswer("The agent does not support MCP servers over HTTP, which AOP's tools need.")
        self.can_load = _member(agent, "agentCapabilities", "loadSession") is True
        opened = self._open_session(turn, [str(_member(each, "id")) for each in _list_in(agent, "authMethods")])
        self._session = str(_member(opened, "sessionId") or "")
        if turn.model:
            self._choose(turn.model, opened)
        prompt = [{"type": "text", "text": turn.prompt}]
        ended = self._ask("session/prompt", {"sessionId": self._session, "prompt": prompt})
        self._count(_usage_in(ended))
        self.stop_reason = str(_member(ended, "stopReason") or "unknown")

    @property
    def session_id(self) -> str:
        """Return the id of the session, if the agent can go on with it."""
        return self._session if self.can_load else ""

    def cancel(self) -> None:
        """Ask the agent to stop, without waiting; the caller ends an agent that does not."""
        if self._session:
            self._streams.offer(_line({"method": "session/cancel", "params": {"sessionId": self._session}}))

    def _open_session(self, turn: AcpTurn, methods: Sequence[str]) -> Params:
        headers = [{"name": "Authorization", "value": f"Bearer {turn.token}"}]
        server = {"type": "http", "name": "aop", "url": turn.mcp_url, "headers": headers}
        wanted = {"cwd": turn.tree, "mcpServers": [server]}
        if turn.resumed and self.can_load:
            # A session that the agent no longer has is followed by a new one.
            with suppress(NoUsableAnswer):
                return {**self._ask("session/load", {**wanted, "sessionId": turn.resumed}), "sessionId": turn.resumed}
        try:
            return self._ask("session/new", wanted)
        except NoUsableAnswer as refusal:
            # No browser login is possible; a method with a key from the environment is.
            method = next((method for method in methods if "key" in method), None)
            if refusal.facts.get("error") != AUTH_REQUIRED or method is None:
                raise
        self._ask("authenticate", {"methodId": method})
        return self._ask("session/new", wanted)

    def _choose(self, model: str, opened: Params) -> None:
        option = next(
            (each for each in _list_in(opened, "configOptions") if _member(each, "category") == "model"), None
        )
        if option is not None:
            wanted = {"sessionId": self._session, "configId": _member(option, "id"), "value": model}
            self._ask("session/set_config_option", wanted)
        else:
            self._ask("session/set_model", {"sessionId": self._session, "modelId": model})

    def _ask(self, method: str, params: Params) -> Params:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        for message in map(_message, self._lines):
            if "method" in message:
                self._on_message(message)
            elif message.get("id") == self._number:
                if "error" in message:
                    raise _refusal(method, message["error"])
                result = message.get("result")
                return result if isinstance(result, Mapping) else {}
        raise NoUsableAnswer(f"The agent exited before it answered `{method}`.")

    def _send(self, message: Params) -> None:
        self._streams.send(_line(message))

    def _on_message(self, message: Params) -> None:
        """Note the agent's updates, and answer its requests."""
        params = message.get("params")
        params = params if isinstance(params, Mapping) else {}
        if "id" not in message:
            self._on_update(_member(params, "update"))
        elif message["method"] == "session/request_permission":
            allowed = is_permitted(_member(params, "toolCall"), self._turn)
            self._note(f"{'allowed' if allowed else 'denied'}: {_member(params, 'toolCall', 'title') or ''}\n")
            self._send({"id": message["id"], "result": {"outcome": _outcome(params, allowed=allowed)}})
        else:
            error = {"code": _NO_SUCH_METHOD, "message": "AOP provides no files or terminals: use your own tools."}
            self._send({"id": message["id"], "error": error})

    def _on_update(self, update: object) -> None:
        match _member(update, "sessionUpdate"):
            case "agent_message_chunk" | "agent_thought_chunk":
                self._note(str(_member(update, "content", "text") or ""))
            case "tool_call":
                self._note(f"\n{_member(update, 'kind') or 'tool'}: {_member(update, 'title') or ''}\n")
            case "usage_update":
                self._count(_usage_in({"cost": _member(update, "cost")}))

    def _count(self, reported: Usage) -> None:
        known = {name: value for name, value in reported.figures.items() if value is not None}
        self.usage = msgspec.structs.replace(self.usage, **known)
        if known and self._turn.is_over(self.usage):
            self.cancel()


def _refusal(method: str, error: object) -> NoUsableAnswer:
    number = _member(error, "code")
    said = str(_member(error, "message") or "")[:_EXCERPT]
    return NoUsableAnswer(f"The agent refused `{method}`: {said}", error=number if isinstance(number, int) else None)


_GREETING = {
    "protocolVersion": PROTOCOL,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "aop", "version": VERSION},
}


def is_permitted(tool_call: object, turn: AcpTurn) -> bool:
    """Decide on a permission request: nothing outside the tree, no network, no edits or shell unless allowed."""
    kind = _member(tool_call, "kind")
    if kind == "fetch" or (kind == "execute" and not turn.shell):
        return False
    if kind in ("edit", "delete", "move") and not turn.edits:
        return False
    tree = PurePosixPath(turn.tree)
    paths = [PurePosixPath(turn.tree, str(_member(place, "path"))) for place in _list_in(tool_call, "locations")]
    return all(path.is_relative_to(tree) and ".." not in path.parts for path in paths)


def _outcome(params: Params, *, allowed: bool) -> Params:
    """Return the option for the decision, preferably for this once; without one the request is cancelled."""
    wanted = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
    offered = {_member(option, "kind"): _member(option, "optionId") for option in _list_in(params, "options")}
    chosen = next((offered[kind] for kind in wanted if kind in offered), None)
    return {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}


def _usage_in(said: Params) -> Usage:
    """Return the usage that an agent reports, in the protocol's fields or in those of Gemini CLI."""
    counted, quota = _member(said, "usage"), _member(said, "_meta", "quota", "token_count")
    dollars = _member(said, "cost", "amount") if _member(said, "cost", "currency") == "USD" else None
    return Usage(
        input_tokens=_valid_count(_member(counted, "inputTokens"), _member(quota, "input_tokens")),
        output_tokens=_valid_count(_member(counted, "outputTokens"), _member(quota, "output_tokens")),
        cached_input_tokens=_valid_count(_member(counted, "cachedReadTokens")),
        cost_usd=float(dollars) if isinstance(dollars, int | float) and 0 <= dollars <= _MOST_DOLLARS else None,
    )


def _valid_count(*figures: object) -> int | None:
    return next((figure for figure in figures if type(figure) is int and 0 <= figure <= _MOST_TOKENS), None)


def _line(message: Params) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n"


def _message(line: bytes) -> Params:
    """Parse a line; text that is not a message, such as library output, gives an empty one."""
    try:
        message = parse_json(line.decode())
    except (UnicodeDecodeError, MalformedText):
        return {}
    return message if isinstance(message, dict) else {}


def _member(value: object, *names: str) -> Any:
    """Return the member at a path of names, or None; the agent's data is not trusted."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _list_in(value: object, name: str) -> Sequence[Any]:
    found = _member(value, name)
    return found if isinstance(found, list) else ()
