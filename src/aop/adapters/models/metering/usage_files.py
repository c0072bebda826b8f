"""What meters have counted so far, kept beside the record: of a turn that is killed, this is all that is known."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.record.documents.usage import Usage

FOLDER = Path(".aop") / "metering"


class MeterCount(Struct, frozen=True, kw_only=True):
    """What passed through one meter."""

    since: str
    """When the meter was opened."""
    usage: Usage


class UsageFiles:
    """One file for each role of a feature: nobody takes two turns at once in one role."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER

    def store(self, feature_id: FeatureId, role: Role, kept: MeterCount) -> None:
        """Replace what is kept; a power cut may take it back, the death of this process does not."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(feature_id, role)
        beside = path.with_suffix(".tmp")
        beside.write_bytes(msgspec.json.encode(kept))
        os.replace(beside, path)

    def usage_since(self, feature_id: FeatureId, role: Role, *, since: str) -> Usage | None:
        """Return what a meter counted that was opened after a moment; None if there was none, or it cannot be read."""
        with suppress(OSError, msgspec.DecodeError):
            kept = msgspec.json.decode(self._path(feature_id, role).read_bytes(), type=MeterCount)
            return kept.usage if kept.since >= since else None
        return None

    def _path(self, feature_id: FeatureId, role: Role) -> Path:
        return self._folder / f"{feature_id}.{role}.json"
