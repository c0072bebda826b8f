"""Remote record: the forge documents of another AOP, for the tools that read.

The tools are the same ones as at home: they ask this record for a project, a build, a batch, a contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from aop.adapters.storage.forge_api.client import ForgeClient
from aop.core.errors import Fault
from aop.forge.projects.documents import (
    BatchEntry,
    ContractBatch,
    ContractVersion,
    ForgeBuild,
    ForgeProject,
)
from aop.forge.projects.http_bodies import HttpBatch, HttpBatchContract, HttpBuild, HttpContext
from aop.kernel.record.documents.base import Document
from aop.kernel.record.port import Event, Snapshot, Transaction

D = TypeVar("D", bound=Document)


class RemoteRecord:
    """Implements `Record` for reading; that a contract was fetched is noted by the server."""

    def __init__(self, client: ForgeClient) -> None:
        self._client = client

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        """Look at the other AOP."""
        yield cast("Snapshot", _RemoteView(self._client))

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Transaction]:
        """Take notes of fetches, and drop them; nothing else is written from here."""
        if durable:
            raise Fault("Another AOP is only read.")
        yield cast("Transaction", _DroppedNotes())


class _DroppedNotes:
    def append(self, _event: Event) -> None:
        """Drop a note."""


class _RemoteView:
    """Implements the part of `Snapshot` that the read tools use, within one call."""

    def __init__(self, client: ForgeClient) -> None:
        self._client = client
        self._seen: dict[tuple[type[Document], str], Document | None] = {}

    def get(self, shape: type[D], key: str) -> D | None:
        # One call sees one state: what it has asked for once stays as it was.
        if (shape, key) not in self._seen:
            self._seen[shape, key] = self._asked(shape, key)
        return cast("D | None", self._seen[shape, key])

    def all(self, _shape: type[D], _prefix: str = "") -> Iterator[D]:
        """Return nothing: another AOP tells of what is asked for by name only."""
        return iter(())

    def _asked(self, shape: type[Document], key: str) -> Document | None:
        if shape is ForgeProject:
            return self._project(key)
        if shape is ForgeBuild:
            return self._build(key)
        if shape is ContractBatch:
            return self._batch(*key.split("/"))
        if shape is ContractVersion:
            return self._contract(*key.split("/"))
        return None

    def _project(self, project_id: str) -> ForgeProject | None:
        context = self._client.get(HttpContext, "api", "mcp", "context", project_id)
        if context is None:
            return None
        facts = context.project
        return ForgeProject(
            version=1,
            project_id=facts.id,
            name=facts.name,
            mode=facts.mode,
            flow=facts.flow,
            status=facts.status,
            created_at=facts.created_at,
            updated_at=facts.updated_at,
            batch=context.latest_batch,
            build_count=context.build_count,
        )

    def _build(self, build_id: str) -> ForgeBuild | None:
        pinned = self._client.get(HttpBuild, "api", "mcp", "build", build_id, "contracts", never_changes=True)
        if pinned is None:
            return None
        return ForgeBuild(
            version=1,
            build_id=pinned.build_id,
            project_id=pinned.project_id,
            batch=pinned.batch,
            sha256=pinned.sha256,
            pinned_at=pinned.pinned_at,
        )

    def _batch(self, project_id: str, number: str) -> ContractBatch | None:
        text = self._batch_text(project_id, int(number))
        if text is None:
            return None
        return ContractBatch(
            version=1,
            project_id=text.project_id,
            number=text.batch,
            contracts={
                each.contract_type: BatchEntry(number=each.version, sha256=each.sha256) for each in text.contracts
            },
            sha256=text.sha256,
            created_at=text.created_at,
        )

    def _contract(self, project_id: str, contract_type: str, number: str) -> ContractVersion | None:
        """Return a contract of a batch that this call has looked at."""
        batches = [each for each in self._seen.values() if isinstance(each, ContractBatch)]
        for batch in batches:
            text = self._batch_text(project_id, batch.number)
            for each in () if text is None else text.contracts:
                if (each.contract_type, each.version) == (contract_type, int(number)):
                    return _version(project_id, each)
        return None

    def _batch_text(self, project_id: str, number: int) -> HttpBatch | None:
        parts = ("api", "projects", project_id, "contracts", "history", str(number))
        return self._client.get(HttpBatch, *parts, never_changes=True)


def _version(project_id: str, contract: HttpBatchContract) -> ContractVersion:
    return ContractVersion(
        version=1,
        project_id=project_id,
        contract_type=contract.contract_type,
        number=contract.version,
        content=contract.content,
        sha256=contract.sha256,
        author="remote",
        created_at=contract.updated_at,
    )
