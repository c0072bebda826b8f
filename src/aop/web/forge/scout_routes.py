"""Scout routes: the renovation plan of a scan, and contracts from it."""

from __future__ import annotations

from collections.abc import Mapping

from aop.core.errors import Json, NotScanned, RenovationPlanMissing, TerminalOnly
from aop.forge.generation.inputs import inputs_of
from aop.forge.projects.http_bodies import HttpRefusal
from aop.forge.projects.keys import WRITE_SCOPE
from aop.forge.projects.owners import the_project, the_scan_run
from aop.forge.tools.renovations import PlanMade
from aop.web.forge.tool_routes import Asked, ToolRoute


def _plan_of(asked: Asked) -> Mapping[str, Json]:
    run = the_scan_run(asked.view, asked.values["run_id"], asked.holder.principal)
    return {"project_id": run.project_id, "run_id": run.run_id}


def _refuse_start(asked: Asked) -> Mapping[str, Json]:
    """Say what is missing for a generation, or where a person starts it.

    A generation asks a model and costs money: a key opens reads, and what is computed from them. Raises: always.
    """
    run = the_scan_run(asked.view, asked.values["run_id"], asked.holder.principal)
    project = the_project(asked.view, run.project_id, asked.holder.principal)
    if project.scan_run != run.run_id:
        raise NotScanned(
            f"The scan `{run.run_id}` is not the newest of `{project.project_id}`.",
            hint=f"Send the request for the scan `{project.scan_run}`.",
            run_id=project.scan_run,
        )
    try:
        inputs_of(asked.view, project)
    except RenovationPlanMissing as missing:
        route = f"POST `/scout/runs/{run.run_id}/upgrade-plan`"
        raise RenovationPlanMissing(
            f"{missing.message} It is made by {route}.", hint=f"Send {route}, then this request again.", **missing.facts
        ) from missing
    command = f"aop forge generate {project.project_id}"
    raise TerminalOnly(f"A person starts this at the terminal: {command}", hint=f"Run: {command}", command=command)


SCOUT_ROUTES: tuple[ToolRoute, ...] = (
    ToolRoute(
        method="POST",
        path="/scout/runs/{run_id}/upgrade-plan",
        summary="Make the renovation plan of a scan, from what was scanned; no package registry is asked.",
        tool="forge.plan",
        scope=WRITE_SCOPE,
        answer=PlanMade,
        arguments=_plan_of,
    ),
    ToolRoute(
        method="POST",
        path="/scout/runs/{run_id}/generate-contracts",
        summary="Say what a generation of contracts still needs (400), or which command starts it (403).",
        tool="",  # no call is made: the arguments are refused
        scope=WRITE_SCOPE,
        answer=HttpRefusal,
        arguments=_refuse_start,
        status=403,
    ),
)
