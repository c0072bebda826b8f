"""Contract tools: one contract, their list, their summary, one phase window."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from aop.core.errors import NoProjectInSession, PhasesByWindow, UnknownPhase
from aop.core.roles import Role
from aop.forge.broker.fetches import count_fetches
from aop.forge.broker.parts import part_of, pretty
from aop.forge.broker.phase_windows import window_of
from aop.forge.broker.resolution import (
    BUILDER_TEXTS,
    CONTRACT_NAMES,
    FoundContract,
    current_batch,
    find_contract,
    format_of,
    stored_contract,
)
from aop.forge.broker.sessions import Scope, scope_of
from aop.forge.broker.summaries import boundary_summary, brief_of
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType, file_name
from aop.forge.tools.broker import broker_answers as answers
from aop.forge.tools.broker.broker_answers import Named
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.record.port import Snapshot

READERS = frozenset({Role.FORGE_BUILDER, Role.SCOUT, Role.CODER, Role.AUDITOR})
PHASE_READERS = READERS - {Role.AUDITOR}


class GetContract(Arguments, frozen=True, kw_only=True):
    """Arguments of `forge_get_contract`."""

    name: Named
    """The name of the contract, as `forge_list_contracts` has it."""
    section: Named | None = None
    """Only this heading, or in physics and boundaries this JSON pointer."""


class GetPhaseWindow(Arguments, frozen=True, kw_only=True):
    """Arguments of `forge_get_phase_window`."""

    phase_number: Annotated[int, Meta(ge=0)]
    """The first is 0."""


def get_contract(call: Call, arguments: GetContract) -> Outcome:
    """Return a contract of the session's project, or a template where there is none."""
    refuse_phases(arguments.name)
    with call.kernel.record.read() as view:
        scope = _scope_if_any(view, call)
        found = find_contract(view, scope, arguments.name, now=call.kernel.now())
    return contract_answer(call, scope, replace(found, content=pretty(found)), arguments.section)


def refuse_phases(name: str) -> None:
    """Refuse the whole phases contract, which is long (FORGE-033, C-45). Raises: PhasesByWindow."""
    if name == ContractType.PHASES:
        raise PhasesByWindow(
            "Use forge_get_phase_window(phase_number) instead: it answers with one phase and the next."
        )


def contract_answer(call: Call, scope: Scope | None, found: FoundContract, section: str | None) -> Outcome:
    """Return the answer with a contract or a section of it, and count the fetch. Raises: UnknownSection."""
    part = part_of(found, section, call.kernel.tokenizer)
    count_fetches(call, scope, [(found, section)])
    return answers.ContractAnswer(
        **answers.origin(scope, found.batch),
        contract_type=found.name,
        version=found.number,
        source=found.source,
        content=part.content,
        section=section,
        outline=part.outline,
        is_outline_only=part.is_outline_only,
    )


def _scope_if_any(view: Snapshot, call: Call) -> Scope | None:
    try:
        return scope_of(view, call.principal)
    except NoProjectInSession:
        # These tools have no argument for a project; without a session there are the templates (FORGE-088).
        return None


def list_contracts(call: Call, _arguments: Arguments) -> Outcome:
    """List the names of all contracts with file, format and source."""
    with call.kernel.record.read() as view:
        scope = _scope_if_any(view, call)
        current = None if scope is None else current_batch(view, scope)
    rows = []
    for name in CONTRACT_NAMES:
        entry = current.batch.contracts[ContractType(name)] if current and name in CONTRACT_TYPES else None
        is_template = name in CONTRACT_TYPES or name in BUILDER_TEXTS
        rows.append(
            answers.ContractName(
                name=name,
                file=file_name(ContractType(name)) if name in CONTRACT_TYPES else f"{name}.md",
                format=format_of(name),
                version=None if entry is None else entry.number,
                source=current.source if current and entry else "template" if is_template else "artifact",
            )
        )
    return answers.ContractNames(
        **answers.origin(scope, current.batch.number if current else None), contracts=tuple(rows)
    )


def get_summary(call: Call, _arguments: Arguments) -> Outcome:
    """Return layers, rules and one line for each contract."""
    now = call.kernel.now()
    with call.kernel.record.read() as view:
        scope = _scope_if_any(view, call)
        found = [find_contract(view, scope, each, now=now) for each in CONTRACT_TYPES]
    boundaries = next(each.content for each in found if each.name == ContractType.BOUNDARIES)
    shown = boundary_summary(boundaries)
    return answers.SummaryAnswer(
        **answers.origin(scope, found[0].batch),
        layers=shown.layers,
        invariants=shown.invariants,
        contracts=tuple(
            answers.ContractBrief(name=each.name, version=each.number, source=each.source, brief=brief_of(each.content))
            for each in found
        ),
    )


def get_phase_window(call: Call, arguments: GetPhaseWindow) -> Outcome:
    """Return a phase and the next one; a template is not a plan, so there is none without a project."""
    with call.kernel.record.read() as view:
        scope = scope_of(view, call.principal)
        found = stored_contract(view, scope, ContractType.PHASES)
    if found is None:
        raise UnknownPhase("Error: phases.md not found in Forge/Contracts/", project_id=scope.project.project_id)
    window = window_of(found.content, arguments.phase_number)
    count_fetches(call, scope, [(found, f"Phase {arguments.phase_number}")])
    return answers.PhaseWindowAnswer(
        **answers.origin(scope, found.batch),
        version=found.number,
        source=found.source,
        phase_number=arguments.phase_number,
        last_phase=window.last_phase,
        content=window.content,
    )


TOOLS = (
    Tool(
        name="forge_get_contract",
        summary="Read a contract of your project by name, or one section of it.",
        arguments=GetContract,
        output=answers.ContractAnswer,
        roles=READERS,
        run=get_contract,
        lean=True,
    ),
    Tool(
        name="forge_list_contracts",
        summary="List the contracts that can be read: name, file, format, version.",
        arguments=Arguments,
        output=answers.ContractNames,
        roles=READERS,
        run=list_contracts,
        lean=True,
    ),
    Tool(
        name="forge_get_summary",
        summary="Read the layers, their rules, and one line for each contract.",
        arguments=Arguments,
        output=answers.SummaryAnswer,
        roles=READERS,
        run=get_summary,
        lean=True,
    ),
    Tool(
        name="forge_get_phase_window",
        summary="Read one phase of the plan and the next one.",
        arguments=GetPhaseWindow,
        output=answers.PhaseWindowAnswer,
        roles=PHASE_READERS,
        run=get_phase_window,
        lean=True,
    ),
)
