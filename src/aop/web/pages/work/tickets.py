"""Tickets page: runs of tickets step by step, and what a dry run would write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from aop.tickets.comments import STEP_PURPOSES
from aop.web.pages.frame import Visit

MOST_RUNS = 200
LONGEST_RESULT = 4000
WRITES = frozenset(
    {
        "report_start",
        "report_existing",
        "create_branch",
        "commit",
        "open_merge_request",
        "update_description",
        "report_success",
        "move_ticket",
        "publish_review",
        "approve",
        "report_failure",
        "roll_back",
        "report_recovery",
    }
)
"""The steps that write into the systems of the ticket."""
_TEXTS = ("text", "addition", "description", "message")
"""The fields of a write that people will read as they are."""


class StepRow(Struct, frozen=True, kw_only=True):
    """One step of a run."""

    name: str
    purpose: str
    at: str
    writes: bool
    error: Mapping[str, Any] | None
    hints: tuple[str, ...]
    result: str
    left_out: int
    """The number of characters of the result that are not shown."""


class PlannedWrite(Struct, frozen=True, kw_only=True):
    """One write that a dry run noted."""

    operation: str
    where: tuple[tuple[str, str], ...]
    """Its other fields."""
    text: str
    """The text as it will look."""
    files: tuple[tuple[str, str], ...] = ()
    """The path and the content of each file of a commit."""


class DryRun(Struct, frozen=True, kw_only=True):
    """The last dry run of a kind of work on a ticket."""

    kind: str
    ticket: str
    at: str
    step: str
    """The step at which the real run would fail; empty if it would not."""
    error: Mapping[str, Any] | None
    writes: tuple[PlannedWrite, ...]
    command: str
    """The command of the real run."""


def tickets_facts(visit: Visit) -> dict[str, Any]:
    """Return the runs, and the last dry run of each ticket."""
    runs = visit.door.tickets.runs()
    return {
        "runs": runs[:MOST_RUNS],
        "left_out": max(0, len(runs) - MOST_RUNS),
        "dry_runs": [_dry_run(each) for each in visit.door.tickets.dry_runs()[:MOST_RUNS]],
    }


def ticket_run_facts(visit: Visit) -> dict[str, Any]:
    """Return one run with its steps. Raises: TicketRunNotFound."""
    run = visit.door.tickets.run(visit.path["run_id"])
    return {"run": run, "ticket": run["payload"] or {}, "steps": [_step(each) for each in run["steps"]]}


def _step(step: Mapping[str, Any]) -> StepRow:
    outcome, plain = step["outcome"], step["name"].rpartition(".")[2]
    error = outcome.get("error")
    details = error.get("details") if error else None
    hints = details.get("suggested_next_actions", ()) if isinstance(details, Mapping) else ()
    text = "" if error else _text(outcome.get("value"))
    return StepRow(
        name=step["name"],
        purpose=STEP_PURPOSES.get(plain, ""),
        at=step["at"],
        writes=plain in WRITES,
        error=error,
        hints=tuple(map(str, hints)),
        result=text[:LONGEST_RESULT],
        left_out=max(0, len(text) - LONGEST_RESULT),
    )


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "", True: "yes", False: "no"}[value]
    return value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _dry_run(found: Mapping[str, Any]) -> DryRun:
    result = found["result"]
    return DryRun(
        kind=found["kind"],
        ticket=found["ticket"],
        at=found["at"],
        step=result["step"] or "",
        error=result["error"],
        writes=tuple(_write(each) for each in result["writes"]),
        command=f"aop ticket {found['kind']} {found['ticket']}",
    )


def _write(write: Mapping[str, Any]) -> PlannedWrite:
    shown = next((name for name in _TEXTS if isinstance(write.get(name), str)), "")
    return PlannedWrite(
        operation=write["operation"],
        where=tuple(_where(write, shown)),
        text=write.get(shown, "") if shown else "",
        files=tuple((each["path"], _shortened(_text(each.get("content")))) for each in _files(write)),
    )


def _files(write: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the files of a commit; a write of another shape has none."""
    files = write.get("files")
    return files if isinstance(files, list) and all("path" in each for each in files) else []


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_RESULT else f"{text[:LONGEST_RESULT]}..."


def _where(write: Mapping[str, Any], shown: str) -> Iterator[tuple[str, str]]:
    told = {"operation", shown, "files" if _files(write) else ""}
    for name, value in write.items():
        if name not in told and value is not None:
            yield name, _shortened(_text(value))
