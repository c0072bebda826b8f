"""`aop status`: all features of the repository, one line each."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.ids import FeatureId
from aop.core.text.visible import visible
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.spending import spending_text
from aop.wiring.build import App


def arguments(_parser: argparse.ArgumentParser) -> None:
    """Declare no further arguments."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the dashboard."""
    with open_app(arguments, to_read=True) as app:
        answer = call_tool(app, "report.dashboard", {})
        waiting = _waiting_to_start(app, answer.data)
    return terminal.answer(answer, lambda dashboard: _show(dashboard, waiting, terminal))


def _show(dashboard: Mapping[str, Any], waiting: Sequence[str], terminal: Terminal) -> None:
    features = dashboard["features"]
    if not features:
        terminal.say("No features yet. Start with a spec: aop run -fi SPEC")
        return
    width = max(len(row["feature_id"]) for row in features)
    lines = [line for row in features for line in _lines(row, width)]
    if waiting:
        lines.append(f"waiting to start: {', '.join(waiting)}")
    if dashboard["spent"]["turns"]:
        lines.append(f"total: {spending_text(msgspec.convert(dashboard['spent'], Spending))}")
    # One write: a line at a time would be a system call each.
    terminal.text("\n".join(lines))


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


def _lines(row: Mapping[str, Any], width: int) -> list[str]:
    gates = " ".join(f"{name}:{verdict}" for name, verdict in row["gates"].items() if verdict != "na")
    below = [spending_text(msgspec.convert(row["spent"], Spending))] if row["spent"]["turns"] else []
    below += [row["status_reason"]] if row["status_reason"] else []
    below += ["paused: aop resume"] if row["paused"] else []
    below += [f"asks {question}: aop inbox" for question in row["asks"]]
    below += [visible(" ".join(row["question"].split()))] if row["asks"] else []
    below += [f"{question} was not answered in time: aop resume" for question in row["out_of_time"]]
    first = f"{row['feature_id']:<{width}}  {row['status']:<14}  {gates}".rstrip()
    return [first, *(f"{'':<{width}}  {line}" for line in below)]
