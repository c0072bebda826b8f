"""Builds page: each build with its phases, questions, errors, notes and seal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from aop.core.errors import UnknownRoute
from aop.core.ids import FeatureId
from aop.forge.builds.people.clarifications import LET_AI_DECIDE
from aop.forge.builds.people.notes import LONGEST_NOTE
from aop.kernel.record.documents.usage import FeatureUsage, Spending
from aop.kernel.record.spending import spent_on
from aop.web.pages.frame import ToolRefused, Visit
from aop.web.pages.work.build_activity import activity_of

TABS = ("activity", "changes", "errors")
MOST_BUILDS = 20
"""So many builds of a project are shown, the newest first."""


class BuildRow(Struct, frozen=True, kw_only=True):
    """One build in the list."""

    build_id: str
    project_id: str
    status: Mapping[str, Any] | None
    """The build as `forge.build_status` has it; None if it only pinned contracts."""
    spent: Spending
    pinned_at: str
    command: str


def builds_facts(visit: Visit) -> dict[str, Any]:
    """Return every project with its builds."""
    projects = visit.ask("forge.project_list")["projects"]
    return {"projects": [(each, list(_rows(visit, each["project_id"]))) for each in projects]}


def _rows(visit: Visit, project_id: str) -> Iterator[BuildRow]:
    builds = visit.ask("forge.project_show", {"project_id": project_id})["builds"]
    for each in sorted(builds, key=lambda build: build["pinned_at"], reverse=True)[:MOST_BUILDS]:
        status = _status(visit, each["build_id"])
        yield BuildRow(
            build_id=each["build_id"],
            project_id=project_id,
            status=status,
            spent=_spent(visit, each["build_id"]),
            pinned_at=each["pinned_at"],
            command=f"aop forge status {each['build_id']}" if status else f"aop forge build {project_id}",
        )


def _status(visit: Visit, build_id: str) -> Mapping[str, Any] | None:
    try:
        status: Mapping[str, Any] = visit.ask("forge.build_status", {"build_id": build_id})
    except ToolRefused as refused:
        if refused.error["code"] == "build_not_begun":
            return None
        raise
    return status


def _spent(visit: Visit, build_id: str) -> Spending:
    """Return what the turns of a build cost, as far as they reported it."""
    with visit.door.kernel.record.read() as view:
        return spent_on(view.get(FeatureUsage, FeatureId(build_id)))


def build_facts(visit: Visit) -> dict[str, Any]:
    """Return one build with the content of a tab. Raises: UnknownRoute, ToolRefused."""
    tab = visit.path.get("tab", TABS[0])
    if tab not in TABS:
        raise UnknownRoute("There is no such page.")
    which = {"build_id": visit.path["build_id"]}
    build = visit.ask("forge.build_status", which)
    asked = [each for each in visit.ask("inbox.list")["questions"] if each["feature_id"] == build["build_id"]]
    return {
        "tab": tab,
        "build": build,
        "spent": _spent(visit, build["build_id"]),
        "phases": list(_phases(build)),
        "plan": _plan(visit, build),
        "clarifications": [each for each in asked if each["detail"].get("clarification")],
        "stops": [each for each in asked if not each["detail"].get("clarification")],
        "let_ai_decide": LET_AI_DECIDE,
        "errors": visit.ask("forge.errors_list", which),
        "note": visit.ask("forge.note_get", {"project_id": build["project_id"]}),
        "longest_note": LONGEST_NOTE,
        "seal": visit.ask("forge.build_verify_seal", which) if build["status"] == "sealed" else None,
        "is_living": build["status"] in ("active", "sealing"),
        "activity": activity_of(visit, build["build_id"]) if tab == "activity" else (),
        "diff": _changes(visit, build["build_id"]) if tab == "changes" else None,
    }


def _phases(build: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Return the number, the name and the standing of each phase."""
    for number, name in enumerate(build["phases"]):
        done = number in build["signed_off"]
        is_now = number == build["phase"] and build["status"] == "active"
        yield number, name, "signed off" if done else "now" if is_now else "to do"


def _plan(visit: Visit, build: Mapping[str, Any]) -> Sequence[str]:
    """Return the tasks that the model planned for the present phase."""
    name = FeatureId(build["build_id"])
    with visit.door.kernel.record.read() as view:
        plans = [each.event.payload for each in view.journal(feature_id=name, kinds=("plan_complete",))]
    tasks = next((each["tasks"] for each in reversed(plans) if each["phase"] == build["phase"]), ())
    return tuple(map(str, tasks)) if isinstance(tasks, Sequence) else ()


def _changes(visit: Visit, build_id: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = visit.ask("repo.diff", {"feature_id": build_id, "options": {"stat": True}})
    return found
