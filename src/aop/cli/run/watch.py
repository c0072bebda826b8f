"""`aop watch`: one line for each feature of a run, kept up to date."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from aop.cli.shell.exits import Exit
from aop.cli.shell.repository import open_app
from aop.cli.shell.terminal import Terminal
from aop.core.ids import FeatureId
from aop.core.text.counts import count
from aop.core.text.visible import visible
from aop.kernel.record.documents.usage import Spending
from aop.wiring.build import App
from aop.wiring.supervisor_lease import lease_holder

POLL_SECONDS = 0.3


class Row(Struct, frozen=True, kw_only=True):
    """One feature on the screen."""

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


def arguments(_parser: argparse.ArgumentParser) -> None:
    """Add no arguments: the verb has none."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Watch until the run ends or Ctrl-C is pressed."""
    with open_app(arguments) as app:
        try:
            return _watch(app, terminal)
        except KeyboardInterrupt:
            terminal.say("aop: stopped watching; the run continues.")
            return Exit.OK


def _watch(app: App, terminal: Terminal) -> int:
    screen = _Screen(terminal)
    watch = _Watch(app)
    was_running = False
    while True:
        # Read before the rows, so that the last changes of a run are still shown.
        is_running = lease_holder(app.root) is not None
        was_running = was_running or is_running
        screen.show(watch.rows())
        if not is_running:
            break
        app.gateway.kernel.clock.pause(POLL_SECONDS)
    terminal.say("The run has ended." if was_running else "No run is active. Start one with: aop run")
    return Exit.OK if was_running else Exit.NOT_PROVEN


class _Watch:
    """Reads new journal entries and keeps the first and last event of each feature."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._seen = 0
        self._first: dict[FeatureId, str] = {}
        self._last: dict[FeatureId, tuple[str, str]] = {}

    def rows(self) -> dict[str, Row]:
        """Return a row for each feature that is not merged."""
        with self._app.record.read() as view:
            for entry in view.journal(after=self._seen):
                self._seen, name = entry.seq, entry.event.feature_id
                if name is not None:
                    self._first.setdefault(name, entry.event.at)
                    self._last[name] = (entry.event.kind, entry.event.at)
        features = self._app.gateway.call(self._app.person, "report.dashboard", {}).data["features"]
        return {row["feature_id"]: self._row(row) for row in features if row["status"] != "merged"}

    def _row(self, row: Mapping[str, Any]) -> Row:
        name = FeatureId(row["feature_id"])
        kind, at = self._last.get(name, ("", ""))
        is_on_its_way = row["status"] in ("planning", "building", "qa")
        return Row(
            feature_id=name,
            phase="paused" if row["paused"] and is_on_its_way else row["status"],
            last_event=kind,
            last_at=at,
            seconds=_between(self._first.get(name, at), at),
            turns=row["spent"]["turns"],
            cost_usd=msgspec.convert(row["spent"], Spending).cost_usd.known,
        )


class _Screen:
    """Prints rows on a terminal or as lines."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._shown: dict[str, Row] = {}

    def show(self, rows: Mapping[str, Row]) -> None:
        """Redraw on a terminal; elsewhere print what changed."""
        if rows == self._shown:
            return
        if self._terminal.json or not self._terminal.is_screen:
            for name, row in rows.items():
                if self._shown.get(name) != row:
                    self._terminal.line(msgspec.to_builtins(row), line(row))
        else:
            up = f"\x1b[{len(self._shown)}A\x1b[J" if self._shown else ""
            self._terminal.text(up + "\n".join(line(row)[: self._terminal.columns] for row in rows.values()))
        self._shown = dict(rows)


def line(row: Row) -> str:
    """Return a feature as one line."""
    cost = "cost unknown" if row.cost_usd is None else f"{row.cost_usd:.4f} USD"
    spent = f"{count(row.turns, 'turn')}  {cost}" if row.turns else "no turn yet"
    return visible(f"{row.feature_id:<24}  {row.phase:<14}  {row.last_event:<20}  {row.seconds:7.1f} s  {spent}")


def _between(first: str, last: str) -> float:
    if not first or not last:
        return 0.0
    return round((datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds(), 1)
