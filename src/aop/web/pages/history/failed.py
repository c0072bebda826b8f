"""Errors page: each failure once, with its features and a person's note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aop.web.pages.frame import Visit

TAKES_CHANGES = frozenset({"building", "qa", "ready_to_merge", "blocked"})
"""The statuses in which a feature can be given back to its builder."""


def failure_facts(visit: Visit, dashboard: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page of errors shows."""
    report = visit.ask("report.failures")
    status = {row["feature_id"]: row["status"] for row in dashboard["features"]}
    return {
        "failures": report["failures"],
        "left_out": report["left_out_runs"],
        "status": status,
        "takes_changes": TAKES_CHANGES,
        "request": failure_request,
    }


def failure_request(row: Mapping[str, Any]) -> str:
    """Return a failure as a request of changes; the words of a program are quoted as such."""
    where = f"The gate step `{row['step']}` fails" if row["step"] else "The work stopped"
    return (
        f"{where} ({row['code']}, {row['count']} times). It printed:\n> {row['summary']}\nFind the cause and mend it."
    )
