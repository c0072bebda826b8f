"""Projects with contracts for tests: nine contracts, and the store that a generation or an edit goes through."""

from __future__ import annotations

from collections.abc import Mapping

from aop.core.ids import OperationId
from aop.forge.contracts.examples import example_of
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.projects.batches import GENERATED, store_contracts
from aop.forge.projects.documents import ContractBatch
from aop.forge.projects.owners import the_project
from aop.kernel.gateway.calls import Call
from tests.world import World

NINE: Mapping[ContractType, str] = {each: example_of(each) for each in CONTRACT_TYPES}
"""Nine contracts that their readers accept."""


def stored(
    world: World, project: str, contents: Mapping[ContractType, str] = NINE, *, author: str = GENERATED
) -> ContractBatch:
    """Store contracts as a tool does, in one transaction; the texts are not read by any reader."""
    gateway = world.app.gateway
    call = Call(
        kernel=gateway.kernel,
        principal=world.app.person,
        tool=gateway.tools["forge.project_new"],
        operation_id=OperationId("op-store"),
        report=lambda _line: None,
    )
    with gateway.kernel.record.write() as tx:
        return store_contracts(call, tx, the_project(tx, project, call.principal), contents, author=author)
