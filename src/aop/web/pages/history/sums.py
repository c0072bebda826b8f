"""Sums pages: the cost and the time of the work, with plots of their figures."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec

from aop.core.clock import duration
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.spending import tokens_of
from aop.web.pages.frame import Visit
from aop.web.pages.history.plots import bar_plot, line_plot

SIDES = (("runs", "run"), ("features", "feature"), ("roles", "role"), ("models", "model"), ("days", "day"))


def cost_facts(visit: Visit) -> dict[str, Any]:
    """Return what the page of costs shows; an unknown cost is no bar, and is named in the table."""
    costs = visit.ask("report.costs")
    days = costs["days"]
    known = [row["spent"]["cost_usd"]["known"] or 0.0 for row in days]
    return {
        "costs": costs,
        "sides": [
            (side, word, [(row["name"], _spending(row["spent"])) for row in costs[side]]) for side, word in SIDES
        ],
        "total": _spending(costs["total"]),
        "tokens_of": tokens_of,
        "by_day": line_plot([row["name"] for row in days], [("USD so far", list(accumulate(known)))]),
        "by_feature": bar_plot(
            [
                (row["name"], row["spent"]["cost_usd"]["known"], f"{row['spent']['cost_usd']['known']:.2f} USD")
                for row in costs["features"]
                if row["spent"]["cost_usd"]["known"] is not None
            ]
        ),
    }


def _spending(answer: Any) -> Spending:
    return msgspec.convert(answer, Spending)


def time_facts(visit: Visit) -> dict[str, Any]:
    """Return what the page of times shows."""
    times = visit.ask("report.times")
    days = times["days"]
    return {
        "times": times,
        "duration": duration,
        "burn_up": line_plot(
            [row["day"] for row in days],
            [("begun", [row["begun"] for row in days]), ("merged", [row["merged"] for row in days])],
        ),
        "by_status": bar_plot(
            [(name.replace("_", " "), seconds, duration(seconds)) for name, seconds in times["statuses"].items()]
        ),
        "by_gate": bar_plot(
            [
                (f"{row['mode']} {row['step']}".strip(), row["median_seconds"], f"{row['median_seconds']:g} s")
                for row in times["gates"]
                if row["step"]
            ]
        ),
    }
