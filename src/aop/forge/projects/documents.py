"""Documents of forge: projects, answers, scans, contracts, batches, builds, keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from aop.core.digests import sha256_hex
from aop.core.ids import CommitId
from aop.core.text.json import canonical_json
from aop.forge.contracts.types import BuildMode, ContractType
from aop.kernel.record.documents.base import Document, NonEmpty, Positive

LOCAL_USER = "local"
"""The user that a repository has by default; a person at its terminal is this user."""

PROJECT_ID_PATTERN = "^[a-z0-9][a-z0-9_-]{0,62}$"
ProjectId = Annotated[str, Meta(pattern=PROJECT_ID_PATTERN)]
BuildId = NonEmpty
ProjectStatus = Literal["draft", "questionnaire", "contracts_generated", "building", "completed"]
Flow = Literal["greenfield", "scout"]


class ForgeUser(Document, frozen=True, kw_only=True):
    """An owner of projects and keys. Key: the user id."""

    kind: ClassVar[str] = "forge_user"

    user_id: NonEmpty
    name: str = ""
    created_at: NonEmpty


class ForgeProject(Document, frozen=True, kw_only=True):
    """An idea or an old repository that gets contracts. Key: the project id."""

    kind: ClassVar[str] = "forge_project"

    project_id: ProjectId
    name: NonEmpty
    owner: NonEmpty = LOCAL_USER
    mode: BuildMode = "full"
    flow: Flow = "greenfield"
    status: ProjectStatus = "draft"
    created_at: NonEmpty
    updated_at: NonEmpty
    batch: int = 0
    """The number of the newest batch; 0 while there is none."""
    build_count: int = 0
    scan_run: str = ""
    """The newest scan; empty for a project that was never scanned."""
    deleted_at: str = ""
    """When it was deleted; then nothing but its id and its owner is left."""


class ForgeAnswers(Document, frozen=True, kw_only=True):
    """The answers to the questionnaire. Key: the project id."""

    kind: ClassVar[str] = "forge_answers"

    project_id: ProjectId
    sections: Mapping[str, Mapping[str, Any]] = {}
    """The answers by section and field, as far as they were given."""
    updated_at: NonEmpty


class ScoutRun(Document, frozen=True, kw_only=True):
    """A deep scan of one commit, and the renovation plan made from it. Key: the run id."""

    kind: ClassVar[str] = "scout_run"

    run_id: NonEmpty
    project_id: ProjectId
    scan_type: Literal["deep", "quick"] = "deep"
    status: Literal["running", "completed", "failed"] = "completed"
    head_sha: CommitId
    results: Mapping[str, Any] = {}
    plan: Mapping[str, Any] | None = None
    locked_by: str = ""
    """The build that takes its baseline from it; empty if there is none."""
    created_at: NonEmpty
    updated_at: NonEmpty


class ContractVersion(Document, frozen=True, kw_only=True):
    """One version of one contract: written once, so its document version stays 1. Key: `contract_key`."""

    kind: ClassVar[str] = "contract"

    project_id: ProjectId
    contract_type: ContractType
    number: Positive
    """The version of the contract."""
    content: str
    sha256: NonEmpty
    author: NonEmpty
    """`generated`, or the person who edited it."""
    created_at: NonEmpty


class BatchEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One contract of a batch."""

    number: Positive
    sha256: NonEmpty


class ContractBatch(Document, frozen=True, kw_only=True):
    """Nine contract versions that belong together: written once. Key: `batch_key`."""

    kind: ClassVar[str] = "contract_batch"

    project_id: ProjectId
    number: Positive
    contracts: Mapping[ContractType, BatchEntry]
    sha256: NonEmpty
    """The digest over the contents, see `batch_digest`; the journal holds it too."""
    created_at: NonEmpty


class ForgeBuild(Document, frozen=True, kw_only=True):
    """A build and the batch that it began with. Key: the build id."""

    kind: ClassVar[str] = "forge_build"

    build_id: BuildId
    project_id: ProjectId
    batch: Positive
    sha256: NonEmpty
    pinned_at: NonEmpty


class BrokerSession(Document, frozen=True, kw_only=True):
    """The project and build that a token reads now, within its reach. Key: the token id."""

    kind: ClassVar[str] = "broker_session"

    token_id: NonEmpty
    project_id: ProjectId
    build_id: str = ""
    user_id: NonEmpty = LOCAL_USER


class ForgeKey(Document, frozen=True, kw_only=True):
    """A key for the HTTP interface; its text is shown once and stored nowhere. Key: the prefix."""

    kind: ClassVar[str] = "forge_key"

    prefix: NonEmpty
    sha256: NonEmpty
    owner: NonEmpty
    label: str = ""
    scopes: tuple[str, ...] = ("read",)
    created_at: NonEmpty
    last_used: str = ""
    revoked_at: str = ""


class Artifact(Document, frozen=True, kw_only=True):
    """Something that a build keeps for a day. Key: `artifact_key`."""

    kind: ClassVar[str] = "artifact"

    project_id: ProjectId
    artifact_type: NonEmpty
    name: NonEmpty
    content: Any
    created_at: NonEmpty
    expires_at: NonEmpty


class ScratchNote(Document, frozen=True, kw_only=True):
    """One entry of the scratchpad of a build. Key: `build/key`."""

    kind: ClassVar[str] = "scratch"

    build_id: BuildId
    name: NonEmpty
    value: str
    updated_at: NonEmpty


class ProjectNote(Document, frozen=True, kw_only=True):
    """The notepad that a person keeps for a project. Key: `note_key`."""

    kind: ClassVar[str] = "project_note"

    project_id: ProjectId
    user_id: NonEmpty = LOCAL_USER
    content: str = ""
    updated_at: NonEmpty


class AcceptedClause(Document, frozen=True, kw_only=True):
    """A violation that a person accepted, with the lines it was accepted for. Key: `project/clause`."""

    kind: ClassVar[str] = "accepted_clause"

    project_id: ProjectId
    clause: NonEmpty
    commit: CommitId
    lines: tuple[str, ...]
    """`file:sha256 of the line`, for each violation that is accepted."""
    accepted_by: NonEmpty
    accepted_at: NonEmpty


def contract_key(project_id: str, contract_type: ContractType, number: int) -> str:
    """Return the key of a contract version; the number sorts as text."""
    return f"{project_id}/{contract_type}/{number:06}"


def batch_key(project_id: str, number: int) -> str:
    """Return the key of a batch."""
    return f"{project_id}/{number:06}"


def artifact_key(project_id: str, artifact_type: str, name: str) -> str:
    """Return the key of an artifact (FORGE-089)."""
    return f"project:{project_id}:{artifact_type}:{name}"


def note_key(project_id: str, user_id: str) -> str:
    """Return the key of a note: one a project and person (FORGE-217)."""
    return f"{project_id}/{user_id}"


def batch_digest(contracts: Mapping[ContractType, BatchEntry]) -> str:
    """Return the digest over the contents of a batch."""
    return sha256_hex(canonical_json({each: entry.sha256 for each, entry in contracts.items()}))
