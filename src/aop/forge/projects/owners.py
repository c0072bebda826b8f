"""Owners: every read of a project or a build checks whose it is.

A project that is not the caller's is answered like one that does not exist, so that no id can be found out by trying.
"""

from __future__ import annotations

from collections.abc import Iterator

from aop.core.errors import UnknownForgeBuild, UnknownForgeProject, UnknownScanRun
from aop.forge.projects.documents import ForgeBuild, ForgeProject, ScoutRun
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.port import Snapshot


def the_project(view: Snapshot, project_id: str, principal: Principal) -> ForgeProject:
    """Return a project that the caller may reach. Raises: UnknownForgeProject."""
    project = view.get(ForgeProject, project_id)
    if project is None or not may_reach(principal, project):
        raise UnknownForgeProject(project_id, (each.project_id for each in own_projects(view, principal)))
    return project


def the_build(view: Snapshot, build_id: str, principal: Principal) -> ForgeBuild:
    """Return a build that the caller may reach. Raises: UnknownForgeBuild."""
    build = view.get(ForgeBuild, build_id)
    project = None if build is None else view.get(ForgeProject, build.project_id)
    if build is None or project is None or not may_reach(principal, project) or not _may_reach_build(principal, build):
        raise UnknownForgeBuild(build_id)
    return build


def the_scan_run(view: Snapshot, run_id: str, principal: Principal) -> ScoutRun:
    """Return a scan of a project that the caller may reach. Raises: UnknownScanRun."""
    run = view.get(ScoutRun, run_id)
    project = None if run is None else view.get(ForgeProject, run.project_id)
    if run is None or project is None or not may_reach(principal, project):
        raise UnknownScanRun(run_id)
    return run


def own_projects(view: Snapshot, principal: Principal) -> Iterator[ForgeProject]:
    """Return the projects that the caller may reach, by id."""
    return (project for project in view.all(ForgeProject) if may_reach(principal, project))


def may_reach(principal: Principal, project: ForgeProject) -> bool:
    """Tell whether a project is there, the caller's, and within the reach of its token."""
    return not project.deleted_at and is_own(principal, project)


def is_own(principal: Principal, project: ForgeProject) -> bool:
    """Tell whether a project is or was the caller's, and within the reach of its token."""
    return project.owner == principal.user and principal.project in (None, project.project_id)


def _may_reach_build(principal: Principal, build: ForgeBuild) -> bool:
    return principal.build in (None, build.build_id)
