"""Artifact drop: `aop gc` removes an artifact whose day is over."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.forge.projects.documents import Artifact
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.record.port import Transaction


class DropArtifact(Arguments, frozen=True, kw_only=True):
    key: Annotated[str, Meta(min_length=1, max_length=300)]
    """The key of the artifact, `project:ID:TYPE:NAME`."""


class Dropped(Struct, frozen=True, kw_only=True):
    key: str
    """The key of the artifact."""
    dropped: bool
    """False if it is gone already, or was stored again meanwhile."""


def drop(call: Call, arguments: DropArtifact, tx: Transaction) -> Outcome:
    """Remove an artifact, unless it was stored again meanwhile."""
    found = tx.get(Artifact, arguments.key)
    if found is None or found.expires_at > call.kernel.now():
        return Dropped(key=arguments.key, dropped=False)
    tx.remove(Artifact, arguments.key)
    tx.append(call.event("leftover_removed", None, what="artifact", name=arguments.key, ref=None))
    return Dropped(key=arguments.key, dropped=True)


TOOLS = (
    Tool(
        name="forge.artifact_drop",
        summary="Remove an artifact of a build whose 24 hours are over.",
        arguments=DropArtifact,
        output=Dropped,
        roles=SYSTEM,
        run=committed(drop),
        mutates=True,
        brief=True,
        idempotent=True,
        person_only=True,
    ),
)
