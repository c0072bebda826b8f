"""Scan tools: `forge.scan` reads a commit, `forge.scan_show` returns it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import Json, NothingToScan, NotScanned, UnknownPackage
from aop.core.redaction.redactor import mask_json
from aop.core.text.counts import count
from aop.forge.projects.documents import ForgeProject, ScoutRun
from aop.forge.projects.owners import the_project
from aop.forge.scan.findings.architecture import map_below
from aop.forge.scan.findings.assembly import report_of
from aop.forge.scan.ports import scanner_of
from aop.forge.scan.report import Architecture, Check, ScanReport
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.gateway.calls import Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.ports.handed_in import Report
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Snapshot, Transaction

Ref = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x20\x7f-][^\x00-\x20\x7f]*$")]


class Scan(ProjectArguments, frozen=True, kw_only=True):
    ref: Ref = "HEAD"
    """A branch, a tag or a commit; its tree is read, never the checkout."""


class ScanShow(ProjectArguments, frozen=True, kw_only=True):
    path: Annotated[str, Meta(max_length=1000)] = ""
    """A folder whose packages are shown with their files, `.` for all; empty: all packages, without files."""


class ScanSummary(Struct, frozen=True, kw_only=True):
    run_id: str
    """The scan."""
    project_id: str
    """The project."""
    head_sha: str
    """The commit that was read."""
    files: int
    """The number of files in its tree."""
    files_analysed: int
    """The number of sources, manifests and lock files that were read."""
    health_grade: str
    """From A to F, by the score."""
    score: int
    """From 0 to 100, by the checks."""
    routes: int
    """The number of HTTP routes that were found."""
    tables: int
    """The number of tables that were found."""
    cycles: int
    """The number of import cycles."""
    summary: str
    """The repository in a few sentences."""
    checks: tuple[Check, ...]
    """Each check with its result and the places that decided it."""
    unknown: tuple[str, ...]
    """Facts that the scan could not find out, and why."""
    warnings: int
    """The number of warnings; `forge.scan_show` has them."""


class ScanShown(Struct, frozen=True, kw_only=True):
    run_id: str
    """The scan."""
    project_id: str
    """The project."""
    head_sha: str
    """The commit that was read."""
    created_at: str
    """When it was read."""
    results: Mapping[str, Any]
    """The whole report: metadata, stack, architecture, dossier, metrics, checks, warnings, routes, tables."""


def scan(call: Call, arguments: Scan) -> Outcome:
    """Read a commit, and record everything that follows from it in one transaction."""
    kernel, scanner = call.kernel, scanner_of(call.kernel)
    with kernel.record.read() as view:
        project = the_project(view, arguments.project_id, call.principal)
    commit = scanner.commit_named(arguments.ref)
    call.report(f"Reading the commit {commit[:12]}")
    report_step = _with_events(call, project)
    inventory = scanner.read(commit, report_step)
    if not inventory.paths:
        raise NothingToScan(f"The commit {commit[:12]} holds no file.", commit=commit)
    report_step(f"{count(len(inventory.sources), 'source file')} read; computing the report")
    report = report_of(inventory, name=project.name)
    # A report of a large repository holds few texts, many times.
    results = mask_json(msgspec.to_builtins(report), cache(kernel.redact.mask_secrets))

    def decide(tx: Transaction) -> Outcome:
        current = the_project(tx, arguments.project_id, call.principal)
        run = ScoutRun(
            version=1,
            run_id=_next_run(current),
            project_id=current.project_id,
            head_sha=commit,
            results=results if isinstance(results, Mapping) else {},
            created_at=kernel.now(),
            updated_at=kernel.now(),
        )
        tx.put(run, run.run_id)
        tx.put(revise(current, scan_run=run.run_id, flow="scout", updated_at=run.created_at), current.project_id)
        facts: dict[str, Json] = {
            "project_id": run.project_id,
            "run_id": run.run_id,
            "head_sha": commit,
            "files": report.files_analysed,
            "health_grade": report.health_grade,
        }
        tx.append(call.event("scout_complete", None, **facts))
        return _summary(run)

    return call.commit(decide)


def _with_events(call: Call, project: ForgeProject) -> Report:
    """Return what reports a step to the caller, and to all who follow the journal."""

    def report(line: str) -> None:
        call.report(line)
        with call.kernel.record.write() as tx:
            tx.append(
                call.event("scout_progress", None, project_id=project.project_id, run_id=_next_run(project), step=line)
            )

    return report


def show_scan(call: Call, arguments: ScanShow) -> Outcome:
    """Return the newest scan of a project, with its map at the level that is asked for. Raises: UnknownPackage."""
    with call.kernel.record.read() as view:
        run = the_scan(view, the_project(view, arguments.project_id, call.principal))
    try:
        part = map_below(msgspec.convert(run.results["architecture"], Architecture), arguments.path)
    except UnknownPackage as unknown:
        unknown.facts["project_id"] = run.project_id
        raise
    results = {**run.results, "architecture": msgspec.to_builtins(part)}
    return ScanShown(
        run_id=run.run_id,
        project_id=run.project_id,
        head_sha=run.head_sha,
        created_at=run.created_at,
        results=results,
    )


def the_scan(view: Snapshot, project: ForgeProject) -> ScoutRun:
    """Return the newest scan of a project. Raises: NotScanned."""
    run = view.get(ScoutRun, project.scan_run) if project.scan_run else None
    if run is None or run.scan_type != "deep" or run.status != "completed":
        raise NotScanned(f"The project `{project.project_id}` has no complete scan.", project_id=project.project_id)
    return run


def _next_run(project: ForgeProject) -> str:
    """Return the id of the next scan of a project: its own id and a number."""
    number = project.scan_run.rpartition("-s")[2]
    return f"{project.project_id}-s{int(number) + 1 if number else 1}"


def _summary(run: ScoutRun) -> ScanSummary:
    report = msgspec.convert(run.results, ScanReport)
    return ScanSummary(
        run_id=run.run_id,
        project_id=run.project_id,
        head_sha=run.head_sha,
        files=report.metadata.files,
        files_analysed=report.files_analysed,
        health_grade=report.health_grade,
        score=report.dossier.quality_assessment.score,
        routes=report.metrics.routes,
        tables=report.metrics.tables,
        cycles=report.metrics.cycles,
        summary=report.dossier.executive_summary,
        checks=report.checks,
        unknown=report.unknown,
        warnings=len(report.warnings),
    )


TOOLS = (
    Tool(
        name="forge.scan",
        summary="Read a commit of the repository: imports, routes, tables, dependencies, checks and a grade.",
        arguments=Scan,
        output=ScanSummary,
        roles=COORDINATORS,
        run=scan,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="forge.scan_show",
        summary="Return the newest scan of a project; `path` shows a part of the map with its files.",
        arguments=ScanShow,
        output=ScanShown,
        roles=COORDINATORS,
        run=show_scan,
        person_only=True,
    ),
)
