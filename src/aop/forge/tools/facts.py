"""Facts of a project: the shapes in which tools answer about projects."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from aop.core.structs import copy_fields
from aop.forge.contracts.consistency import Contradiction
from aop.forge.projects.batches import contracts_in, judged, newest_batch
from aop.forge.projects.documents import ContractVersion, ForgeAnswers, ForgeBuild, ForgeProject, ScoutRun
from aop.forge.projects.questionnaire import complete_sections
from aop.kernel.record.port import Snapshot


class ProjectRow(Struct, frozen=True, kw_only=True):
    project_id: str
    """Its id, made of the words of its name."""
    name: str
    """Its name, as its owner wrote it."""
    mode: str
    """`full`, or `mini` for a project of two phases."""
    flow: str
    """`greenfield` for an idea, `scout` for a repository that was scanned."""
    status: str
    """From `draft` over `questionnaire` to `contracts_generated`, then `building` and `completed`."""
    batch: int
    """The number of the newest batch of contracts; 0 while there is none."""
    build_count: int
    """The number of builds that pinned contracts."""
    created_at: str
    """When it was begun."""
    updated_at: str
    """When it or its contracts last changed."""


class ContractFacts(Struct, frozen=True, kw_only=True):
    contract_type: str
    """One of the nine types."""
    version: int
    """The number of the version."""
    sha256: str
    """The SHA-256 of its content."""
    size_chars: int
    """The length of its content in characters."""
    author: str
    """`generated`, or the person who edited it."""
    updated_at: str
    """When that version was stored."""


class BuildFacts(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    batch: int
    """The batch of contracts that it began with."""
    sha256: str
    """The digest of that batch."""
    pinned_at: str
    """When it was pinned."""


class ProjectFacts(ProjectRow, frozen=True, kw_only=True):
    owner: str
    """The user that it belongs to."""
    scan_run: str
    """The newest scan; empty if there is none."""
    is_planned: bool
    """Whether that scan has a renovation plan."""
    answered: tuple[str, ...]
    """The complete sections of the questionnaire."""
    sha256: str
    """The digest of the newest batch; empty while there is none."""
    contracts: tuple[ContractFacts, ...]
    """The newest version of each contract; empty before they are generated."""
    builds: tuple[BuildFacts, ...]
    """The builds, by id."""
    contradictions: tuple[Contradiction, ...]
    """The contradictions between its contracts, and to its answers; errors first."""


def project_row(project: ForgeProject) -> ProjectRow:
    """Return a project as a row of a list."""
    return copy_fields(ProjectRow, project)


def project_facts(view: Snapshot, project: ForgeProject) -> ProjectFacts:
    """Return all that is recorded of a project, without the contents of its contracts."""
    batch = newest_batch(view, project)
    answers = view.get(ForgeAnswers, project.project_id)
    scan = view.get(ScoutRun, project.scan_run) if project.scan_run else None
    return copy_fields(
        ProjectFacts,
        project,
        is_planned=scan is not None and scan.plan is not None,
        answered=() if answers is None else complete_sections(project.mode, answers.sections),
        sha256="" if batch is None else batch.sha256,
        contracts=() if batch is None else tuple(map(contract_facts, contracts_in(view, batch))),
        builds=tuple(map(build_facts, builds_of(view, project.project_id))),
        contradictions=() if batch is None else judged(view, project, batch).contradictions,
    )


def contract_facts(contract: ContractVersion) -> ContractFacts:
    """Return one version of a contract, without its content."""
    return ContractFacts(
        contract_type=contract.contract_type,
        version=contract.number,
        sha256=contract.sha256,
        size_chars=len(contract.content),
        author=contract.author,
        updated_at=contract.created_at,
    )


def builds_of(view: Snapshot, project_id: str) -> Iterable[ForgeBuild]:
    """Return the builds of a project, by id."""
    return (build for build in view.all(ForgeBuild) if build.project_id == project_id)


def build_facts(build: ForgeBuild) -> BuildFacts:
    """Return a build as a row of a list."""
    return copy_fields(BuildFacts, build)
