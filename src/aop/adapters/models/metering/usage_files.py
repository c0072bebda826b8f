"""Usage files: the counts of open meters, for turns that are killed."""

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
    """The usage that one meter has counted."""

    since: str
    """The time at which the meter was opened."""
    usage: Usage


class UsageFiles:
    """One file for each role of a feature; a role takes one turn at a time."""

    def __init__(self, root: Path) -> None:
        self._folder = root / FOLDER

    def store(self, feature_id: FeatureId, role: Role, counted: MeterCount) -> None:
        """Replace the stored count; it survives a killed process, but not always a power cut."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(feature_id, role)
        beside = path.with_suffix(".tmp")
        beside.write_bytes(msgspec.json.encode(counted))
        os.replace(beside, path)

    def usage_since(self, feature_id: FeatureId, role: Role, *, since: str) -> Usage | None:
        """Return the usage of a meter that was opened since a time; None if there is none or it is unreadable."""
        with suppress(OSError, msgspec.DecodeError):
            counted = msgspec.json.decode(self._path(feature_id, role).read_bytes(), type=MeterCount)
            return counted.usage if counted.since >= since else None
        return None

    def _path(self, feature_id: FeatureId, role: Role) -> Path:
        return self._folder / f"{feature_id}.{role}.json"
