"""Self-reports: tokens and cost as a coding agent prints them itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from stat import S_ISREG
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from aop.brains.conversation import TokenCounts
from aop.brains.prices import Prices
from aop.kernel.record.documents.usage import Usage


class ReplyReport(Struct, frozen=True, kw_only=True):
    """The usage in one printed line: of one reply, or of all so far."""

    reply: str = ""
    """The id of the reply; empty if the line sums up all replies."""
    model: str = ""
    tokens: TokenCounts
    cost_usd: float | None = None


_AT_ONCE = 16 * 2**20
_MOST_FILES = 64
ReadLine: TypeAlias = Callable[[Mapping[str, Any]], ReplyReport | None]
"""Returns the report in a line that a program printed as JSON, or None."""


def claude_report(line: Mapping[str, Any]) -> ReplyReport | None:
    """Read a line of Claude Code: a reply of the model, or the result of the session."""
    match line:
        case {"type": "assistant", "message": {"id": str(reply), "usage": {**usage}, **message}}:
            return ReplyReport(reply=reply, model=str(message.get("model", "")), tokens=_claude_tokens(usage))
        case {"type": "result", "usage": {**usage}, **result}:
            return ReplyReport(tokens=_claude_tokens(usage), cost_usd=_dollars(result.get("total_cost_usd")))
    return None


def _claude_tokens(usage: Mapping[Any, Any]) -> TokenCounts:
    read, written = _number(usage, "cache_read_input_tokens"), _number(usage, "cache_creation_input_tokens")
    return TokenCounts(
        input_tokens=_number(usage, "input_tokens") + read + written,
        output_tokens=_number(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def codex_report(line: Mapping[str, Any]) -> ReplyReport | None:
    """Read a line of Codex: the end of its turn, or the sum that its session file has after each reply."""
    match line:
        case {"type": "turn.completed", "usage": {**usage}}:
            return ReplyReport(tokens=_plain_tokens(usage, "cached_input_tokens"))
        case {"type": "token_usage_record", "payload": {"turn_id": str(turn), "turn_token_usage": {**usage}}}:
            return ReplyReport(reply=turn, tokens=_plain_tokens(usage, "cached_input_tokens"))
    return None


def gemini_report(line: Mapping[str, Any]) -> ReplyReport | None:
    """Read a line of Gemini CLI: a reply in its session file, or the result of the session, which names its models."""
    match line:
        case {"type": "gemini", "id": str(reply), "tokens": {**usage}, **message}:
            tokens = TokenCounts(
                input_tokens=_number(usage, "input"),
                output_tokens=_number(usage, "output") + _number(usage, "thoughts"),
                cache_read_tokens=_number(usage, "cached"),
            )
            return ReplyReport(reply=reply, model=str(message.get("model", "")), tokens=tokens)
        case {"type": "result", "stats": {**stats}}:
            models = stats.get("models")
            only = next(iter(models)) if isinstance(models, dict) and len(models) == 1 else ""
            return ReplyReport(model=only, tokens=_plain_tokens(stats, "cached"))
    return None


def _plain_tokens(usage: Mapping[Any, Any], cached: str) -> TokenCounts:
    return TokenCounts(
        input_tokens=_number(usage, "input_tokens"),
        output_tokens=_number(usage, "output_tokens"),
        cache_read_tokens=_number(usage, cached),
    )


def _number(usage: Mapping[Any, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _dollars(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value >= 0 else None


class SelfReport:
    """The usage of one turn so far, read from its output and from the files of its session while these grow."""

    def __init__(self, log: Path, read_line: ReadLine, cost: Callable[[str, TokenCounts], float | None]) -> None:
        """Take the log, the reader of a line, and the price of a model's tokens."""
        self._log = log
        self._read_line = read_line
        self._cost = cost
        self._at: dict[Path, int] = {}
        self._sessions: Path | None = None
        self._replies: dict[str, ReplyReport] = {}

    def follow(self, sessions: Path) -> None:
        """Read the session files below a folder too, from where they end now: earlier turns have been counted."""
        self._sessions = sessions
        self._at |= {path: path.lstat().st_size for path in _session_files(sessions)}

    def usage(self) -> Usage:
        """Return all that the program has reported so far; nothing reported is unknown."""
        for path in (self._log, *(_session_files(self._sessions) if self._sessions else ())):
            for line in self._new_lines(path):
                report = self._read_line(line)
                if report is not None:
                    self._replies[report.reply] = report
        # The report of the whole session replaces those of its replies.
        reports = [self._replies[""]] if "" in self._replies else list(self._replies.values())
        if not reports:
            return Usage(self_reported=True)
        costs = [self._cost(each.model, each.tokens) if each.cost_usd is None else each.cost_usd for each in reports]
        known = [cost for cost in costs if cost is not None]
        return Usage(
            input_tokens=sum(each.tokens.input_tokens or 0 for each in reports),
            output_tokens=sum(each.tokens.output_tokens or 0 for each in reports),
            cached_input_tokens=sum(each.tokens.cache_read_tokens for each in reports),
            cost_usd=round(sum(known), 9) if len(known) == len(costs) else None,
            self_reported=True,
        )

    def _new_lines(self, path: Path) -> list[Mapping[str, Any]]:
        # The agent can write the files of its session: a link or a pipe is not followed, a flood not read at once.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with open(os.open(path, flags), "rb") as log:
                if not S_ISREG(os.fstat(log.fileno()).st_mode):
                    return []
                log.seek(self._at.get(path, 0))
                data = log.read(_AT_ONCE)
        except OSError:
            return []
        # A line that is longer than that says nothing that is understood.
        whole = data if len(data) == _AT_ONCE and b"\n" not in data else data[: data.rfind(b"\n") + 1]
        self._at[path] = self._at.get(path, 0) + len(whole)
        found: list[Mapping[str, Any]] = []
        for line in whole.splitlines():
            try:
                found.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:
                continue  # not a line of its report
        return found


def _session_files(folder: Path) -> list[Path]:
    """Return the files of a program's sessions; a folder behind a link has none."""
    if os.path.realpath(folder) != str(folder):
        return []
    found = [Path(above, name) for above, _, names in os.walk(folder) for name in names if name.endswith(".jsonl")]
    return sorted(found)[:_MOST_FILES]


def price_of(prices: Prices, family: str, chosen: str | None) -> Callable[[str, TokenCounts], float | None]:
    """Return the price of tokens: of the model that a report names, or else of the chosen one."""
    return lambda model, tokens: prices.cost(f"{family}:{model or chosen or ''}", tokens)
