"""Generation tools: the inputs of the missions, their progress, their result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import GenerationOutdated, Json, NoContracts
from aop.forge.contracts.readers import MAX_CONTRACT_BYTES, read_contract
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.generation.inputs import inputs_of
from aop.forge.projects.artifacts import copy_to_artifacts
from aop.forge.projects.batches import GENERATED, contracts_in, judged, newest_batch, store_contracts
from aop.forge.projects.owners import the_project
from aop.forge.tools.projects import ProjectArguments
from aop.kernel.gateway.calls import Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.port import Transaction

Usage = Mapping[str, Any]


class Inputs(Struct, frozen=True, kw_only=True):
    inputs: dict[str, Any]
    """The answers, or the scan and its plan, and the newest contracts."""
    sha256: str
    """The digest over the inputs, which must not change until the contracts are stored."""


class Progress(ProjectArguments, frozen=True, kw_only=True):
    contract_type: ContractType
    """The contract that is being written."""
    turn: Annotated[int, Meta(ge=1)]
    """The number of the model's reply."""
    tokens: Annotated[int, Meta(ge=0)] | None = None
    """The tokens that the provider has reported for this contract so far; absent if it reports none."""


class Noted(Struct, frozen=True, kw_only=True):
    contract_type: str
    """The contract that is being written."""
    turn: int
    """The number of the model's reply."""


class Store(ProjectArguments, frozen=True, kw_only=True):
    inputs: str
    """The digest of the inputs that the contracts were written from."""
    contracts: Mapping[ContractType, Annotated[str, Meta(max_length=MAX_CONTRACT_BYTES)]]
    """The contracts; all nine, unless the project has contracts already."""
    usage: Mapping[ContractType, Usage] = {}
    """Turns and tokens of each contract."""


class StoredContract(Struct, frozen=True, kw_only=True):
    contract_type: str
    """One of the nine types."""
    version: int
    """The number of its version."""
    sha256: str
    """The SHA-256 of its content."""


class Stored(Struct, frozen=True, kw_only=True):
    project_id: str
    """The project."""
    batch: int
    """The number of the batch."""
    sha256: str
    """The digest over the batch."""
    contracts: tuple[StoredContract, ...]
    """The nine contracts of the batch."""
    usage: Mapping[str, Usage]
    """Turns and tokens of each contract that was written."""
    contradictions: int = 0
    """The number of contradictions between the nine contracts, and to the answers."""


def generation_inputs(call: Call, arguments: ProjectArguments) -> Outcome:
    """Return all that the missions need, or refuse what is missing."""
    with call.kernel.record.read() as view:
        project = the_project(view, arguments.project_id, call.principal)
        inputs, batch = inputs_of(view, project), newest_batch(view, project)
        known = {} if batch is None else {each.contract_type: each.content for each in contracts_in(view, batch)}
    whole = msgspec.structs.replace(inputs, contracts=known)
    return Inputs(inputs=msgspec.to_builtins(whole), sha256=inputs.digest())


def note_progress(call: Call, arguments: Progress, tx: Transaction) -> Outcome:
    """Note one turn of a mission (FORGE-147)."""
    project = the_project(tx, arguments.project_id, call.principal)
    facts: dict[str, Json] = {
        "project_id": project.project_id,
        "contract_type": arguments.contract_type,
        "turn": arguments.turn,
        "tokens": arguments.tokens,
    }
    tx.append(call.event("contract_progress", None, **facts))
    return Noted(contract_type=arguments.contract_type, turn=arguments.turn)


def store(call: Call, arguments: Store, tx: Transaction) -> Outcome:
    """Store the contracts as one batch; nothing of a generation is in the record before."""
    project = the_project(tx, arguments.project_id, call.principal)
    if inputs_of(tx, project).digest() != arguments.inputs:
        raise GenerationOutdated(
            f"The answers or the scan of `{project.project_id}` changed while its contracts were written.",
            project_id=project.project_id,
        )
    if newest_batch(tx, project) is None and set(arguments.contracts) != set(CONTRACT_TYPES):
        raise NoContracts(f"The first batch of `{project.project_id}` needs all nine contracts.")
    for contract_type, content in arguments.contracts.items():
        read_contract(contract_type, content, project.mode)
    batch = store_contracts(call, tx, project, arguments.contracts, author=GENERATED)
    copy_to_artifacts(call.kernel, tx, contracts_in(tx, batch))
    usage = {each.value: dict(used) for each, used in arguments.usage.items()}
    tx.append(
        call.event("contracts_generated", None, project_id=project.project_id, batch=batch.number, usage={**usage})
    )
    return Stored(
        project_id=batch.project_id,
        batch=batch.number,
        sha256=batch.sha256,
        contracts=tuple(
            StoredContract(contract_type=each.value, version=entry.number, sha256=entry.sha256)
            for each, entry in batch.contracts.items()
        ),
        usage=usage,
        contradictions=len(judged(tx, project, batch).contradictions),
    )


TOOLS = (
    Tool(
        name="forge.generation_inputs",
        summary="Return what a model needs to write the contracts of a project, or refuse what is missing.",
        arguments=ProjectArguments,
        output=Inputs,
        roles=COORDINATORS,
        run=generation_inputs,
        person_only=True,
    ),
    Tool(
        name="forge.generation_progress",
        summary="Note one turn of the model that writes a contract.",
        arguments=Progress,
        output=Noted,
        roles=COORDINATORS,
        run=committed(note_progress),
        mutates=True,
        brief=True,
        person_only=True,
    ),
    Tool(
        name="forge.generation_store",
        summary="Store the generated contracts of a project as one batch.",
        arguments=Store,
        output=Stored,
        roles=COORDINATORS,
        run=committed(store),
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
