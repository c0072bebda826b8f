"""Evidence of contracts: versions, batches and builds are what the journal says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aop.core.digests import sha256_hex
from aop.core.errors import EvidenceBroken, Fault
from aop.forge.contracts.types import ContractType
from aop.forge.projects.documents import (
    ContractBatch,
    ContractVersion,
    ForgeBuild,
    ForgeProject,
    batch_digest,
    batch_key,
    contract_key,
)
from aop.kernel.record.documents.base import Document, digest_of
from aop.kernel.record.port import Event, Snapshot

KINDS = ("project_begun", "contracts_stored", "contracts_pinned", "project_deleted")


def prove_contracts(view: Snapshot) -> Mapping[str, int]:
    """Return how many versions, batches and builds match the journal, whose chain is intact. Raises: EvidenceBroken."""
    journal = _JournalFacts()
    for entry in view.journal(kinds=KINDS):
        journal.take(entry.event)
    proven = {"contracts": 0, "batches": 0, "builds": 0}
    try:
        _check_projects(view, journal)
        for name, document, key in _documents(view, journal.owners):
            _check_document(document, key, journal.digests)
            proven[name] += 1
    except Fault as fault:
        raise EvidenceBroken(str(fault), kind="unreadable") from fault
    if journal.digests:
        raise _broken("missing", f"The {min(journal.digests)} is missing from the record")
    return proven


class _JournalFacts:
    """The projects in the journal, and the digests of all that may never change."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self.batches: dict[str, int] = {}
        self.digests: dict[str, str] = {}
        """By kind and key, as messages name them; taken out when found."""
        self.deleted: set[str] = set()
        self._of_project: dict[str, list[str]] = {}

    def take(self, event: Event) -> None:
        payload: Any = event.payload
        project = payload["project_id"]
        if event.kind == "project_begun":
            self.owners[project] = payload["owner"]
        elif event.kind == "contracts_pinned":
            self._expect(project, _name(ForgeBuild, payload["build_id"]), payload["document"])
        elif event.kind == "project_deleted":
            self._forget(project)
        else:
            self.batches[project] = payload["batch"]
            for name, digest in payload["documents"].items():
                self._expect(project, _named_document(project, name, payload), digest)

    def _expect(self, project: str, name: str, digest: str) -> None:
        self.digests[name] = digest
        self._of_project.setdefault(project, []).append(name)

    def _forget(self, project: str) -> None:
        """Expect nothing more of a project that a person deleted; documents of it would be found as unrecorded."""
        self.deleted.add(project)
        self.batches.pop(project, None)
        for name in self._of_project.pop(project, ()):
            del self.digests[name]


def _named_document(project: str, name: str, payload: Any) -> str:
    if name == "batch":
        return _name(ContractBatch, batch_key(project, payload["batch"]))
    return _name(ContractVersion, contract_key(project, ContractType(name), payload["contracts"][name]))


def _name(shape: type[Document], key: str) -> str:
    return f"{shape.kind} `{key}`"


def _check_projects(view: Snapshot, journal: _JournalFacts) -> None:
    found = {project.project_id: project for project in view.all(ForgeProject)}
    for name, owner in journal.owners.items():
        project = found.pop(name, None)
        if project is None:
            raise _broken("missing", f"The project `{name}` is missing from the record")
        if bool(project.deleted_at) is not (name in journal.deleted):
            raise _broken(
                "changed", f"The project `{name}` is deleted in the record or in the journal, and not in both"
            )
        if (project.owner, project.batch) != (owner, journal.batches.get(name, 0)):
            raise _broken("changed", f"The project `{name}` does not have the owner and the batch of the journal")
    if found:
        raise _broken("missing", f"The journal has no entry for the project `{min(found)}`")


def _documents(view: Snapshot, projects: Mapping[str, str]) -> Iterator[tuple[str, Document, str]]:
    for project in projects:
        for version in view.all(ContractVersion, f"{project}/"):
            yield "contracts", version, contract_key(project, version.contract_type, version.number)
        for batch in view.all(ContractBatch, f"{project}/"):
            yield "batches", batch, batch_key(project, batch.number)
    for build in view.all(ForgeBuild):
        yield "builds", build, build.build_id


def _check_document(document: Document, key: str, digests: dict[str, str]) -> None:
    name = _name(type(document), key)
    recorded = digests.pop(name, None)
    if recorded is None:
        raise _broken("missing", f"The journal has no entry for the {name}")
    if recorded != digest_of(document) or not _holds_its_digest(document):
        raise _broken("changed", f"The {name} is not the one that the journal recorded")


def _holds_its_digest(document: Document) -> bool:
    if isinstance(document, ContractVersion):
        return document.sha256 == sha256_hex(document.content.encode())
    if isinstance(document, ContractBatch):
        return document.sha256 == batch_digest(document.contracts)
    return True


def _broken(kind: str, message: str) -> EvidenceBroken:
    return EvidenceBroken(f"{message}.", kind=kind)
