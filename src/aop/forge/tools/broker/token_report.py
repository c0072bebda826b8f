"""Tool `forge.tokens`: what agents and models are sent, beside the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from aop.core.errors import ForgeSupportMissing, Json, Refusal
from aop.core.roles import Role
from aop.forge.broker.fetches import fetched_part, fetches_of_project
from aop.forge.broker.resolution import current_batch
from aop.forge.broker.role_briefs import BRIEFED_ROLES, role_brief
from aop.forge.broker.sessions import Scope, scope_named
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from aop.forge.generation.inputs import GenerationInputs, inputs_of
from aop.forge.generation.missions import Assignment
from aop.forge.measure.token_counts import (
    FIXED_CONTEXT_LIMIT,
    ContractGeneration,
    LoopTokens,
    RoleTokens,
    loop_tokens,
    role_tokens,
)
from aop.forge.projects.batches import contracts_in
from aop.forge.projects.documents import ForgeBuild, ForgeProject
from aop.forge.tools.broker.broker_answers import Named
from aop.kernel.contracts.listed_tools import listed_tool
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.gateway import may_use
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.ports.tokenizer import Tokenizer
from aop.kernel.record.port import Snapshot

GENERATED = "contracts_generated"
_FENCE = "0123456789abcdef"
"""As long as the fence of a real prompt."""


class CountTokens(Arguments, frozen=True, kw_only=True):
    """Arguments of `forge.tokens`."""

    target: Named
    """A project or a build."""


class GenerationTokens(Struct, frozen=True, kw_only=True):
    """What the generation sent, and what it would have sent by snowball."""

    tool_use: LoopTokens
    """The contracts that a model wrote with tools."""
    snowball: LoopTokens
    """The same contracts with everything in one prompt each, computed from what the record holds now."""
    contracts: tuple[ContractGeneration, ...]
    """Each generated contract."""


class TokenReport(Struct, frozen=True, kw_only=True):
    """The token economy of a project or a build."""

    project_id: str
    """The project."""
    build_id: str | None
    """The build; null: all of the project."""
    batch: int | None
    """The batch of contracts; null while there is none."""
    tokenizer: str
    """The vocabulary that counted."""
    is_estimate: bool
    """True: another provider's vocabulary counts differently; `reported_...` is what providers said."""
    push: int
    """All nine contracts, which pushing would put into every prompt."""
    fixed_context: int
    """The largest brief with its tool definitions."""
    fixed_context_limit: int
    """What it may be at most."""
    roles: dict[str, RoleTokens]
    """What each role is sent."""
    generation: GenerationTokens
    """What writing the contracts took."""


def count_tokens(call: Call, arguments: CountTokens) -> Outcome:
    """Count what the record holds of a project or a build."""
    tokenizer = call.kernel.tokenizer
    if tokenizer is None:
        raise ForgeSupportMissing("This installation of AOP cannot count tokens.")
    with call.kernel.record.read() as view:
        scope = _scope(view, call.principal, arguments.target)
        current = current_batch(view, scope)
        texts = (
            {} if current is None else {each.contract_type: each.content for each in contracts_in(view, current.batch)}
        )
        roles = _roles(view, call.kernel, tokenizer, scope)
        generation = _generation(view, tokenizer, scope.project, texts)
    return TokenReport(
        project_id=scope.project.project_id,
        build_id=scope.build_id,
        batch=None if current is None else current.batch.number,
        tokenizer=tokenizer.name,
        is_estimate=True,
        push=sum(map(tokenizer.count, texts.values())),
        fixed_context=max(each.fixed for each in roles.values()),
        fixed_context_limit=FIXED_CONTEXT_LIMIT,
        roles=roles,
        generation=generation,
    )


def _scope(view: Snapshot, principal: Principal, target: str) -> Scope:
    is_build = view.get(ForgeBuild, target) is not None
    return scope_named(view, principal, None if is_build else target, target if is_build else None)


