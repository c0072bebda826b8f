"""Plan page: waves of features, places that plans share, trial merges and locks."""

from __future__ import annotations

from typing import Any

from aop.web.pages.frame import Visit

MOST_PLACES = 200


def plan_facts(visit: Visit) -> dict[str, Any]:
    """Return what the page of plans shows."""
    scan, waves = visit.ask("collisions.scan"), visit.ask("plan.waves")
    places = scan["collisions"][:MOST_PLACES]
    names = sorted({holder["feature_id"] for place in places for holder in place["holders"]})
    matrix = [(place, {holder["feature_id"]: holder for holder in place["holders"]}) for place in places]
    return {
        "waves": waves,
        "scan": scan,
        "names": names,
        "matrix": matrix,
        "left_out": len(scan["collisions"]) - len(places),
        "going": sum(len(wave) for wave in waves["waves"]),
    }
