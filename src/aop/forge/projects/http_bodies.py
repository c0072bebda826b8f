"""HTTP bodies: the answers that the routes of forge send.

They are read by the same functions as the answers of the tools. Lists are called `contracts` here, and a contract of a
project comes from `project_db`, where the tools say `items` and `db` (C-34).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from aop.core.errors import UnknownBatch, UnknownContract
from aop.core.structs import copy_fields
from aop.core.text.suggestions import did_you_mean
from aop.forge.contracts.types import CONTRACT_TYPES, BuildMode, ContractType
from aop.forge.projects.batches import batch_of, contract_in, contracts_in, newest_batch, pinned_batch, the_newest_batch
from aop.forge.projects.documents import ContractBatch, ContractVersion, Flow, ForgeBuild, ForgeProject, ProjectStatus
from aop.kernel.record.port import Snapshot


class HttpProject(Struct, frozen=True, kw_only=True):
    """A project, in short."""

    id: str
    name: str
    status: ProjectStatus
    mode: BuildMode
    flow: Flow
    created_at: str
    updated_at: str


class HttpContractRow(Struct, frozen=True, kw_only=True):
    """A contract without its text."""

    contract_type: ContractType
    version: int
    size_chars: int
    sha256: str
    updated_at: str


class HttpContracts(Struct, frozen=True, kw_only=True):
    """The contracts of a project as they are now; none before they are generated."""

    project_id: str
    latest_batch: int
    """The number of the newest batch; 0 while there is none."""
    contracts: tuple[HttpContractRow, ...]


class HttpContext(Struct, frozen=True, kw_only=True):
    """A project with the facts about its contracts, and no text of them."""

    project: HttpProject
    contracts: tuple[HttpContractRow, ...]
    latest_batch: int
    build_count: int


class HttpContract(Struct, frozen=True, kw_only=True):
    """A contract of a project as it is now."""

    contract_type: ContractType
    content: str
    version: int
    sha256: str
    project_id: str
    batch: int
    source: Literal["project_db"]


class HttpBatchContract(Struct, frozen=True, kw_only=True):
    """A contract in a batch."""

    contract_type: ContractType
    content: str
    version: int
    sha256: str
    updated_at: str


class HttpBatch(Struct, frozen=True, kw_only=True):
    """A batch of contracts; it never changes."""

    project_id: str
    batch: int
    sha256: str
    created_at: str
    contracts: tuple[HttpBatchContract, ...]


class HttpBuild(Struct, frozen=True, kw_only=True):
    """The contracts that a build began with; no later edit changes them."""

    build_id: str
    project_id: str
    batch: int
    sha256: str
    pinned_at: str
    contracts: tuple[HttpBatchContract, ...]


class HttpError(Struct, frozen=True, kw_only=True):
    """The error of a refusal."""

    code: str
    message: str
    details: Mapping[str, Any]


class HttpRefusal(Struct, frozen=True, kw_only=True):
    """Every answer with a status from 400 on."""

    ok: Literal[False]
    error: HttpError
    evidence: Mapping[str, Any] = {}


def contract_list(view: Snapshot, project: ForgeProject) -> HttpContracts:
    """Return the contracts of a project."""
    return HttpContracts(
        project_id=project.project_id, latest_batch=project.batch, contracts=_facts_of_all(view, project)
    )


def project_context(view: Snapshot, project: ForgeProject) -> HttpContext:
    """Return the context of a project (FORGE-092)."""
    return HttpContext(
        project=copy_fields(HttpProject, project, id=project.project_id),
        contracts=_facts_of_all(view, project),
        latest_batch=project.batch,
        build_count=project.build_count,
    )


def contract_text(view: Snapshot, project: ForgeProject, contract_type: str) -> HttpContract:
    """Return a contract of a project (FORGE-093). Raises: UnknownContract, NoContracts."""
    if contract_type not in CONTRACT_TYPES:
        shown = ascii(contract_type[:80])[1:-1]
        raise UnknownContract(f"There is no contract `{shown}`.{did_you_mean(contract_type, CONTRACT_TYPES)}")
    batch = the_newest_batch(view, project)
    found = contract_in(view, batch, ContractType(contract_type))
    return HttpContract(
        contract_type=found.contract_type,
        content=found.content,
        version=found.number,
        sha256=found.sha256,
        project_id=project.project_id,
        batch=batch.number,
        source="project_db",
    )


def batch_text(view: Snapshot, project: ForgeProject, number: str) -> HttpBatch:
    """Return an old batch of a project, or its newest one. Raises: UnknownBatch."""
    if not (number.isascii() and number.isdecimal() and len(number) <= 9 and 1 <= int(number) <= project.batch):
        raise UnknownBatch(
            f"The project `{project.project_id}` has no batch `{ascii(number[:20])[1:-1]}`.", newest=project.batch
        )
    batch = batch_of(view, project.project_id, int(number))
    return HttpBatch(
        project_id=project.project_id,
        batch=batch.number,
        sha256=batch.sha256,
        created_at=batch.created_at,
        contracts=_texts(view, batch),
    )


def build_contracts(view: Snapshot, build: ForgeBuild) -> HttpBuild:
    """Return the pinned contracts of a build (FORGE-094)."""
    return HttpBuild(
        build_id=build.build_id,
        project_id=build.project_id,
        batch=build.batch,
        sha256=build.sha256,
        pinned_at=build.pinned_at,
        contracts=_texts(view, pinned_batch(view, build)),
    )


def _facts_of_all(view: Snapshot, project: ForgeProject) -> tuple[HttpContractRow, ...]:
    batch = newest_batch(view, project)
    return () if batch is None else tuple(map(_facts, contracts_in(view, batch)))


def _facts(contract: ContractVersion) -> HttpContractRow:
    return HttpContractRow(
        contract_type=contract.contract_type,
        version=contract.number,
        size_chars=len(contract.content),
        sha256=contract.sha256,
        updated_at=contract.created_at,
    )


def _texts(view: Snapshot, batch: ContractBatch) -> tuple[HttpBatchContract, ...]:
    return tuple(
        HttpBatchContract(
            contract_type=each.contract_type,
            content=each.content,
            version=each.number,
            sha256=each.sha256,
            updated_at=each.created_at,
        )
        for each in contracts_in(view, batch)
    )
