"""What `aop ticket` prints of runs, for people: how each ended, and what came of every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from aop.core.text.visible import visible
from aop.tickets.comments import DOING

MOST_CHARS = 160

_STATES = {
    "active": "has not ended: the same command goes on with it",
    "broken": "a part of AOP broke",
    "failed": "failed; the ticket says what to do",
    "scaffolded": "its merge request is open",
    "branch_exists": "the branch existed, nothing was written",
    "reviewed": "the review is done",
}


def runs_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return one line for each run, the newest first."""
    if not runs:
        return "No ticket was worked on yet."
    lines = [
        f"{each['run_id']:<28} {each['state']:<14} {each['began']}  {_STATES.get(each['state'], '')}" for each in runs
    ]
    return "\n".join(visible(line.rstrip()) for line in lines)


def run_text(run: Mapping[str, Any]) -> str:
    """Return a run with what came of each step."""
    told = _STATES.get(run["state"], "")
    lines = [
        f"{run['run_id']}: {run['state']}" + (f" ({told})" if told else ""),
        f"  began {run['began']}, ended {run['ended'] or 'not yet'}",
        f"  ticket: {_brief((run['payload'] or {}).get('summary') or 'not read yet')}",
        "",
    ]
    for step in run["steps"]:
        lines += _step_lines(step)
    return "\n".join(map(visible, [*lines, "", "`--json` has all that each step returned."]))


def _step_lines(step: Mapping[str, Any]) -> Iterator[str]:
    name, outcome = step["name"], step["outcome"]
    doing = DOING.get(name.rpartition(".")[2], "")
    error = outcome.get("error")
    came = f"FAILED: {error['message']}" if error else _brief(outcome.get("value"))
    yield f"  {step['at']}  {name:<24}{doing + ': ' if doing else ''}{came}"
    details = error.get("details") if error else None
    for hint in details.get("suggested_next_actions", ()) if isinstance(details, Mapping) else ():
        yield f"  {'':<26}What to do: {hint}"


def _brief(value: Any) -> str:
    if value is None:
        return "done"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = " ".join(text.split()) or "nothing"
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]} ..."
