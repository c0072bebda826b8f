"""Tool `forge.pin`: a build begins with the contracts as they are now."""

from __future__ import annotations

from aop.core.structs import copy_fields
from aop.forge.projects.batches import the_newest_batch
from aop.forge.projects.documents import ForgeBuild, ForgeProject
from aop.forge.projects.owners import the_project
from aop.forge.tools.facts import BuildFacts
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.gateway.calls import Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import digest_of, revise
from aop.kernel.record.port import Transaction


class PinnedBuild(BuildFacts, frozen=True, kw_only=True):
    project_id: str
    """The project."""


def pin(call: Call, arguments: ProjectArguments, tx: Transaction) -> Outcome:
    """Make a build that reads the newest batch from now on, whatever is edited later (FORGE-095)."""
    project = the_project(tx, arguments.project_id, call.principal)
    return copy_fields(PinnedBuild, pin_contracts(call, tx, project))


def pin_contracts(call: Call, tx: Transaction, project: ForgeProject) -> ForgeBuild:
    """Store the next build of a project with its newest batch. Raises: NoContracts."""
    batch, now = the_newest_batch(tx, project), call.kernel.now()
    build = ForgeBuild(
        version=1,
        build_id=next_build_id(project),
        project_id=project.project_id,
        batch=batch.number,
        sha256=batch.sha256,
        pinned_at=now,
    )
    tx.put(build, build.build_id)
    tx.put(revise(project, build_count=project.build_count + 1, updated_at=now), project.project_id)
    facts = {"project_id": project.project_id, "build_id": build.build_id, "document": digest_of(build)}
    tx.append(call.event("contracts_pinned", None, batch=batch.number, sha256=batch.sha256, **facts))
    return build


def next_build_id(project: ForgeProject) -> str:
    """Return the id of the next build: no two projects make the same, it begins with the one and ends with a number."""
    return f"{project.project_id}-b{project.build_count + 1}"


TOOLS = (
    Tool(
        name="forge.pin",
        summary="Make a build that keeps reading the contracts of a project as they are now.",
        arguments=ProjectArguments,
        output=PinnedBuild,
        roles=COORDINATORS,
        run=committed(pin),
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
