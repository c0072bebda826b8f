"""Renovation tool: `forge.plan` makes the plan of a scanned project."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from aop.core.errors import NotScanned
from aop.core.redaction.redactor import mask_json
from aop.core.text.counts import count
from aop.forge.projects.documents import ScoutRun
from aop.forge.projects.keys import WRITE_SCOPE
from aop.forge.projects.owners import the_project
from aop.forge.scan.file_facts import Dependency
from aop.forge.scan.ports import registries_of
from aop.forge.scan.renovation import RenovationPlan, plan_of
from aop.forge.scan.report import ScanReport
from aop.forge.tools.projects import ProjectArguments
from aop.forge.tools.scans import the_scan
from aop.kernel.gateway.calls import Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Snapshot, Transaction


class Plan(ProjectArguments, frozen=True, kw_only=True):
    run_id: Annotated[str, Meta(max_length=200)] = ""
    """The scan; by default the newest one of the project."""
    online: bool = False
    """Ask the registries of this machine's package managers for the newest versions."""


class PlanMade(RenovationPlan, frozen=True, kw_only=True):
    run_id: str
    """The scan that the plan follows from."""
    project_id: str
    """The project."""
    head_sha: str
    """The commit that was scanned."""


def make_plan(call: Call, arguments: Plan) -> Outcome:
    """Compute the plan from the recorded scan, and record it with the scan."""
    kernel = call.kernel
    with kernel.record.read() as view:
        run = _run(call, view, arguments)
    report = msgspec.convert(run.results, ScanReport)
    latest = None
    if arguments.online:
        packages = [
            msgspec.convert({"name": each.name, "constraint": each.constraint, "ecosystem": each.ecosystem}, Dependency)
            for each in report.dependencies
        ]
        call.report(f"Asking for the newest versions of {count(len(packages), 'package')}")
        latest = registries_of(kernel).latest(packages, call.report)
    plan = plan_of(report, today=kernel.now()[:10], latest=latest)
    stored = mask_json(msgspec.to_builtins(plan), kernel.redact.mask_secrets)

    def decide(tx: Transaction) -> Outcome:
        current = _run(call, tx, arguments)
        if current.run_id != run.run_id:
            raise NotScanned(
                f"The project `{run.project_id}` was scanned again meanwhile.", hint="Send the call again."
            )
        tx.put(revise(current, plan=stored, updated_at=kernel.now()), run.run_id)
        stats = dict(plan.summary_stats)
        tx.append(call.event("renovation_planned", None, project_id=run.project_id, run_id=run.run_id, **stats))
        fields = msgspec.structs.asdict(msgspec.convert(stored, RenovationPlan))
        return PlanMade(**fields, run_id=run.run_id, project_id=run.project_id, head_sha=run.head_sha)

    return call.commit(decide)


def _run(call: Call, view: Snapshot, arguments: Plan) -> ScoutRun:
    project = the_project(view, arguments.project_id, call.principal)
    newest = the_scan(view, project)
    if arguments.run_id in ("", newest.run_id):
        return newest
    run = view.get(ScoutRun, arguments.run_id)
    if run is None or run.project_id != project.project_id:
        raise NotScanned(f"The project `{project.project_id}` has no such scan.", project_id=project.project_id)
    return run


TOOLS = (
    Tool(
        name="forge.plan",
        summary="Make the renovation plan of a scanned project: versions, findings, tasks in their order.",
        arguments=Plan,
        output=PlanMade,
        roles=COORDINATORS,
        run=make_plan,
        mutates=True,
        person_only=True,
        key_scope=WRITE_SCOPE,
    ),
)
