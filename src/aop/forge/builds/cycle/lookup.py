"""Lookup of a build cycle: by its id, for a caller that may reach its project."""

from __future__ import annotations

from collections.abc import Iterator

from aop.core.errors import BuildEnded, BuildNotBegun
from aop.core.ids import FeatureId
from aop.forge.builds.documents import BuildCycle
from aop.forge.projects.owners import the_build
from aop.kernel.gateway.principals import Principal
from aop.kernel.record.port import Snapshot

LIVING = ("active", "sealing")
"""The statuses of a cycle that is not over; a project has one such cycle at a time (FORGE-213)."""


def the_cycle(view: Snapshot, build_id: str, principal: Principal) -> BuildCycle:
    """Return the cycle of a build that the caller may reach. Raises: UnknownForgeBuild, BuildNotBegun."""
    build = the_build(view, build_id, principal)
    cycle = view.get(BuildCycle, build.build_id)
    if cycle is None:
        raise BuildNotBegun(f"The build `{build.build_id}` has not begun.", build_id=build.build_id)
    return cycle


def the_living_cycle(view: Snapshot, build_id: str, principal: Principal) -> BuildCycle:
    """Return a cycle that still takes work. Raises: UnknownForgeBuild, BuildNotBegun, BuildEnded."""
    cycle = the_cycle(view, build_id, principal)
    refuse_ended(cycle)
    return cycle


def refuse_ended(cycle: BuildCycle) -> None:
    """Refuse a cycle that is over. Raises: BuildEnded."""
    if cycle.status not in LIVING:
        raise BuildEnded(f"The build `{cycle.build_id}` is {cycle.status}.", build_id=cycle.build_id)


def ended_builds(view: Snapshot) -> frozenset[FeatureId]:
    """Return the features of builds that are sealed or abandoned."""
    return frozenset(FeatureId(cycle.build_id) for cycle in view.all(BuildCycle) if cycle.status not in LIVING)


def cycles_of(view: Snapshot, project_id: str) -> Iterator[BuildCycle]:
    """Return the cycles of a project, by id."""
    return (cycle for cycle in view.all(BuildCycle, f"{project_id}-b") if cycle.project_id == project_id)