def _roles(view: Snapshot, kernel: Kernel, tokenizer: Tokenizer, scope: Scope) -> dict[str, RoleTokens]:
    fetched: dict[str, list[str]] = {role.value: [] for role in BRIEFED_ROLES}
    for entry in fetches_of_project(view, scope.project.project_id):
        payload = entry.event.payload
        if scope.build_id in (None, payload["build_id"]) and payload["role"] in fetched:
            fetched[str(payload["role"])].append(fetched_part(view, scope.project, payload, tokenizer))
    return {
        role.value: role_tokens(tokenizer, role_brief(role), definitions_for(kernel, role), fetched[role.value])
        for role in BRIEFED_ROLES
    }


def definitions_for(kernel: Kernel, role: Role) -> list[Mapping[str, Json]]:
    """Return the definitions of the tools that an agent of a role is listed."""
    who, policy = Principal(role=role, actor=role), kernel.config().policy
    return [listed_tool(tool) for _, tool in sorted(kernel.tools.items()) if may_use(tool, who, policy)]


def _generation(
    view: Snapshot, tokenizer: Tokenizer, project: ForgeProject, texts: Mapping[ContractType, str]
) -> GenerationTokens:
    used = _usage(view, project.project_id)
    snowball = _snowball(view, tokenizer, project, texts)
    sizes = [snowball[each] for each in snowball if each in used]
    return GenerationTokens(
        tool_use=loop_tokens(row for row in used.values() if row.get("way") == "tools"),
        snowball=LoopTokens(requests=len(sizes), sent=sum(sizes) if sizes else None, cached=0 if sizes else None),
        contracts=tuple(_contract_row(each, used[each], snowball.get(each)) for each in CONTRACT_TYPES if each in used),
    )


def _contract_row(contract_type: ContractType, used: Mapping[str, Json], snowball: int | None) -> ContractGeneration:
    total = loop_tokens([used])
    return ContractGeneration(
        contract_type=contract_type.value,
        way=str(used.get("way", "tools")),
        requests=total.requests,
        sent=total.sent,
        snowball=snowball,
    )


def _usage(view: Snapshot, project_id: str) -> dict[ContractType, Mapping[str, Json]]:
    """Return what the newest generation of each contract took."""
    found: dict[ContractType, Mapping[str, Json]] = {}
    for entry in view.journal(kinds=(GENERATED,)):
        payload = entry.event.payload
        usage = payload.get("usage")
        if payload.get("project_id") == project_id and isinstance(usage, Mapping):
            found |= {ContractType(each): used for each, used in usage.items() if isinstance(used, Mapping)}
    return found


def _snowball(
    view: Snapshot, tokenizer: Tokenizer, project: ForgeProject, texts: Mapping[ContractType, str]
) -> dict[ContractType, int]:
    """Return the size of the one request for each contract; nothing where its inputs are no longer there."""
    try:
        inputs = inputs_of(view, project)
    except Refusal:
        return {}
    return {
        each: tokenizer.count(
            _snowball_request(each, inputs, {prior: texts[prior] for prior in CONTRACT_TYPES[:place]})
        )
        for place, each in enumerate(CONTRACT_TYPES if texts else ())
    }


def _snowball_request(contract_type: ContractType, inputs: GenerationInputs, prior: Mapping[ContractType, str]) -> str:
    """Return the text of the request that would write a contract without tools, with all earlier ones in it."""
    assignment = Assignment(contract_type=contract_type, inputs=inputs, prior=prior, fence=_FENCE, way="snowball")
    prompt = assignment.prompt()
    return f"{prompt.instructions}\n{prompt.text}"


TOOLS: Sequence[Tool] = (
    Tool(
        name="forge.tokens",
        summary="Count the tokens that agents were sent for a project or a build, and what pushing would send.",
        arguments=CountTokens,
        output=TokenReport,
        roles=COORDINATORS,
        run=count_tokens,
        person_only=True,
    ),
)
