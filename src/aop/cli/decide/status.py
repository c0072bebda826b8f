"""`aop status`: all features of the repository as a table, or one in full."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aop.cli.screens.overview import Overview, feature_table, header_lines, read_overview
from aop.cli.screens.styles import Screen, add_colour_argument, screen_of
from aop.cli.screens.tables import wrap
from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.ids import FeatureId
from aop.wiring.build import App


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("feature", metavar="FEATURE", nargs="?", help="show only this feature, in full")
    add_colour_argument(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the dashboard, or one feature."""
    screen = screen_of(terminal, arguments.color, os.environ)
    with open_app(arguments, to_read=True) as app:
        overview = read_overview(app)
        if arguments.feature is not None:
            return _show_feature(app, arguments.feature, overview, terminal, screen)
        answer = call_tool(app, "report.dashboard", {})
        waiting = _waiting_to_start(app, answer.data)
    return terminal.answer(answer, lambda dashboard: _show(dashboard, waiting, overview, terminal, screen))


def _show_feature(app: App, name: str, overview: Overview, terminal: Terminal, screen: Screen) -> int:
    from aop.cli.decide.feature_status import feature_lines

    summary = call_tool(app, "report.feature_summary", {"feature_id": name})
    rows = call_tool(app, "report.dashboard", {}).data["features"]
    row = next(row for row in rows if row["feature_id"] == name)
    whole = msgspec.structs.replace(summary, data={"row": row, **summary.data})
    return terminal.answer(whole, lambda data: terminal.text("\n".join(feature_lines(data, overview, screen))))


def _show(
    dashboard: Mapping[str, Any], waiting: Sequence[str], overview: Overview, terminal: Terminal, screen: Screen
) -> None:
    if dashboard["checkout"]:
        terminal.say(f"Warning: {dashboard['checkout']}")
    features = dashboard["features"]
    lines = header_lines(overview, dashboard, screen)
    if features:
        lines += ["", *feature_table(overview, features, screen)]
    if waiting:
        lines += ["", *wrap(f"Waiting to start: {', '.join(waiting)}", screen.width)]
    # One write: a line at a time would be a system call each.
    terminal.text("\n".join(lines))
    if not features and not waiting:
        terminal.say('No features yet. Start with: aop fix "WHAT TO CHANGE"')


def _waiting_to_start(app: App, dashboard: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the features of the newest run that wait for a free place, or for other features."""
    known = {row["feature_id"] for row in dashboard["features"]}
    missing = [name for name in (dashboard["newest_run"] or {}).get("features", ()) if name not in known]
    if not missing:
        return ()
    with app.record.read() as view:
        # A feature with a history that is not listed was deleted.
        return tuple(
            name
            for name in missing
            if not any(view.journal(feature_id=FeatureId(name), kinds=("feature_initialised",), newest=1))
        )
