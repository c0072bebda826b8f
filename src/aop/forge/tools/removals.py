"""Removals: a person deletes a project, `aop gc` what nothing reads again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import Json, VersionConflict
from aop.forge.projects.deletion import delete_project, documents_of, refuse_pinned
from aop.forge.projects.documents import ContractBatch, ContractVersion, ForgeProject, ScoutRun
from aop.forge.projects.old_documents import SHAPES, OldKind, old_documents
from aop.forge.projects.owners import the_project
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS, SYSTEM
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot, Transaction


class DropDocument(Arguments, frozen=True, kw_only=True):
    kind: OldKind
    """The kind of document."""
    key: Annotated[str, Meta(min_length=1, max_length=300)]
    """The artifact as `project:ID:TYPE:NAME`, the token of the session, or the scan."""


class Dropped(Struct, frozen=True, kw_only=True):
    kind: str
    """The kind of document."""
    key: str
    """The artifact, the token of the session, or the scan."""
    dropped: bool
    """False if it is gone already, or is used again meanwhile."""


class DeleteProject(ProjectArguments, frozen=True, kw_only=True):
    dry_run: bool = True
    """Only say what would be removed."""
    expected_version: Annotated[int, Meta(ge=1)] | None = None
    """The version of the project that was looked at; the call is refused if it has changed."""
    abandon_builds: bool = False
    """Remove also builds that pinned its contracts and have not begun; their agents can read nothing more."""


class DeletedProject(Struct, frozen=True, kw_only=True):
    project_id: str
    """The project; its id is not used again."""
    name: str
    """Its name, as its owner wrote it."""
    version: int
    """The version of the project that was looked at."""
    scans: int
    """The number of its scans."""
    contracts: int
    """The number of its contract versions."""
    batches: int
    """The number of its batches."""
    builds: tuple[str, ...]
    """The builds that pinned its contracts."""
    deleted: bool
    """False for a dry run."""


def delete(call: Call, arguments: DeleteProject, tx: Transaction) -> Outcome:
    """Remove all documents of a project in one transaction; the journal keeps what happened."""
    project = the_project(tx, arguments.project_id, call.principal)
    if arguments.expected_version not in (None, project.version):
        what = f"The project `{project.project_id}`"
        raise VersionConflict(
            what,
            expected=arguments.expected_version or 0,
            current=project.version,
            hint=f"Look at it again: `aop forge delete {project.project_id}`.",
        )
    found = documents_of(tx, project)
    _refuse_builds(tx, project, found.builds, abandon=arguments.abandon_builds)
    figures: dict[str, int] = {
        "scans": found.number_of(ScoutRun),
        "contracts": found.number_of(ContractVersion),
        "batches": found.number_of(ContractBatch),
    }
    if not arguments.dry_run:
        delete_project(tx, project, found, now=call.kernel.now())
        facts: dict[str, Json] = {"project_id": project.project_id, "builds": [*found.builds], **figures}
        tx.append(call.event("project_deleted", None, **facts))
    return DeletedProject(
        project_id=project.project_id,
        name=project.name,
        version=project.version,
        builds=found.builds,
        deleted=not arguments.dry_run,
        **figures,
    )


def _refuse_builds(view: Snapshot, project: ForgeProject, builds: Sequence[str], *, abandon: bool) -> None:
    """Refuse for builds that have begun, each a feature, and for those that only pin. Raises: ForgeProjectPinned."""
    begun = [build for build in builds if view.get(FeatureState, build) is not None]
    commands = ", ".join(f"`aop delete {build}`" for build in begun)
    refuse_pinned(project, begun, hint=f"These builds have begun. Abandon and delete each of them first: {commands}.")
    if not abandon:
        refuse_pinned(project, builds)


def drop(call: Call, arguments: DropDocument, tx: Transaction) -> Outcome:
    """Remove a document, unless it is used again meanwhile."""
    kind, key = arguments.kind, arguments.key
    is_old = (kind, key) in old_documents(tx, call.kernel.clock.now())
    if is_old:
        tx.remove(SHAPES[kind], key)
        tx.append(call.event("leftover_removed", None, what=kind, name=key, ref=None))
    return Dropped(kind=kind, key=key, dropped=is_old)


TOOLS = (
    Tool(
        name="forge.project_delete",
        summary="Delete a project with its answers, scans, contracts and artifacts; the journal keeps its history.",
        arguments=DeleteProject,
        output=DeletedProject,
        roles=COORDINATORS,
        run=committed(delete),
        mutates=True,
        brief=True,
        person_only=True,
    ),
    Tool(
        name="forge.leftover_drop",
        summary="Remove an artifact whose day is over, the session of a token that is not valid, or an old scan.",
        arguments=DropDocument,
        output=Dropped,
        roles=SYSTEM,
        run=committed(drop),
        mutates=True,
        brief=True,
        idempotent=True,
        person_only=True,
    ),
)
