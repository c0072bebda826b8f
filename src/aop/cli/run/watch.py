"""`aop watch`: the features of a run on one screen, kept up to date."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from aop.cli.screens.overview import Overview, feature_table, header_lines, now_cell, read_overview
from aop.cli.screens.redrawn_screen import RedrawnScreen
from aop.cli.screens.styles import Screen, add_colour_argument, screen_of
from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.ids import FeatureId
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.spending import marks_of
from aop.kernel.tools.report.standings import ON_ITS_WAY
from aop.wiring.build import App
from aop.wiring.supervisor_lease import lease_holder

POLL_SECONDS = 0.25
AGES_SECONDS = 1.0
"""How often the ages on a screen are brought up to date."""


class Row(Struct, frozen=True, kw_only=True):
    """One feature, for programs."""

    feature_id: str
    phase: str
    """Its status, or `paused`."""
    last_event: str
    last_at: str
    seconds: float
    """From its first event to its last one."""
    turns: int
    cost_usd: float | None
    """None: not reported."""
    marks: tuple[str, ...]
    """Why turns and cost may be wrong: `self-reported`, `partly estimated`."""
    at_work: Mapping[str, Any] | None
    """The turn in progress."""
    gates_at_work: Mapping[str, Any] | None
    """The gate run in progress."""
    waits: str
    next_command: str


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_colour_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Watch until the run ends or Ctrl-C is pressed."""
    with open_app(arguments, to_read=True) as app:
        try:
            return _watch(app, arguments, terminal)
        except KeyboardInterrupt:
            terminal.say("aop: stopped watching; the run continues.")
            return Exit.OK


def _watch(app: App, arguments: argparse.Namespace, terminal: Terminal) -> int:
    is_drawn = terminal.is_screen and not terminal.json
    view = _DrawnView(app, arguments, terminal) if is_drawn else _PrintedView(app, terminal)
    clock, was_running = app.gateway.kernel.clock, False
    while True:
        # Read before the rows, so that the last changes of a run are still shown.
        is_running = lease_holder(app.root, app.record) is not None
        was_running = was_running or is_running
        if was_running or not is_drawn:
            view.show()
        if not is_running:
            break
        clock.pause(POLL_SECONDS)
    terminal.say("The run has ended." if was_running else "No run is active. Start one with: aop run")
    return Exit.OK if was_running else Exit.NOT_PROVEN


class _Record:
    """Tells cheaply whether the record has changed."""

    def __init__(self, app: App) -> None:
        self._record = app.record
        self._seen: object = None

    def has_changed(self) -> bool:
        """Tell whether it differs from that of the last call."""
        found = self._record.stamp()
        changed, self._seen = found != self._seen, found
        return changed


class _DrawnView:
    """Draws header and table on a terminal."""

    def __init__(self, app: App, arguments: argparse.Namespace, terminal: Terminal) -> None:
        self._app = app
        self._choice = arguments.color
        self._terminal = terminal
        self._record = _Record(app)
        self._drawn = RedrawnScreen(terminal)
        self._dashboard: Mapping[str, Any] = {}
        self._draw_at = 0.0

    def show(self) -> None:
        """Read the record if it has changed; draw if that, the ages or the size of the terminal did."""
        now = self._app.gateway.kernel.clock.boot_seconds()
        has_changed = self._record.has_changed()
        if has_changed:
            self._dashboard = call_tool(self._app, "report.dashboard", {}).data
        if has_changed or now >= self._draw_at or self._drawn.is_resized():
            self._draw_at = now + AGES_SECONDS
            screen = screen_of(self._terminal, self._choice, os.environ)
            self._drawn.draw(_screen_lines(read_overview(self._app), self._dashboard, screen))


def _screen_lines(overview: Overview, dashboard: Mapping[str, Any], screen: Screen) -> list[str]:
    rows = [row for row in dashboard["features"] if row["status"] != "merged"]
    table = ["", *feature_table(overview, rows, screen)] if rows else []
    return [*header_lines(overview, dashboard, screen), *table]


class _PrintedView:
    """Prints a line for each feature that changed."""

    def __init__(self, app: App, terminal: Terminal) -> None:
        self._app = app
        self._terminal = terminal
        self._record = _Record(app)
        self._journal = _Journal(app)
        self._shown: dict[str, Row] = {}

    def show(self) -> None:
        """Print what changed since the last time."""
        if not self._record.has_changed():
            return
        overview, events = read_overview(self._app), self._journal.read()
        for each in call_tool(self._app, "report.dashboard", {}).data["features"]:
            row = _row(each, events)
            if each["status"] != "merged" and self._shown.get(row.feature_id) != row:
                self._shown[row.feature_id] = row
                self._terminal.line(msgspec.to_builtins(row), _line(row, now_cell(overview, each).text))


class _Events(Struct):
    """The first and the last event of a feature."""

    first_at: str
    last: str
    last_at: str


class _Journal:
    """Reads new journal entries and keeps the first and last event of each feature."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._seen = 0
        self._events: dict[FeatureId, _Events] = {}

    def read(self) -> Mapping[FeatureId, _Events]:
        """Return the first and the last event of each feature."""
        with self._app.record.read() as view:
            for entry in view.journal(after=self._seen):
                self._seen, name = entry.seq, entry.event.feature_id
                if name is not None:
                    known = self._events.setdefault(name, _Events(entry.event.at, "", ""))
                    known.last, known.last_at = entry.event.kind, entry.event.at
        return self._events


def _row(row: Mapping[str, Any], events: Mapping[FeatureId, _Events]) -> Row:
    name = FeatureId(row["feature_id"])
    found = events.get(name) or _Events("", "", "")
    return Row(
        feature_id=name,
        phase="paused" if row["paused"] and row["status"] in ON_ITS_WAY else row["status"],
        last_event=found.last,
        last_at=found.last_at,
        seconds=_between(found.first_at, found.last_at),
        turns=row["spent"]["turns"],
        cost_usd=msgspec.convert(row["spent"], Spending).cost_usd.known,
        marks=marks_of(msgspec.convert(row["spent"], Spending)),
        at_work=row["at_work"],
        gates_at_work=row["gates_at_work"],
        waits=row["waits"],
        next_command=row["next_command"],
    )


def _line(row: Row, now: str) -> str:
    cost = "cost unknown" if row.cost_usd is None else f"{row.cost_usd:.4f} USD"
    spent = ", ".join([count(row.turns, "turn"), cost, *row.marks]) if row.turns else "no turn yet"
    parts = [f"{row.feature_id:<24}  {row.phase:<14}  {row.last_event:<20}  {row.seconds:7.1f} s  {spent}", now]
    return visible("  ".join([*parts, row.next_command]).rstrip())


def _between(first: str, last: str) -> float:
    if not first or not last:
        return 0.0
    return round((datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds(), 1)
