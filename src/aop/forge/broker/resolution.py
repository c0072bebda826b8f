"""Resolution of a contract: pinned batch, project, template, artifact (FORGE-117)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from aop.core.errors import Json, UnknownContract
from aop.core.text.json import pretty_json
from aop.core.text.suggestions import did_you_mean
from aop.forge.broker.role_briefs import role_prompt
from aop.forge.broker.sessions import Scope
from aop.forge.contracts.examples import example_of
from aop.forge.contracts.types import CONTRACT_TYPES, FORMATS, OTHER_NAMES, BuildMode, ContractFormat, ContractType
from aop.forge.projects.artifacts import CONTRACT_ARTIFACT
from aop.forge.projects.batches import batch_of, contract_in
from aop.forge.projects.documents import Artifact, ContractBatch, ContractVersion, artifact_key
from aop.kernel.record.port import Snapshot

Source: TypeAlias = Literal["snapshot", "db", "template", "artifact"]

BUILDER_TEXTS: Mapping[str, str] = {
    "builder_contract": "builder_contract",
    "system_prompt": "forge_builder",
    "auditor_prompt": "auditor",
    "recovery_planner_prompt": "recovery_planner",
}
"""Texts of the builder that AOP brings along; the other names are in the artifacts of a build, or nowhere."""

CONTRACT_NAMES: tuple[str, ...] = (*CONTRACT_TYPES, *OTHER_NAMES)


class FoundContract(Struct, frozen=True, kw_only=True):
    """A contract, and where it came from."""

    name: str
    content: str
    source: Source
    number: int | None = None
    """The version of the contract; None where the source has none."""
    batch: int | None = None
    updated_at: str = ""

    @property
    def contract_type(self) -> ContractType | None:
        """Return the type, if it is one of the nine."""
        return ContractType(self.name) if self.name in CONTRACT_TYPES else None


class Current(Struct, frozen=True, kw_only=True):
    """The batch that a scope reads."""

    batch: ContractBatch
    source: Source


def current_batch(view: Snapshot, scope: Scope) -> Current | None:
    """Return the pinned batch of the build, else the newest one of the project; None while there is none."""
    project = scope.project
    if scope.build is not None:
        return Current(batch=batch_of(view, project.project_id, scope.build.batch), source="snapshot")
    if not project.batch:
        return None
    return Current(batch=batch_of(view, project.project_id, project.batch), source="db")


def find_contract(view: Snapshot, scope: Scope | None, name: str, *, now: str) -> FoundContract:
    """Return a contract from the first source that has it. Raises: UnknownContract."""
    if name not in CONTRACT_NAMES:
        shown = ascii(name[:80])[1:-1]
        raise UnknownContract(
            f"There is no contract `{shown}`.{did_you_mean(name, CONTRACT_NAMES)}", contracts=list(CONTRACT_NAMES)
        )
    return (
        (stored_contract(view, scope, ContractType(name)) if scope is not None and name in CONTRACT_TYPES else None)
        or template_of("full" if scope is None else scope.project.mode, name)
        or _artifact(view, scope, name, now=now)
        or _refuse_missing(name)
    )


def stored_contract(view: Snapshot, scope: Scope, contract_type: ContractType) -> FoundContract | None:
    """Return a contract of the pinned batch or of the project; None while the project has none."""
    current = current_batch(view, scope)
    return None if current is None else found_in(current, contract_in(view, current.batch, contract_type))


def found_in(current: Current, version: ContractVersion) -> FoundContract:
    """Return a stored version with its source."""
    return FoundContract(
        name=version.contract_type,
        content=version.content,
        source=current.source,
        number=version.number,
        batch=current.batch.number,
        updated_at=version.created_at,
    )


def template_of(mode: BuildMode, name: str) -> FoundContract | None:
    """Return the example of a contract, or a text of the builder; None if AOP brings none along."""
    if name in CONTRACT_TYPES:
        content = example_of(ContractType(name), mode)
    elif name in BUILDER_TEXTS:
        content = role_prompt(BUILDER_TEXTS[name])
    else:
        return None
    return FoundContract(name=name, content=content, source="template")


def _artifact(view: Snapshot, scope: Scope | None, name: str, *, now: str) -> FoundContract | None:
    found = None if scope is None else find_artifact(view, scope, CONTRACT_ARTIFACT, name, now=now)
    if found is None:
        return None
    return FoundContract(name=name, content=text_of(found.content), source="artifact", updated_at=found.created_at)


def find_artifact(view: Snapshot, scope: Scope, artifact_type: str, name: str, *, now: str) -> Artifact | None:
    """Return an artifact of the project; None if there is none, or its day is over."""
    found = view.get(Artifact, artifact_key(scope.project.project_id, artifact_type, name))
    return None if found is None or found.expires_at <= now else found


def text_of(content: Json) -> str:
    """Return what an artifact holds as text; an object or a list as indented JSON (FORGE-032)."""
    return content if isinstance(content, str) else pretty_json(content).decode()


def _refuse_missing(name: str) -> FoundContract:
    raise UnknownContract(f"This project has no `{name}`.", contracts=list(CONTRACT_NAMES))


def format_of(name: str) -> ContractFormat:
    """Return the format of a contract by its name."""
    return FORMATS[ContractType(name)] if name in CONTRACT_TYPES else "markdown"
