"""Batches: contract versions that belong together, stored once and never changed.

A change of contracts, nine generated ones or one edited one, is one transaction: the new versions, one new batch, the
project, an event with the digests, and one with what is computed about them (`contract_consistency`). So there is no
half batch, and the journal proves what a batch holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aop.core.digests import sha256_hex
from aop.core.errors import Fault, NoContracts, SecretDetected, UnknownContractVersion
from aop.core.redaction.redactor import Redactor
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.projects.documents import (
    BatchEntry,
    ContractBatch,
    ContractVersion,
    ForgeBuild,
    ForgeProject,
    batch_digest,
    batch_key,
    contract_key,
)
from aop.forge.projects.judgement import Judgement, judge
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.base import digest_of, revise
from aop.kernel.record.port import Snapshot, Transaction

GENERATED = "generated"
"""The author of a contract that a model wrote."""


def store_contracts(
    call: Call, tx: Transaction, project: ForgeProject, contents: Mapping[ContractType, str], *, author: str
) -> ContractBatch:
    """Store changed contracts as new versions and one new batch; without a change, return the newest batch.

    `project` was read in the same transaction, and `contents` were read by their reader. The first batch has to have
    all nine. Raises: SecretDetected, Fault if a contract is missing.
    """
    before = newest_batch(tx, project)
    entries = {} if before is None else dict(before.contracts)
    now, digests = call.kernel.now(), {}
    for contract_type, content in contents.items():
        known = entries.get(contract_type)
        digest = sha256_hex(content.encode())
        refuse_secrets(call.kernel.redact, contract_type, content)
        if known is not None and known.sha256 == digest:
            continue
        version = ContractVersion(
            version=1,
            project_id=project.project_id,
            contract_type=contract_type,
            number=1 if known is None else known.number + 1,
            content=content,
            sha256=digest,
            author=author,
            created_at=now,
        )
        tx.put(version, contract_key(project.project_id, contract_type, version.number))
        entries[contract_type] = BatchEntry(number=version.number, sha256=digest)
        digests[contract_type.value] = digest_of(version)
    if before is not None and not digests:
        return before
    batch = _next_batch(project, entries, now)
    tx.put(batch, batch_key(project.project_id, batch.number))
    tx.put(_with_batch(project, batch), project.project_id)
    tx.append(
        call.event(
            "contracts_stored",
            None,
            project_id=project.project_id,
            batch=batch.number,
            sha256=batch.sha256,
            contracts={each.value: entry.number for each, entry in batch.contracts.items()},
            documents={**digests, "batch": digest_of(batch)},
        )
    )
    judgement = judged(tx, project, batch).as_json()
    tx.append(call.event("contract_consistency", None, project_id=project.project_id, batch=batch.number, **judgement))
    return batch


def judged(view: Snapshot, project: ForgeProject, batch: ContractBatch) -> Judgement:
    """Return the contradictions and the quality of a batch, with the answers as they are now."""
    return judge(view, project, {each.contract_type: each.content for each in contracts_in(view, batch)})


def refuse_secrets(redact: Redactor, contract_type: ContractType, content: str) -> None:
    """Refuse a contract with a secret, which agents and other machines would read. Raises: SecretDetected."""
    rules = sorted({finding.rule for finding in redact.secrets_in(content)})
    if rules:
        raise SecretDetected(
            f"The {contract_type} contract contains what looks like a secret ({', '.join(rules)}).",
            hint="Name the environment variable that holds the secret, not the secret.",
            contract_type=contract_type,
            rules=rules,
        )


def _next_batch(project: ForgeProject, entries: Mapping[ContractType, BatchEntry], now: str) -> ContractBatch:
    missing = [each.value for each in CONTRACT_TYPES if each not in entries]
    if missing:
        raise Fault(f"A batch of `{project.project_id}` would be without: {', '.join(missing)}.")
    contracts = {each: entries[each] for each in CONTRACT_TYPES}
    return ContractBatch(
        version=1,
        project_id=project.project_id,
        number=project.batch + 1,
        contracts=contracts,
        sha256=batch_digest(contracts),
        created_at=now,
    )


def _with_batch(project: ForgeProject, batch: ContractBatch) -> ForgeProject:
    has_begun = project.status in ("building", "completed")
    status = project.status if has_begun else "contracts_generated"
    return revise(project, batch=batch.number, status=status, updated_at=batch.created_at)


def newest_batch(view: Snapshot, project: ForgeProject) -> ContractBatch | None:
    """Return the newest batch of a project; None while it has no contracts."""
    return batch_of(view, project.project_id, project.batch) if project.batch else None


def the_newest_batch(view: Snapshot, project: ForgeProject) -> ContractBatch:
    """Return the newest batch of a project. Raises: NoContracts."""
    batch = newest_batch(view, project)
    if batch is None:
        raise NoContracts(f"The project `{project.project_id}` has no contracts yet.", project_id=project.project_id)
    return batch


def batch_of(view: Snapshot, project_id: str, number: int) -> ContractBatch:
    """Return a batch that the record names. Raises: Fault if it is not there."""
    batch = view.get(ContractBatch, batch_key(project_id, number))
    if batch is None:
        raise Fault(f"The batch {number} of the project `{project_id}` is missing from the record.")
    return batch


def contract_in(view: Snapshot, batch: ContractBatch, contract_type: ContractType) -> ContractVersion:
    """Return a contract of a batch. Raises: Fault if it is not there."""
    number = batch.contracts[contract_type].number
    found = view.get(ContractVersion, contract_key(batch.project_id, contract_type, number))
    if found is None:
        raise Fault(f"Version {number} of `{batch.project_id}/{contract_type}` is missing from the record.")
    return found


def contracts_in(view: Snapshot, batch: ContractBatch) -> Iterator[ContractVersion]:
    """Return the nine contracts of a batch, in their order."""
    return (contract_in(view, batch, each) for each in CONTRACT_TYPES)


def current_contract(view: Snapshot, project: ForgeProject, contract_type: ContractType) -> ContractVersion | None:
    """Return the newest version of a contract; None while the project has no contracts."""
    batch = newest_batch(view, project)
    return None if batch is None else contract_in(view, batch, contract_type)


def versions_of(view: Snapshot, project_id: str, contract_type: ContractType) -> Iterator[ContractVersion]:
    """Return every version of a contract, oldest first."""
    return view.all(ContractVersion, f"{project_id}/{contract_type}/")


def the_version(view: Snapshot, project: ForgeProject, contract_type: ContractType, number: int) -> ContractVersion:
    """Return one version of a contract. Raises: NoContracts, UnknownContractVersion."""
    newest = the_newest_batch(view, project).contracts[contract_type].number
    found = view.get(ContractVersion, contract_key(project.project_id, contract_type, number))
    if found is None:
        raise UnknownContractVersion(
            f"The {contract_type} contract of `{project.project_id}` has no version {number}; the newest is {newest}.",
            project_id=project.project_id,
            contract_type=contract_type,
            newest=newest,
        )
    return found


def pinned_batch(view: Snapshot, build: ForgeBuild) -> ContractBatch:
    """Return the batch that a build began with; no later edit changes it (FORGE-095)."""
    return batch_of(view, build.project_id, build.batch)
