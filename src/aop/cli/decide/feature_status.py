"""Feature status: one feature in full, with a person's next command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from aop.cli.screens.overview import STYLE_OF_STATUS, Overview, gates_text, now_cell
from aop.cli.screens.styles import Screen
from aop.cli.screens.tables import wrap
from aop.core.clock import age
from aop.core.text.visible import visible, visible_name
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.spending import spending_text

LABEL = 10


def feature_lines(data: Mapping[str, Any], overview: Overview, screen: Screen) -> list[str]:
    """Lay out a feature: each fact has a label, and long texts are wrapped beside it."""
    return [line for label, text, style in _facts(data, overview) for line in _fact_lines(label, text, style, screen)]


def _fact_lines(label: str, text: str, style: str, screen: Screen) -> Iterator[str]:
    for number, line in enumerate(wrap(" ".join(text.split()), max(screen.width - LABEL, 1))):
        yield f"{'' if number else label:<{LABEL}}{screen.paint(style, line)}".rstrip()


def _facts(data: Mapping[str, Any], overview: Overview) -> Iterator[tuple[str, str, str]]:
    row, state, now = data["row"], data["state"], now_cell(overview, data["row"])
    yield "Feature", row["feature_id"], "bold"
    status = f"{row['status']}, changed {age(row['changed_at'], overview.now)}"
    yield "Status", status, STYLE_OF_STATUS.get(row["status"], "")
    if state.get("spec"):
        yield "Spec", visible_name(state["spec"]["source_path"]), ""
    if now.text:
        yield "Now", now.text, now.style
    yield from _plan_facts(data)
    yield "Gates", gates_text(row["gates"]) or "none has run", ""
    if row["locks"]:
        yield "Locks", ", ".join(map(visible, row["locks"])), ""
    yield "Cost", spending_text(msgspec.convert(row["spent"], Spending)) or "no turn yet", ""
    yield "Worktree", f"{state['worktree_path']}, branch {state['branch']}", ""
    yield "Base", f"{data['base_branch']} at {state['base_commit'][:12]}", ""
    for number, missing in enumerate(data["missing"] if row["status"] == "ready_to_merge" else ()):
        yield "" if number else "Blocking", visible(missing["message"]), "yellow"
    for command in (phrase.text for phrase in now.more if phrase.text):
        yield "Next", command, "bold"


def _plan_facts(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    plan = data["agent_text"]
    if plan is None:
        yield "Plan", "none yet", ""
        return
    yield f"Plan {plan['plan_version']}", visible(" ".join(plan["summary"].split())), ""
    files = data["changed_files"]
    yield "Changed", ", ".join(visible_name(file["path"]) for file in files) or "no file yet", ""
