"""Texts of `aop ticket` about runs and their steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from aop.core.text.visible import visible
from aop.tickets.comments import STEP_PURPOSES

MOST_CHARS = 160

_STATES = {
    "active": "not ended; the same command continues it",
    "broken": "AOP broke; see its log",
    "failed": "see the comment on the ticket",
    "scaffolded": "the merge request is open",
    "branch_exists": "the branch existed, nothing was written",
    "reviewed": "the review is done",
}


def runs_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return one line for each run, the newest first."""
    if not runs:
        return "There are no ticket runs yet."
    lines = [
        f"{each['run_id']:<28} {each['state']:<14} {each['began']}  {_STATES.get(each['state'], '')}" for each in runs
    ]
    return "\n".join(visible(line.rstrip()) for line in lines)


def run_text(run: Mapping[str, Any]) -> str:
    """Return a run with the result of each step."""
    meaning = _STATES.get(run["state"], "")
    lines = [
        f"{run['run_id']}: {run['state']}" + (f" ({meaning})" if meaning else ""),
        f"  began {run['began']}, ended {run['ended'] or 'not yet'}",
        f"  ticket: {_brief((run['payload'] or {}).get('summary') or 'not read yet')}",
        "",
    ]
    for step in run["steps"]:
        lines += _step_lines(step)
    return "\n".join(map(visible, [*lines, "", "For the complete results add: --json"]))


def _step_lines(step: Mapping[str, Any]) -> Iterator[str]:
    name, outcome = step["name"], step["outcome"]
    purpose = STEP_PURPOSES.get(name.rpartition(".")[2], "")
    error = outcome.get("error")
    result = f"FAILED: {error['message']}" if error else _brief(outcome.get("value"))
    yield f"  {step['at']}  {name:<24}{purpose + ': ' if purpose else ''}{result}"
    details = error.get("details") if error else None
    for hint in details.get("suggested_next_actions", ()) if isinstance(details, Mapping) else ():
        yield f"  {'':<26}To fix it: {hint}"


def _brief(value: Any) -> str:
    if value is None:
        return "done"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = " ".join(text.split()) or "nothing"
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]} ..."
