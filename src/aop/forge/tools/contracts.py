"""Contract tools for people: show, edit, history, difference and export."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import UnknownForgeBuild, VersionConflict
from aop.core.structs import copy_fields
from aop.core.text.differences import unified_difference
from aop.forge.contracts.readers import read_contract
from aop.forge.contracts.types import ContractType, file_name
from aop.forge.projects.artifacts import copy_to_artifacts
from aop.forge.projects.batches import (
    contract_in,
    contracts_in,
    pinned_batch,
    store_contracts,
    the_newest_batch,
    the_version,
    versions_of,
)
from aop.forge.projects.documents import ContractBatch, ContractVersion, ForgeProject
from aop.forge.projects.owners import the_build, the_project
from aop.forge.tools.facts import ContractFacts, contract_facts
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.gateway.calls import Call, Outcome, Tool
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import Positive
from aop.kernel.record.port import Snapshot, Transaction

LARGEST_EDIT = 4_000_000
"""The most characters that are looked at; the reader of the type refuses far smaller texts."""


class ContractArguments(ProjectArguments, frozen=True, kw_only=True):
    contract_type: ContractType
    """One of the nine types."""


class ShowContract(ContractArguments, frozen=True, kw_only=True):
    number: Positive | None = None
    """The version; without one, the newest."""


class ContractText(ContractFacts, frozen=True, kw_only=True):
    project_id: str
    """The project."""
    content: str
    """The whole contract."""


class EditContract(ContractArguments, frozen=True, kw_only=True):
    content: Annotated[str, Meta(max_length=LARGEST_EDIT)]
    """The whole new contract."""
    expected_version: Positive
    """The version that was edited; the call is refused if there is a newer one."""


class Edited(Struct, frozen=True, kw_only=True):
    project_id: str
    """The project."""
    contract_type: str
    """The contract."""
    version: int
    """Its newest version now."""
    sha256: str
    """The SHA-256 of its content."""
    batch: int
    """The newest batch now."""
    batch_sha256: str
    """The digest of that batch."""
    changed: bool
    """False if the content is what the contract already was; then nothing is stored."""


class History(Struct, frozen=True, kw_only=True):
    project_id: str
    """The project."""
    contract_type: str
    """The contract."""
    versions: tuple[ContractFacts, ...]
    """Every version, oldest first."""


class DiffContract(ContractArguments, frozen=True, kw_only=True):
    before: Positive
    """The older version."""
    after: Positive
    """The newer version."""


class ContractDifference(Struct, frozen=True, kw_only=True):
    project_id: str
    """The project."""
    contract_type: str
    """The contract."""
    before: int
    """The version on the left side."""
    after: int
    """The version on the right side."""
    text: str
    """A unified diff; empty if the two have the same content."""


class ExportContracts(ProjectArguments, frozen=True, kw_only=True):
    build_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """A build of the project: the contracts that it began with. Without one, the newest."""


class ExportedFile(Struct, frozen=True, kw_only=True):
    contract_type: str
    """The contract."""
    version: int
    """Its version."""
    sha256: str
    """The SHA-256 of its content."""
    file: str
    """The name of its file, such as `physics.yaml`."""
    content: str
    """The whole contract."""


class ExportedBatch(Struct, frozen=True, kw_only=True):
    project_id: str
    """The project."""
    batch: int
    """The number of the batch: the newest, or the one that the build pinned."""
    build_id: str | None
    """The build; null for the newest batch."""
    sha256: str
    """Its digest."""
    contracts: tuple[ExportedFile, ...]
    """The nine contracts, in their order."""


def show_contract(call: Call, arguments: ShowContract) -> Outcome:
    """Return one contract, at its newest version or at a named one."""
    with call.kernel.record.read() as view:
        project = the_project(view, arguments.project_id, call.principal)
        found = _contract(view, project, arguments.contract_type, arguments.number)
    return copy_fields(ContractText, contract_facts(found), project_id=project.project_id, content=found.content)


def _contract(
    view: Snapshot, project: ForgeProject, contract_type: ContractType, number: int | None
) -> ContractVersion:
    if number is None:
        return contract_in(view, the_newest_batch(view, project), contract_type)
    return the_version(view, project, contract_type, number)


def edit_contract(call: Call, arguments: EditContract) -> Outcome:
    """Store an edited contract as a new version in a new batch, if its reader accepts it."""
    with call.kernel.record.read() as view:
        project = the_project(view, arguments.project_id, call.principal)
        _expected_batch(view, project, arguments)
    read_contract(arguments.contract_type, arguments.content, project.mode)

    def decide(tx: Transaction) -> Outcome:
        current = the_project(tx, arguments.project_id, call.principal)
        before = _expected_batch(tx, current, arguments)
        contents = {arguments.contract_type: arguments.content}
        batch = store_contracts(call, tx, current, contents, author=call.principal.actor)
        entry = batch.contracts[arguments.contract_type]
        if batch.number != before.number:
            copy_to_artifacts(call.kernel, tx, [contract_in(tx, batch, arguments.contract_type)])
        return Edited(
            project_id=current.project_id,
            contract_type=arguments.contract_type,
            version=entry.number,
            sha256=entry.sha256,
            batch=batch.number,
            batch_sha256=batch.sha256,
            changed=batch.number != before.number,
        )

    return call.commit(decide)


def _expected_batch(view: Snapshot, project: ForgeProject, arguments: EditContract) -> ContractBatch:
    """Return the newest batch, if it has the version that was edited. Raises: NoContracts, VersionConflict."""
    batch = the_newest_batch(view, project)
    current = batch.contracts[arguments.contract_type].number
    if current != arguments.expected_version:
        what = f"The {arguments.contract_type} contract of `{project.project_id}`"
        raise VersionConflict(
            what, expected=arguments.expected_version, current=current, hint=_edit_again(arguments, current)
        )
    return batch


def _edit_again(arguments: EditContract, current: int) -> str:
    which, old = f"{arguments.project_id} {arguments.contract_type}", arguments.expected_version
    changes = f"See what changed with `aop forge diff {which} {old} {current}`" if old < current else ""
    newest = f"{'get' if changes else 'Get'} the newest text with `aop forge show {which}`"
    again = f"and change that: `aop forge edit {which} --file FILE --expect {current}`"
    return f"{f'{changes}, ' if changes else ''}{newest}, {again}."


def contract_history(call: Call, arguments: ContractArguments) -> Outcome:
    """Return the versions of a contract, without their contents."""
    with call.kernel.record.read() as view:
        project = the_project(view, arguments.project_id, call.principal)
        the_newest_batch(view, project)
        versions = tuple(map(contract_facts, versions_of(view, project.project_id, arguments.contract_type)))
    return History(project_id=project.project_id, contract_type=arguments.contract_type, versions=versions)


def diff_contract(call: Call, arguments: DiffContract) -> Outcome:
    """Return the difference of two versions of a contract."""
    with call.kernel.record.read() as view:
        project = the_project(view, arguments.project_id, call.principal)
        numbers = (arguments.before, arguments.after)
        before, after = (the_version(view, project, arguments.contract_type, number) for number in numbers)
    return ContractDifference(
        project_id=project.project_id,
        contract_type=arguments.contract_type,
        before=before.number,
        after=after.number,
        text=unified_difference(before.content, after.content, _label(before), _label(after)),
    )


def _label(contract: ContractVersion) -> str:
    return f"{file_name(contract.contract_type)} (version {contract.number})"


def export_contracts(call: Call, arguments: ExportContracts) -> Outcome:
    """Return the nine contracts of the newest batch or of a build, each with the name of its file."""
    with call.kernel.record.read() as view:
        project = the_project(view, arguments.project_id, call.principal)
        batch = _exported_batch(view, project, arguments.build_id, call.principal)
        files = tuple(map(_exported, contracts_in(view, batch)))
    return ExportedBatch(
        project_id=project.project_id,
        batch=batch.number,
        build_id=arguments.build_id,
        sha256=batch.sha256,
        contracts=files,
    )


def _exported_batch(view: Snapshot, project: ForgeProject, build_id: str | None, principal: Principal) -> ContractBatch:
    if build_id is None:
        return the_newest_batch(view, project)
    build = the_build(view, build_id, principal)
    if build.project_id != project.project_id:
        raise UnknownForgeBuild(build_id)
    return pinned_batch(view, build)


def _exported(contract: ContractVersion) -> ExportedFile:
    return ExportedFile(
        contract_type=contract.contract_type,
        version=contract.number,
        sha256=contract.sha256,
        file=file_name(contract.contract_type),
        content=contract.content,
    )


TOOLS = (
    Tool(
        name="forge.contract_show",
        summary="Return one contract of a project, at its newest version or at a named one.",
        arguments=ShowContract,
        output=ContractText,
        roles=COORDINATORS,
        run=show_contract,
        person_only=True,
    ),
    Tool(
        name="forge.contract_edit",
        summary="Store an edited contract as a new version; builds that pinned an older one keep it.",
        arguments=EditContract,
        output=Edited,
        roles=COORDINATORS,
        run=edit_contract,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="forge.contract_history",
        summary="List the versions of a contract, with author, time and SHA-256.",
        arguments=ContractArguments,
        output=History,
        roles=COORDINATORS,
        run=contract_history,
        person_only=True,
    ),
    Tool(
        name="forge.contract_diff",
        summary="Return the difference of two versions of a contract, as a unified diff.",
        arguments=DiffContract,
        output=ContractDifference,
        roles=COORDINATORS,
        run=diff_contract,
        person_only=True,
    ),
    Tool(
        name="forge.contract_export",
        summary="Return the nine contracts of a project or of a build with the names of their files.",
        arguments=ExportContracts,
        output=ExportedBatch,
        roles=COORDINATORS,
        run=export_contracts,
        person_only=True,
    ),
)
