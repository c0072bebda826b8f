"""Deletion of a project: its documents go, its id and its journal stay.

The id is never given again, so no token, build or event of the old project is about a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from aop.core.errors import ForgeProjectPinned
from aop.forge.projects.documents import (
    AcceptedClause,
    Artifact,
    ContractBatch,
    ContractVersion,
    ForgeAnswers,
    ForgeBuild,
    ForgeProject,
    ProjectNote,
    ScoutRun,
    ScratchNote,
    artifact_key,
    batch_key,
    contract_key,
    note_key,
)
from aop.kernel.record.documents.base import Document, revise
from aop.kernel.record.port import Snapshot, Transaction


class ProjectDocuments(Struct, frozen=True, kw_only=True):
    """The keys of all that belongs to a project, by shape."""

    keys: tuple[tuple[type[Document], str], ...]
    builds: tuple[str, ...]

    def number_of(self, shape: type[Document]) -> int:
        """Return how many documents of a shape there are."""
        return sum(each is shape for each, _ in self.keys)


def documents_of(view: Snapshot, project: ForgeProject) -> ProjectDocuments:
    """Return what a deletion of the project removes."""
    builds = tuple(each.build_id for each in view.all(ForgeBuild) if each.project_id == project.project_id)
    return ProjectDocuments(keys=tuple(_keys(view, project.project_id, builds)), builds=builds)


def refuse_pinned(project: ForgeProject, builds: Sequence[str], hint: str | None = None) -> None:
    """Refuse while a build reads the contracts of the project. Raises: ForgeProjectPinned."""
    if builds:
        raise ForgeProjectPinned(
            f"The contracts of `{project.project_id}` are pinned by: {', '.join(builds)}.",
            hint=hint,
            project_id=project.project_id,
            builds=[*builds],
        )


def delete_project(tx: Transaction, project: ForgeProject, documents: ProjectDocuments, *, now: str) -> None:
    """Remove the documents of a project, and leave nothing of it but its id and its owner."""
    for shape, key in documents.keys:
        tx.remove(shape, key)
    emptied = revise(
        project,
        name=project.project_id,
        status="draft",
        flow="greenfield",
        batch=0,
        scan_run="",
        updated_at=now,
        deleted_at=now,
    )
    tx.put(emptied, project.project_id)


def _keys(view: Snapshot, project_id: str, builds: tuple[str, ...]) -> Iterator[tuple[type[Document], str]]:
    yield ForgeAnswers, project_id
    for run in view.all(ScoutRun, f"{project_id}-s"):
        if run.project_id == project_id:
            yield ScoutRun, run.run_id
    for version in view.all(ContractVersion, f"{project_id}/"):
        yield ContractVersion, contract_key(project_id, version.contract_type, version.number)
    for batch in view.all(ContractBatch, f"{project_id}/"):
        yield ContractBatch, batch_key(project_id, batch.number)
    for clause in view.all(AcceptedClause, f"{project_id}/"):
        yield AcceptedClause, f"{project_id}/{clause.clause}"
    for note in view.all(ProjectNote, f"{project_id}/"):
        yield ProjectNote, note_key(project_id, note.user_id)
    yield from _passing_keys(view, project_id, builds)


def _passing_keys(view: Snapshot, project_id: str, builds: tuple[str, ...]) -> Iterator[tuple[type[Document], str]]:
    for artifact in view.all(Artifact, artifact_key(project_id, "", "").removesuffix(":")):
        yield Artifact, artifact_key(project_id, artifact.artifact_type, artifact.name)
    for build in builds:
        yield ForgeBuild, build
        for note in view.all(ScratchNote, f"{build}/"):
            yield ScratchNote, f"{build}/{note.name}"
