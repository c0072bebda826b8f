"""Answers of the broker's tools: each names project, build, batch and source."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypedDict

from msgspec import Meta, Struct

from aop.forge.broker.resolution import Source
from aop.forge.broker.sessions import Scope
from aop.forge.broker.summaries import LayerBrief
from aop.forge.contracts.types import BuildMode, ContractFormat
from aop.forge.projects.documents import Flow, ProjectStatus
from aop.kernel.gateway.calls import Arguments

Named: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class ScopedArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of a tool that reads one project."""

    project_id: Named | None = None
    """Default: the project of your session."""


class Origin(Struct, frozen=True, kw_only=True):
    """The project and build that an answer is from."""

    project_id: str | None
    """The project; null where the answer is of none."""
    build_id: str | None
    """The build whose pinned contracts were read; null where there is none."""
    batch: int | None
    """The batch of contracts; null where the source has none."""


class OriginFields(TypedDict):
    """The fields of `Origin`."""

    project_id: str | None
    build_id: str | None
    batch: int | None


def origin(scope: Scope | None, batch: int | None) -> OriginFields:
    """Return the fields that every answer has."""
    if scope is None:
        return OriginFields(project_id=None, build_id=None, batch=batch)
    return OriginFields(project_id=scope.project.project_id, build_id=scope.build_id, batch=batch)


class Sourced(Origin, frozen=True, kw_only=True):
    """An answer from one source."""

    source: Source
    """`snapshot`: pinned; `db`: the newest; `template`: an example of another project; `artifact`: kept for a day."""


class ContractAnswer(Sourced, frozen=True, kw_only=True, omit_defaults=True):
    """A contract, or a part of it."""

    contract_type: str
    """The name of the contract."""
    version: int | None
    """The version of the contract; null where the source has none."""
    content: str
    """The text; empty where it would be too long."""
    section: str | None = None
    """The part that was asked for."""
    outline: tuple[str, ...] = ()
    """The sections that can be asked for."""
    is_outline_only: bool = False
    """True: the text has more than 20,000 tokens; ask for a section."""


class ContractName(Struct, frozen=True, kw_only=True):
    """One contract of a list."""

    name: str
    """The name to ask for."""
    file: str
    """Its file name."""
    format: ContractFormat
    """Its format."""
    version: int | None
    """The version of the contract; null where the source has none."""
    source: Source
    """Where it would come from."""


class ContractNames(Origin, frozen=True, kw_only=True):
    """The contracts that can be asked for."""

    contracts: tuple[ContractName, ...]
    """All of them."""


class ContractBrief(Struct, frozen=True, kw_only=True):
    """A contract in one line."""

    name: str
    """The name to ask for."""
    version: int | None
    """The version of the contract; null where the source has none."""
    source: Source
    """Where it comes from."""
    brief: str
    """Its first sentence."""


class SummaryAnswer(Origin, frozen=True, kw_only=True):
    """The overview of all contracts."""

    layers: tuple[LayerBrief, ...]
    """The layers of the boundaries contract."""
    invariants: tuple[str, ...]
    """What the layers must not do."""
    contracts: tuple[ContractBrief, ...]
    """Each contract in one line."""


class PhaseWindowAnswer(Sourced, frozen=True, kw_only=True):
    """A phase and the next one."""

    version: int | None
    """The version of the phases contract."""
    phase_number: int
    """The phase that was asked for."""
    last_phase: int
    """The number of the last phase."""
    content: str
    """The text of the phase and of the next one."""


class ContractRow(Struct, frozen=True, kw_only=True):
    """A stored contract without its text."""

    contract_type: str
    """The name of the contract."""
    version: int
    """The version of the contract."""
    updated_at: str
    """When this version was stored, in UTC."""


class ProjectContracts(Sourced, frozen=True, kw_only=True):
    """The stored contracts of a project or build."""

    items: tuple[ContractRow, ...]
    """The contracts; none while the project has none."""


class ProjectHead(Struct, frozen=True, kw_only=True):
    """A project in the words of its record."""

    id: str
    """The project."""
    name: str
    """Its name, for people."""
    status: ProjectStatus
    """How far it is."""
    mode: BuildMode
    """`mini`: two phases."""
    flow: Flow
    """`scout`: begun from an existing repository."""


class SizedContractRow(ContractRow, frozen=True, kw_only=True):
    """A stored contract without its text, and how long that is."""

    size_chars: int
    """The length of its text."""


class ProjectContext(Sourced, frozen=True, kw_only=True):
    """What is known of a project, without any contract's text."""

    project: ProjectHead
    """The project."""
    contracts: tuple[SizedContractRow, ...]
    """The contracts with their sizes."""
    build_count: int
    """How many builds it had."""
    latest_batch: int | None
    """The newest batch; null while there is none."""


class BuildContract(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pinned contract."""

    contract_type: str
    """The name of the contract."""
    version: int
    """The version of the contract."""
    content: str
    """The text; empty where all of them would be too long."""
    outline: tuple[str, ...] = ()
    """The sections that can be asked for."""
    is_outline_only: bool = False
    """True: the texts have more than 20,000 tokens; ask for a section."""


class BuildContracts(Sourced, frozen=True, kw_only=True):
    """The contracts that a build is pinned to."""

    pinned_at: str
    """When the build began with them, in UTC."""
    items: tuple[BuildContract, ...]
    """The contracts."""


class SessionAnswer(Struct, frozen=True, kw_only=True):
    """The session of a token."""

    ok: bool
    """True: the session was moved."""
    project_id: str
    """The project that is read from now on."""
    build_id: str | None
    """The build; null: the project's newest contracts are read."""
    user_id: str
    """The owner of the project."""


class ArtifactAnswer(Sourced, frozen=True, kw_only=True):
    """An artifact of a build."""

    type: str
    """The type of the artifact."""
    key: str
    """Its name within the type."""
    content: Any
    """What it holds."""
    created_at: str
    """When it was stored, in UTC."""
    expires_at: str
    """When it is gone, in UTC."""


class ScratchpadAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The scratchpad, or one entry of it."""

    project_id: str
    """The project of the build."""
    build_id: str
    """The build whose notes these are."""
    key: str | None = None
    """The note that was read or written."""
    value: str | None = None
    """What it holds now."""
    keys: tuple[str, ...] | None = None
    """All keys, of `list`."""
