"""Artifacts: what a build keeps for a day (FORGE-089)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from msgspec import Struct

from aop.core.clock import timestamp
from aop.core.errors import InvalidArguments, Json
from aop.core.redaction.redactor import mask_json
from aop.core.structs import copy_fields
from aop.forge.projects.documents import Artifact, ContractVersion, artifact_key
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.port import Snapshot, Transaction

CONTRACT_ARTIFACT = "contract"
"""The type of an artifact that stands for a contract."""
LIFE = timedelta(hours=24)
LONGEST_PART = 60
"""The most characters of a type or a name."""


class ArtifactPlace(Struct, frozen=True, kw_only=True):
    """What names an artifact."""

    project_id: str
    artifact_type: str
    name: str

    @property
    def key(self) -> str:
        """Return its key in the record."""
        return artifact_key(self.project_id, self.artifact_type, self.name)


def store_artifact(kernel: Kernel, tx: Transaction, place: ArtifactPlace, content: Json) -> Artifact:
    """Store an artifact for a day, in place of one of the same name. Raises: InvalidArguments."""
    for part in (place.artifact_type, place.name):
        if not 0 < len(part) <= LONGEST_PART or not part.isprintable() or ":" in part:
            raise InvalidArguments(f"`{ascii(part[:80])[1:-1]}` cannot name an artifact.")
    now = kernel.clock.now()
    made = copy_fields(
        Artifact,
        place,
        version=next_version(tx.get(Artifact, place.key)),
        content=mask_json(content, kernel.redact.mask_secrets),
        created_at=timestamp(now),
        expires_at=timestamp(now + LIFE),
    )
    tx.put(made, place.key)
    return made


def copy_to_artifacts(kernel: Kernel, tx: Transaction, contracts: Iterable[ContractVersion]) -> None:
    """Keep the newest contracts beside the other artifacts of their project, for a day (FORGE-144)."""
    for each in contracts:
        place = ArtifactPlace(project_id=each.project_id, artifact_type=CONTRACT_ARTIFACT, name=each.contract_type)
        store_artifact(kernel, tx, place, each.content)


def artifact_of(kernel: Kernel, view: Snapshot, place: ArtifactPlace) -> Artifact | None:
    """Return an artifact; None if there is none, or its day is over."""
    found = view.get(Artifact, place.key)
    return None if found is None or found.expires_at <= kernel.now() else found
