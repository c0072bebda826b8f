"""Change requests: a person's objections to a feature, open until followed.

A request to change something is for the next builder, a rejection of the approach for the next planner. The turn that
begins next is given it, and the first patch or plan after that closes it. A turn that was under way has not seen it,
and its answer closes nothing.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct

from aop.core.ids import FeatureId, TreeId
from aop.core.roles import Role
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.base import Document, next_version
from aop.kernel.record.port import Snapshot, Transaction

RequestKind: TypeAlias = Literal["changes", "rejection"]


class ChangeRequest(Struct, frozen=True, kw_only=True):
    """One objection of a person."""

    number: int
    """Its number among the requests for this feature."""
    kind: RequestKind
    """Whether something has to change, or the whole approach is rejected."""
    text: str
    """The person's words, without secrets."""
    file: str = ""
    """The file that it is about; empty for the whole feature."""
    lines: str = ""
    """The lines of that file, such as `3-5`; empty for the whole file."""
    quoted: str = ""
    """These lines as they were in the feature's tree, without secrets."""
    tree: TreeId
    """The tree that the person saw."""
    asked_by: str
    """The person."""
    asked_at: str
    """When it was asked for, in UTC."""
    given: bool = False
    """Whether an agent's turn began with it."""


class ChangeRequests(Document, frozen=True, kw_only=True):
    """The open requests for a feature."""

    kind: ClassVar[str] = "change_requests"

    feature_id: FeatureId
    newest: int = 0
    """The number of the newest request, open or not."""
    requests: tuple[ChangeRequest, ...] = ()


def open_requests(view: Snapshot, feature_id: FeatureId) -> tuple[ChangeRequest, ...]:
    """Return the open requests for a feature, oldest first."""
    known = view.get(ChangeRequests, feature_id)
    return () if known is None else known.requests


def requests_for(requests: tuple[ChangeRequest, ...], role: Role) -> tuple[ChangeRequest, ...]:
    """Return the requests that a turn of this role has to follow."""
    kind = "rejection" if role is Role.PLANNER else "changes"
    return tuple(request for request in requests if request.kind == kind)


def add_request(tx: Transaction, feature_id: FeatureId, request: ChangeRequest) -> ChangeRequest:
    """Store a request under the next number; a rejection replaces all others, which were about the approach it ends."""
    known = tx.get(ChangeRequests, feature_id)
    number = 1 if known is None else known.newest + 1
    stored = msgspec.structs.replace(request, number=number)
    others = () if known is None or stored.kind == "rejection" else known.requests
    _store(tx, feature_id, (*others, stored), newest=number)
    return stored


def mark_given(tx: Transaction, feature_id: FeatureId, role: Role) -> tuple[ChangeRequest, ...]:
    """Mark the requests for a role as given to a turn; return them."""
    known = open_requests(tx, feature_id)
    handed = requests_for(known, role)
    if any(not request.given for request in handed):
        marked = (msgspec.structs.replace(each, given=each.given or each in handed) for each in known)
        _store(tx, feature_id, tuple(marked))
    return handed


def close_requests(tx: Transaction, call: Call, feature_id: FeatureId, kind: RequestKind) -> bool:
    """Close the requests that a patch or a plan follows; tell whether others of this kind are left."""
    known = open_requests(tx, feature_id)
    left = tuple(each for each in known if each.kind != kind or not _is_followed(each, call))
    if left != known:
        _store(tx, feature_id, left)
        closed = [each.number for each in known if each not in left]
        tx.append(call.event("change_requests_closed", feature_id, numbers=list(closed)))
    return any(each.kind == kind for each in left)


def _is_followed(request: ChangeRequest, call: Call) -> bool:
    # Only a supervisor sends the answers of turns that may have begun before the request.
    return request.given or call.kernel.epoch is None


def _store(
    tx: Transaction, feature_id: FeatureId, requests: tuple[ChangeRequest, ...], *, newest: int | None = None
) -> None:
    known = tx.get(ChangeRequests, feature_id)
    number = newest if newest is not None else 0 if known is None else known.newest
    document = ChangeRequests(version=next_version(known), feature_id=feature_id, newest=number, requests=requests)
    tx.put(document, feature_id)
