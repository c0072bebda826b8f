"""Log rows: entries of the journal and of the call log, laid out for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from aop.cli.screens.styles import Screen
from aop.cli.screens.tables import Cell, Column, phrase_lines, shorten, table
from aop.core.errors import Json
from aop.core.text.visible import visible
from aop.kernel.ports.call_log import LoggedCall
from aop.kernel.record.port import JournalEntry

COLUMNS = (
    Column(title="TIME", width=8),
    Column(title="NUMBER", width=6, right=True),
    Column(title="FEATURE", width=16),
    Column(title="EVENT OR CALL"),
)
FACTS_INDENT = 10
MOST_LINES = 3
LONGEST_WORD = 24


class LogRows:
    """Lays out entries below each other, after a header, with a line for each new day."""

    def __init__(self, header: Sequence[str], screen: Screen) -> None:
        self._header = header
        self._screen = screen
        self._day = ""

    def lines(self, entry: LoggedCall | JournalEntry) -> Iterator[str]:
        """Return the lines of one entry; the first of all comes after the header and the titles."""
        if not self._day:
            yield from (*self._header, "", *table(COLUMNS, [], self._screen.width, self._screen.paint))
        day, _, time = (entry.event.at if isinstance(entry, JournalEntry) else entry.at).partition("T")
        if day != self._day:
            self._day = day
            yield self._screen.paint("bold", f"{day}, UTC")
        layout = _event_row(entry) if isinstance(entry, JournalEntry) else _call_row(entry)
        cells = [Cell(time[:8], "dim"), *layout]
        yield from table(COLUMNS, [cells], self._screen.width, self._screen.paint, with_titles=False)
        if isinstance(entry, JournalEntry):
            yield from self._facts_lines(entry)

    def _facts_lines(self, entry: JournalEntry) -> Iterator[str]:
        facts = " ".join(f"{name}={_compact(value)}" for name, value in entry.event.payload.items())
        if facts:
            for line in phrase_lines(Cell(visible(facts), most_lines=MOST_LINES), self._screen.width - FACTS_INDENT):
                yield f"{'':<{FACTS_INDENT}}{self._screen.paint('dim', line)}"


def _event_row(entry: JournalEntry) -> list[Cell]:
    event = entry.event
    by = Cell(f"by {_actor(event.actor, event.feature_id)}")
    return [Cell(f"#{entry.seq}"), Cell(event.feature_id or "-", "bold"), Cell(event.kind, "cyan", (by,))]


def _call_row(call: LoggedCall) -> list[Cell]:
    style = "dim" if call.outcome == "ok" else "red"
    text = f"{call.tool} by {_actor(call.actor, call.feature_id)}: {call.outcome}, {call.milliseconds:.1f} ms"
    return [Cell("call", "dim"), Cell(call.feature_id or "-", "dim"), Cell(text, style)]


def _actor(actor: str, feature: str | None) -> str:
    """Return who acted, without the feature that the row names anyway."""
    return visible(actor.removesuffix(f":{feature}"))


def _compact(value: object) -> str:
    text = _short(value)
    return text if " " in text else shorten(text, LONGEST_WORD)


def facts_text(payload: Mapping[str, Json]) -> str:
    """Return the facts of an event in one line; a long one is cut at 80 characters."""
    return " ".join(f"{name}={_short(value)}" for name, value in payload.items())


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 80 else f"{one_line[:79]}…"
