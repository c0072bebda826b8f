"""`aop status`: every feature of the repository, one line each."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aop.cli.exits import Exit
from aop.cli.terminal import Terminal
from aop.kernel.usage import Spending, told
from aop.wiring import Settings, build


def arguments(_parser: argparse.ArgumentParser) -> None:
    """Say what the verb takes: nothing of its own."""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the dashboard."""
    app = build(Path(arguments.repo), Settings.from_env(os.environ))
    answer = app.gateway.call(app.person, "report.dashboard", {})
    app.close()
    if answer.error is not None:
        return terminal.refuse(answer.error, answer.evidence)
    if terminal.json:
        terminal.object(answer.as_json())
        return Exit.OK
    features = answer.data["features"]
    if not features:
        terminal.say('No features yet. Make one: aop call feature.init \'{"feature_id": "my_feature"}\'')
        return Exit.OK
    width = max(len(row["feature_id"]) for row in features)
    lines = [line for row in features for line in _lines(row, width)]
    if answer.data["spent"]["turns"]:
        lines.append(f"all together: {told(msgspec.convert(answer.data['spent'], Spending))}")
    # A line at a time would be a system call for each.
    terminal.text("\n".join(lines))
    return Exit.OK


def _lines(row: Mapping[str, Any], width: int) -> list[str]:
    gates = " ".join(f"{name}:{verdict}" for name, verdict in row["gates"].items() if verdict != "na")
    below = [told(msgspec.convert(row["spent"], Spending))] if row["spent"]["turns"] else []
    below += [row["status_reason"]] if row["status_reason"] else []
    below += ["paused: aop resume"] if row["paused"] else []
    below += [f"asks {question}: aop inbox" for question in row["asks"]]
    below += [f"the time of {question} is up: aop resume" for question in row["out_of_time"]]
    first = f"{row['feature_id']:<{width}}  {row['status']:<14}  {gates}".rstrip()
    return [first, *(f"{'':<{width}}  {line}" for line in below)]
