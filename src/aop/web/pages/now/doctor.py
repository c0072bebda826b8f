"""Doctor page: the checks of `aop doctor`, the worst first."""

from __future__ import annotations

from typing import Any

from aop.web.pages.frame import Visit

_WORST_FIRST = ("failure", "warning", "ok")


def doctor_facts(visit: Visit) -> dict[str, Any]:
    """Return the checks of this machine and repository, as they are now."""
    checks = [{**check, "rank": _WORST_FIRST.index(check["health"])} for check in visit.door.examine()]
    return {
        "checks": checks,
        "failures": sum(check["health"] == "failure" for check in checks),
        "warnings": sum(check["health"] == "warning" for check in checks),
    }
