"""`aop logs`: events and calls in order, and new ones with `--follow`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from aop.adapters.reporting.call_log import CallReader
from aop.cli.history.log_rows import LogRows, facts_text
from aop.cli.screens.overview import frame_lines, read_overview
from aop.cli.screens.styles import add_colour_argument, screen_of
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.errors import InvalidCliArgs, UnknownFeature
from aop.core.ids import FeatureId, feature_id
from aop.core.text.visible import visible
from aop.kernel.ports.call_log import LoggedCall
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Event, JournalEntry
from aop.wiring.build import CALL_LOG, App

LOOK_AGAIN_SECONDS = 0.2

LogEntry: TypeAlias = LoggedCall | JournalEntry


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--follow", action="store_true", help="keep printing new entries, until you stop it")
    parser.add_argument("--feature", metavar="FEATURE", help="only entries of this feature")
    parser.add_argument("--agent", metavar="FEATURE", help="only the output of this feature's agents")
    add_colour_argument(parser)
    parser.add_argument("--since", type=int, default=0, metavar="N", help="only entries after journal entry number N")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the entries, and follow."""
    if arguments.since < 0:
        raise InvalidCliArgs("`--since` must be the number of a journal entry, at least 0.")
    if arguments.agent is not None:
        return _print_agent_output(arguments, terminal)
    feature = None if arguments.feature is None else feature_id(arguments.feature)
    is_empty = True
    with open_app(arguments, to_read=True) as app:
        rows = _rows_of_screen(app, arguments, terminal)
        _refuse_unknown(app, feature)
        for entry in _entries(app, feature, arguments.since, follow=arguments.follow):
            is_empty = False
            kind = "event" if isinstance(entry, JournalEntry) else "call"
            # A pipe gets one line for each entry, with the whole time: programs search in it.
            text = _line(entry) if rows is None else "\n".join(rows.lines(entry))
            terminal.line({"type": kind, **msgspec.to_builtins(entry)}, text)
    if is_empty:
        terminal.say("No entries. Every change is listed here; begin with: aop run")
    return Exit.OK


def _rows_of_screen(app: App, arguments: argparse.Namespace, terminal: Terminal) -> LogRows | None:
    if not terminal.is_screen or terminal.json:
        return None
    screen = screen_of(terminal, arguments.color, os.environ)
    return LogRows(frame_lines(read_overview(app), [], screen), screen)


def _print_agent_output(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from aop.cli.history.agent_logs import show_agent

    if arguments.feature is not None or arguments.since:
        raise InvalidCliArgs("`--agent` cannot be used with `--feature` or `--since`.")
    feature = feature_id(arguments.agent)
    with open_app(arguments, to_read=True) as app:
        show_agent(app, feature, terminal, follow=arguments.follow)
    return Exit.OK


def _refuse_unknown(app: App, feature: FeatureId | None) -> None:
    """Refuse a feature that never existed; a deleted one has a history."""
    if feature is None:
        return
    with app.record.read() as view:
        is_known = view.get(FeatureState, feature) is not None or any(view.journal(feature_id=feature, newest=1))
        if not is_known:
            raise UnknownFeature(feature, (each.feature_id for each in view.all(FeatureState)))


def _entries(app: App, feature: FeatureId | None, since: int, *, follow: bool) -> Iterator[LogEntry]:
    reader = CallReader(app.root / CALL_LOG)
    seen, begin = since, _event_number(app, since)
    calls = [*reader.older_calls(), *reader.new_calls()]
    while True:
        with app.record.read() as view:
            entries = list(view.journal(after=seen, feature_id=feature))
        seen = max([seen, *(entry.seq for entry in entries)])
        later = [call for call in calls if _is_later(call, begin) and feature in (None, call.feature_id)]
        unsorted: list[LogEntry] = [*entries, *later]
        yield from sorted(unsorted, key=_sort_key)
        if not follow:
            return
        app.gateway.kernel.clock.pause(LOOK_AGAIN_SECONDS)
        calls = list(reader.new_calls())


def _event_number(app: App, seq: int) -> Event | None:
    if seq == 0:
        return None
    with app.record.read() as view:
        for entry in view.journal(after=seq - 1, limit=1):
            return entry.event
    raise InvalidCliArgs(f"The journal has no entry {seq}.", hint="`aop logs` shows the numbers.")


def _is_later(call: LoggedCall, event: Event | None) -> bool:
    return event is None or (call.at >= event.at and call.operation_id != event.operation_id)


def _sort_key(entry: LogEntry) -> tuple[str, int]:
    """Sort by time; a call ends after the events that it wrote."""
    if isinstance(entry, JournalEntry):
        return entry.event.at, entry.seq
    return entry.at, 1 << 62


def _line(entry: LogEntry) -> str:
    if isinstance(entry, JournalEntry):
        event = entry.event
        facts = facts_text(event.payload)
        what = f"{event.at}  #{entry.seq:<6} {event.actor}  {event.kind}  {event.feature_id or '-'}  {facts}"
    else:
        took = f"{entry.outcome}  {entry.milliseconds:.1f} ms"
        what = f"{entry.at}  {'call':<7} {entry.actor}  {entry.tool}  {entry.feature_id or '-'}  {took}"
    return visible(what.rstrip())
