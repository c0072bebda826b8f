"""Supervisor epochs: calls of an older supervisor are refused."""

from __future__ import annotations

from typing import ClassVar

from aop.core.errors import SupervisorReplaced
from aop.kernel.record.documents.base import Document
from aop.kernel.record.port import Record, Snapshot


class Supervision(Document, frozen=True, kw_only=True):
    """The newest supervisor: the version of this document is its epoch."""

    kind: ClassVar[str] = "supervision"
    key: ClassVar[str] = "newest"


def begin_epoch(record: Record) -> int:
    """Begin the epoch of a new supervisor; those of all others are over."""
    with record.write() as tx:
        epoch = newest_epoch(tx) + 1
        tx.put(Supervision(version=epoch), Supervision.key)
    return epoch


def newest_epoch(view: Snapshot) -> int:
    """Return the epoch of the supervisor that began last; 0 if none ever did."""
    known = view.get(Supervision, Supervision.key)
    return 0 if known is None else known.version


def refuse_old_epoch(view: Snapshot, epoch: int | None) -> None:
    """Refuse a call of a supervisor whose epoch is over; other callers have no epoch. Raises: SupervisorReplaced."""
    if epoch is not None and epoch != newest_epoch(view):
        raise SupervisorReplaced("Another supervisor has taken over this repository.", epoch=epoch)
