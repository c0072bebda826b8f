"""Status history: the statuses that each feature had, from the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from aop.core.ids import FeatureId
from aop.kernel.record.documents.features import Status
from aop.kernel.record.port import JournalEntry

STOPPED = "A person stopped it."
"""The reason of a feature that a person stopped."""
STATUS_EVENTS: Mapping[str, Status | None] = {
    "feature_initialised": Status.PLANNING,
    "plan_accepted": Status.BUILDING,
    "plan_revised": None,
    "plan_blocked": Status.BLOCKED,
    "blocked_plan_refused": None,
    "gates_ran": None,
    "gates_reused": None,
    "status_changed": None,
    "feature_merged": Status.MERGED,
    "feature_deleted": None,
    "workflow_reset": Status.FAILED,
}
"""The kinds that set a status, with the one that they set where the entry itself names none."""


class StatusStep(Struct, frozen=True, kw_only=True):
    """A feature that got a status."""

    feature_id: FeatureId
    status: Status | None
    """None: it was deleted."""
    reason: str
    seq: int
    at: str


def status_steps(entries: Iterable[JournalEntry]) -> Iterator[StatusStep]:
    """Yield each change of a status, in order; an entry that repeats the status is left out."""
    known: dict[FeatureId, Status | None] = {}
    for entry in entries:
        event = entry.event
        if event.feature_id is None or event.kind not in STATUS_EVENTS:
            continue
        status = _status_after(event.kind, event.payload, known.get(event.feature_id))
        if event.kind == "feature_initialised" or status != known.get(event.feature_id):
            known[event.feature_id] = status
            reason = str(event.payload.get("reason") or "")
            yield StatusStep(feature_id=event.feature_id, status=status, reason=reason, seq=entry.seq, at=event.at)


def _status_after(kind: str, payload: Mapping[str, object], before: Status | None) -> Status | None:
    if kind == "feature_deleted":
        return None
    named = payload.get("new") if kind == "status_changed" else payload.get("status")
    if named in tuple(Status):
        return Status(str(named))
    return STATUS_EVENTS[kind] or before
