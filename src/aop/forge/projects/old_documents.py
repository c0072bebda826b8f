"""Old documents of forge: artifacts, sessions and scans that nothing reads again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal

from aop.core.clock import timestamp
from aop.forge.projects.documents import Artifact, BrokerSession, ForgeProject, ScoutRun, artifact_key
from aop.kernel.gateway.tokens import IssuedToken
from aop.kernel.record.documents.base import Document
from aop.kernel.record.port import Snapshot

OldKind = Literal["artifact", "session", "scan"]
SHAPES: Mapping[OldKind, type[Document]] = {"artifact": Artifact, "session": BrokerSession, "scan": ScoutRun}
SCAN_DAYS = 90
"""How long a scan is kept that is neither the newest of its project nor the baseline of a build."""


def old_documents(view: Snapshot, now: datetime) -> Iterator[tuple[OldKind, str]]:
    """Return the kind and the key of each document that may go."""
    moment, day = timestamp(now), timestamp(now - timedelta(days=SCAN_DAYS))
    for artifact in view.all(Artifact):
        if artifact.expires_at <= moment:
            yield "artifact", artifact_key(artifact.project_id, artifact.artifact_type, artifact.name)
    for session in view.all(BrokerSession):
        token = view.get(IssuedToken, session.token_id)
        if token is None or token.revoked_at or token.expires_at <= moment:
            yield "session", session.token_id
    for scan in view.all(ScoutRun):
        project = view.get(ForgeProject, scan.project_id)
        is_newest = project is not None and project.scan_run == scan.run_id
        if not (scan.locked_by or is_newest) and scan.updated_at <= day:
            yield "scan", scan.run_id
