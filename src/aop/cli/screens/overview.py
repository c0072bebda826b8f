"""Overview: a header about the repository, and a table of its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from aop.cli.screens.styles import Screen
from aop.cli.screens.tables import Cell, Column, command_cell, join_wrapped, table
from aop.core.clock import age, span_since
from aop.core.text.counts import count
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.spending import marks_of, spending_text
from aop.kernel.tools.report.standings import ON_ITS_WAY
from aop.wiring.build import App
from aop.wiring.supervisor_lease import leases_of

COLUMNS = (
    Column(title="FEATURE", shrinks=True),
    Column(title="STATUS"),
    Column(title="CHANGED"),
    Column(title="GATES", from_width=110),
    Column(title="COST", right=True),
    Column(title="NOW"),
)
STYLE_OF_STATUS = {"ready_to_merge": "green", "merged": "dim", "blocked": "yellow", "failed": "red"}
MOST_LINES = 3


class Supervision(Struct, frozen=True, kw_only=True):
    """The supervisor of a repository: alive, ended, or never started."""

    is_alive: bool = False
    pid: int = 0
    since: str = ""


class Overview(Struct, frozen=True, kw_only=True):
    """The repository, its supervisor, and the moment at which they are shown."""

    repository: str
    base_branch: str
    supervision: Supervision
    now: datetime


def read_overview(app: App) -> Overview:
    """Read what a header shows beside the dashboard."""
    kernel, leases = app.gateway.kernel, leases_of(app.root, app.record)
    holder = leases.holder()
    last = holder or leases.last_holder()
    return Overview(
        repository=app.root.name,
        base_branch=kernel.config().policy.worktree.base_branch,
        supervision=Supervision(
            is_alive=holder is not None, pid=last.pid if last else 0, since=last.since if last else ""
        ),
        now=kernel.clock.now(),
    )


def header_lines(overview: Overview, dashboard: Mapping[str, Any], screen: Screen) -> list[str]:
    """Return repository, base branch, supervisor, features by status and total cost."""
    counts = {status: number for status, number in dashboard["counts"].items() if number}
    total = count(sum(counts.values()), "feature")
    by_status = ", ".join(f"{number} {status}" for status, number in counts.items())
    parts = [
        f"{total}: {by_status}" if counts else total,
        spending_text(msgspec.convert(dashboard["spent"], Spending)),
    ]
    return frame_lines(overview, parts, screen, dashboard["features"])


def frame_lines(
    overview: Overview, parts: Sequence[str], screen: Screen, rows: Sequence[Mapping[str, Any]] = ()
) -> list[str]:
    """Return the repository, its supervisor and some parts of a header, as lines that fit."""
    repository = _visible(f"{overview.repository} on {overview.base_branch}")
    shown = [part for part in (repository, supervisor_text(overview, rows), *parts) if part]
    return [screen.paint("bold", line) for line in join_wrapped(shown, screen.width)]


def supervisor_text(overview: Overview, rows: Sequence[Mapping[str, Any]]) -> str:
    """Say whether a supervisor works, and what to do if one ended before its work was done."""
    found = overview.supervision
    if found.is_alive:
        since = span_since(found.since, overview.now)
        return f"supervisor {found.pid}, for {since}" if since else "supervisor starting"
    left = sum(_is_left(overview, row) for row in rows)
    if left and found.pid:
        return f"supervisor {found.pid} is dead, {count(left, 'feature')} unfinished: aop resume"
    return "no supervisor"


def feature_table(overview: Overview, rows: Sequence[Mapping[str, Any]], screen: Screen) -> list[str]:
    """Return one row for each feature: who works on it, or why it waits, and the command for a person."""
    return table(COLUMNS, [_cells(overview, row) for row in rows], screen.width, screen.paint)


def now_cell(overview: Overview, row: Mapping[str, Any]) -> Cell:
    """Return who works on a feature, or why it waits and the command for a person."""
    turn = row["at_work"]
    if turn and (overview.supervision.is_alive or turn["role"] == "swe"):
        agent = turn["provider"] if turn["model"] is None else f"{turn['provider']}/{turn['model']}"
        return Cell(_visible(f"{turn['role']}: {agent}, {span_since(turn['since'], overview.now)}"), "cyan")
    if row["gates_at_work"]:
        gates = row["gates_at_work"]
        return Cell(_visible(f"{gates['step']}, {span_since(gates['since'], overview.now)}"), "cyan")
    style = "red" if row["status"] == "failed" else "yellow" if row["next_command"] else ""
    if _is_left(overview, row):
        return Cell("Stopped" if turn else _visible(row["waits"]), style, (command_cell("aop resume"),), MOST_LINES)
    return Cell(_visible(row["waits"]), style, (command_cell(row["next_command"]),), MOST_LINES)


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    # Most texts are plain, and `aop status` is typed often.
    from aop.core.text.visible import visible

    return visible(text)


def _is_left(overview: Overview, row: Mapping[str, Any]) -> bool:
    """Tell whether a feature could go on if a supervisor were there."""
    return not overview.supervision.is_alive and row["status"] in ON_ITS_WAY and not row["next_command"]


def _cells(overview: Overview, row: Mapping[str, Any]) -> list[Cell]:
    return [
        Cell(row["feature_id"], "bold"),
        Cell(row["status"], STYLE_OF_STATUS.get(row["status"], "")),
        Cell(age(row["changed_at"], overview.now), "dim"),
        Cell(gates_text(row["gates"])),
        Cell(_cost_text(row["spent"])),
        now_cell(overview, row),
    ]


def gates_text(gates: Mapping[str, str]) -> str:
    """Return the verdicts of the gates that have one."""
    return " ".join(f"{name}:{verdict}" for name, verdict in gates.items() if verdict != "na")


def _cost_text(spent: Mapping[str, Any]) -> str:
    if not spent["turns"]:
        return "-"
    known = spent["cost_usd"]["known"]
    marks = marks_of(msgspec.convert(spent, Spending))
    return " ".join(["unknown" if known is None else f"{known:.2f} USD", *marks])
