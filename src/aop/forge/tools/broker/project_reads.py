"""Project tools: contracts and facts of a project, and what a build is pinned to."""

from __future__ import annotations

from aop.core.errors import InvalidArguments, NoBuildInSession
from aop.core.roles import Role
from aop.forge.broker.fetches import count_fetches
from aop.forge.broker.parts import ContractPart, is_too_long, outline_alone, part_of
from aop.forge.broker.resolution import Current, FoundContract, current_batch, find_contract, found_in
from aop.forge.broker.sessions import Scope, scope_of
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.projects.batches import contract_in
from aop.forge.tools.broker import broker_answers as answers
from aop.forge.tools.broker.broker_answers import Named, ScopedArguments
from aop.forge.tools.broker.contract_reads import contract_answer, refuse_phases
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.ports.tokenizer import Tokenizer
from aop.kernel.record.port import Snapshot

READERS = frozenset({Role.SCOUT, Role.CODER, Role.AUDITOR})


class GetProjectContract(ScopedArguments, frozen=True, kw_only=True):
    """Arguments of `forge_get_project_contract`."""

    contract_type: ContractType
    """The contract."""
    section: Named | None = None
    """Only this heading, or in physics and boundaries this JSON pointer."""


class GetBuildContracts(Arguments, frozen=True, kw_only=True):
    """Arguments of `forge_get_build_contracts`."""

    build_id: Named | None = None
    """Default: the build of your session."""
    contract_types: tuple[ContractType, ...] = ()
    """Only these."""
    section: Named | None = None
    """Only this section; with one contract type."""


def get_project_contract(call: Call, arguments: GetProjectContract) -> Outcome:
    """Return a contract of a project: the pinned version where the session has a build (C-35)."""
    refuse_phases(arguments.contract_type)
    with call.kernel.record.read() as view:
        scope = scope_of(view, call.principal, arguments.project_id)
        found = find_contract(view, scope, arguments.contract_type, now=call.kernel.now())
    return contract_answer(call, scope, found, arguments.section)


def list_project_contracts(call: Call, arguments: ScopedArguments) -> Outcome:
    """List the stored contracts of a project with version and time."""
    with call.kernel.record.read() as view:
        scope = scope_of(view, call.principal, arguments.project_id)
        current = current_batch(view, scope)
        found = _all_of(view, current)
    return answers.ProjectContracts(
        **answers.origin(scope, None if current is None else current.batch.number),
        source="db" if current is None else current.source,
        items=tuple(
            answers.ContractRow(contract_type=each.name, version=each.number or 0, updated_at=each.updated_at)
            for each in found
        ),
    )


def get_project_context(call: Call, arguments: ScopedArguments) -> Outcome:
    """Return what is known of a project, without any contract's text."""
    with call.kernel.record.read() as view:
        return build_context_pack(view, scope_of(view, call.principal, arguments.project_id))


def build_context_pack(view: Snapshot, scope: Scope) -> answers.ProjectContext:
    """Return the metadata of a project: this is all that an agent is given unasked (FORGE-107)."""
    project, current = scope.project, current_batch(view, scope)
    return answers.ProjectContext(
        **answers.origin(scope, None if current is None else current.batch.number),
        source="db" if current is None else current.source,
        project=answers.ProjectHead(
            id=project.project_id, name=project.name, status=project.status, mode=project.mode, flow=project.flow
        ),
        contracts=tuple(
            answers.SizedContractRow(
                contract_type=each.name,
                version=each.number or 0,
                updated_at=each.updated_at,
                size_chars=len(each.content),
            )
            for each in _all_of(view, current)
        ),
        build_count=project.build_count,
        latest_batch=project.batch or None,
    )


def _all_of(view: Snapshot, current: Current | None) -> list[FoundContract]:
    if current is None:
        return []
    return [found_in(current, contract_in(view, current.batch, each)) for each in CONTRACT_TYPES]


def get_build_contracts(call: Call, arguments: GetBuildContracts) -> Outcome:
    """Return contracts as a build is pinned to them; their outlines where all of them would be too long."""
    if arguments.section is not None and len(arguments.contract_types) != 1:
        raise InvalidArguments("A section needs exactly one contract type.")
    wanted = arguments.contract_types or CONTRACT_TYPES
    with call.kernel.record.read() as view:
        scope = scope_of(view, call.principal, build_id=arguments.build_id)
        if scope.build is None:
            raise NoBuildInSession("This call names no build, and the session of your token has none.")
        found = [each for each in _all_of(view, current_batch(view, scope)) if each.contract_type in wanted]
    parts = _parts(found, arguments.section, call.kernel.tokenizer)
    count_fetches(call, scope, [(each, arguments.section) for each in found])
    return answers.BuildContracts(
        **answers.origin(scope, scope.build.batch),
        source="snapshot",
        pinned_at=scope.build.pinned_at,
        items=tuple(
            answers.BuildContract(
                contract_type=each.name,
                version=each.number or 0,
                content=part.content,
                outline=part.outline,
                is_outline_only=part.is_outline_only,
            )
            for each, part in zip(found, parts, strict=True)
        ),
    )


def _parts(found: list[FoundContract], section: str | None, tokenizer: Tokenizer | None) -> list[ContractPart]:
    if section is None and is_too_long("".join(each.content for each in found), tokenizer):
        return [outline_alone(each) for each in found]
    return [part_of(each, section, tokenizer) for each in found]


TOOLS = (
    Tool(
        name="forge_get_project_contract",
        summary="Read a contract of a project, or one section of it; in a build, as the build began with it.",
        arguments=GetProjectContract,
        output=answers.ContractAnswer,
        roles=READERS,
        run=get_project_contract,
        lean=True,
    ),
    Tool(
        name="forge_list_project_contracts",
        summary="List the contracts of a project with their versions.",
        arguments=ScopedArguments,
        output=answers.ProjectContracts,
        roles=READERS,
        run=list_project_contracts,
        lean=True,
    ),
    Tool(
        name="forge_get_project_context",
        summary="Read the facts of a project: status, contracts with their sizes, builds.",
        arguments=ScopedArguments,
        output=answers.ProjectContext,
        roles=frozenset({Role.SCOUT}),
        run=get_project_context,
        lean=True,
    ),
    Tool(
        name="forge_get_build_contracts",
        summary="Read contracts as your build began with them; name the types that you need.",
        arguments=GetBuildContracts,
        output=answers.BuildContracts,
        roles=frozenset({Role.FIXER}),
        run=get_build_contracts,
        lean=True,
    ),
)
