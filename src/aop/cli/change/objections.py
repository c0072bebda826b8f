"""Objections: the common part of `aop request-changes` and `aop reject`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from aop.cli.shell.repository import call_tool, open_app
from aop.cli.shell.terminal import Terminal
from aop.core.text.counts import count
from aop.wiring.supervisor_lease import lease_holder

SAID = {
    "changes": "Requested changes of {feature_id}: {was} -> {status}. The next {worker}'s turn gets {what}.",
    "rejection": "Rejected the approach of {feature_id}: {was} -> {status}. The next planner's turn gets the reason.",
}


def send_objection(arguments: argparse.Namespace, terminal: Terminal, tool: str, said: Mapping[str, str]) -> int:
    """Record an objection, and say how the feature continues."""
    with open_app(arguments) as app:
        answer = call_tool(app, tool, {"feature_id": arguments.feature, **said})
        holder = lease_holder(app.root, app.record)
    return terminal.answer(answer, lambda sent: _show(sent, holder.pid if holder else None, terminal))


def _show(sent: Mapping[str, Any], supervisor: int | None, terminal: Terminal) -> None:
    is_rejection = sent["sent"][-1]["kind"] == "rejection"
    comments = len(sent["sent"]) - (sent["request"] is not None)
    told = [*([count(comments, "comment")] if comments else []), *(["the text"] if sent["request"] else [])]
    worker = "planner" if sent["status"] == "planning" else "builder"
    said = SAID["rejection" if is_rejection else "changes"]
    terminal.say(said.format(**sent, worker=worker, what=" and ".join(told)))
    if is_rejection:
        terminal.say(f"Its tree is kept as refs/aop/undone/{sent['feature_id']}/{sent['before']}")
    for question in sent["open_questions"]:
        terminal.say(f"It waits for an answer first: aop answer {question} TEXT")
    if supervisor is None:
        terminal.say("Continue with: aop resume")
    else:
        terminal.say(f"Process {supervisor} continues it. Watch with: aop watch")
