"""Change requests: a person's objections to a feature, open until followed.

A comment is a draft of its author until it is sent; all that is sent at once is one batch. A request to change
something is for the next builder, one about a clause of the plan for the next planner and then the builder, a
rejection of the approach for the next planner. The turn that begins next is given it, and the first patch or plan
after that closes it. A turn that was under way has not seen it, and its answer closes nothing.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from aop.core.ids import FeatureId, TreeId
from aop.core.roles import Role
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.base import Document, Positive, next_version
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.port import Snapshot, Transaction

RequestKind: TypeAlias = Literal["changes", "plan", "rejection"]
Side: TypeAlias = Literal["new", "old"]
LARGEST_REASON = 2_000
MOST_WORDS = 10
"""So many answers of workers are kept for each request, the newest."""


class CommentAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker's word about one request."""

    number: Positive
    """The number of the request."""
    word: Literal["done", "declined"]
    """Whether the worker did it or declines it."""
    reason: Annotated[str, Meta(max_length=LARGEST_REASON)] = ""
    """Why it is declined, or what was done."""


class WorkerWord(Struct, frozen=True, kw_only=True):
    """A worker's answer to a request; AOP does not take it for true."""

    word: Literal["done", "declined"]
    """Whether the worker says that it did it, or declines it."""
    reason: str = ""
    """Its reason, without secrets."""
    by: str
    """The worker."""
    at: str
    """When it was said, in UTC."""
    tree: TreeId
    """The feature's tree at that time."""


class ChangeRequest(Struct, frozen=True, kw_only=True):
    """One objection of a person: a draft, or sent."""

    number: int
    """Its number among the requests for this feature."""
    kind: RequestKind
    """Whether something has to change, the plan has to change first, or the whole approach is rejected."""
    text: str
    """The person's words, without secrets."""
    file: str = ""
    """The file that it is about; empty for the whole feature."""
    lines: str = ""
    """The lines of that file, such as `3-5`; empty for the whole file."""
    quoted: str = ""
    """These lines as they were in the feature's tree, or the clause of the plan, without secrets."""
    tree: TreeId
    """The tree that the person saw."""
    asked_by: str
    """The person."""
    asked_at: str
    """When it was asked for, in UTC."""
    given: bool = False
    """Whether an agent's turn began with it."""
    side: Side = "new"
    """Whether the lines are those of the feature, or those of its base."""
    base: str = ""
    """The tree of the base, for lines of it."""
    clause: str = ""
    """The clause of the plan that it is about: `summary`, `criterion-2`, `risk-1`, `file-3`; empty if it is not."""
    plan_version: int = 0
    """The version of the accepted plan that the person saw; 0 without one."""
    batch: int = 0
    """The number of the batch that it was sent with; 0 for a draft."""
    sent_on: str = ""
    """The feature's tree when it was sent."""
    revision: int = 1
    """How often a draft was written; an edit names the one that it replaces."""
    words: tuple[WorkerWord, ...] = ()
    """The answers of workers, oldest first; empty while none answered."""


class ChangeRequests(Document, frozen=True, kw_only=True):
    """The requests for a feature: drafts, open ones, and those that were followed."""

    kind: ClassVar[str] = "change_requests"

    feature_id: FeatureId
    newest: int = 0
    """The number of the newest request or draft, open or not."""
    requests: tuple[ChangeRequest, ...] = ()
    """Those that are sent and open."""
    drafts: tuple[ChangeRequest, ...] = ()
    closed: tuple[ChangeRequest, ...] = ()
    newest_batch: int = 0


def requests_of(view: Snapshot, feature_id: FeatureId) -> ChangeRequests:
    """Return all requests for a feature; none yet: a document that is not stored."""
    known = view.get(ChangeRequests, feature_id)
    return ChangeRequests(version=1, feature_id=feature_id) if known is None else known


def open_requests(view: Snapshot, feature_id: FeatureId) -> tuple[ChangeRequest, ...]:
    """Return the open requests for a feature, oldest first."""
    return requests_of(view, feature_id).requests


def requests_for(requests: tuple[ChangeRequest, ...], role: Role) -> tuple[ChangeRequest, ...]:
    """Return the requests that a turn of this role has to follow."""
    kinds = ("rejection", "plan") if role is Role.PLANNER else ("changes",)
    return tuple(request for request in requests if request.kind in kinds)


def send_requests(
    tx: Transaction, state: FeatureState, drafts: tuple[ChangeRequest, ...], own: ChangeRequest | None, *, at: str
) -> tuple[ChangeRequest, ...]:
    """Send drafts and a request without a draft as one batch; return them with their numbers.

    A rejection closes all others, which were about the approach that it ends.
    """
    known = requests_of(tx, state.feature_id)
    batch, newest = known.newest_batch + 1, known.newest + (own is not None)
    new = () if own is None else (msgspec.structs.replace(own, number=newest),)
    facts = {"batch": batch, "asked_at": at, "sent_on": state.tree}
    sent = tuple(msgspec.structs.replace(each, **facts) for each in (*drafts, *new))
    is_end = own is not None and own.kind == "rejection"
    changes = {
        "newest": newest,
        "newest_batch": batch,
        "requests": sent if is_end else (*known.requests, *sent),
        "closed": (*known.closed, *known.requests) if is_end else known.closed,
        "drafts": tuple(each for each in known.drafts if each not in drafts),
    }
    store_requests(tx, msgspec.structs.replace(known, **changes))
    return sent


def mark_given(tx: Transaction, feature_id: FeatureId, role: Role) -> tuple[ChangeRequest, ...]:
    """Mark the requests for a role as given to a turn; return them."""
    known = requests_of(tx, feature_id)
    handed = requests_for(known.requests, role)
    if any(not request.given for request in handed):
        marked = (msgspec.structs.replace(each, given=each.given or each in handed) for each in known.requests)
        store_requests(tx, msgspec.structs.replace(known, requests=tuple(marked)))
    return handed


def close_requests(tx: Transaction, call: Call, feature_id: FeatureId, kind: RequestKind) -> bool:
    """Close the requests that a patch or a plan follows; tell whether others of this kind are left."""
    known = open_requests(tx, feature_id)
    followed = tuple(each for each in known if each.kind == kind and is_followed(each, call))
    _close(tx, call, feature_id, followed)
    return any(each.kind == kind and each not in followed for each in known)


def pass_on_to_builder(tx: Transaction, call: Call, feature_id: FeatureId) -> bool:
    """Hand what an accepted plan follows on to the builder, who carries it out; tell whether the planner has more."""
    known = requests_of(tx, feature_id)
    planned = tuple(each for each in known.requests if each.kind == "plan" and is_followed(each, call))
    if planned:
        passed = (
            msgspec.structs.replace(each, kind="changes", given=False) if each in planned else each
            for each in known.requests
        )
        store_requests(tx, msgspec.structs.replace(known, requests=tuple(passed)))
    return any(each.kind == "plan" and each not in planned for each in known.requests)


def record_words(
    tx: Transaction, call: Call, feature_id: FeatureId, words: dict[int, WorkerWord], *, plan_version: int
) -> bool:
    """Store what a worker says of requests that were sent; tell whether that settles all that were open.

    A declined request is closed, and a person sees it. One that is called done is closed only if tree or plan are not
    those that the person saw: the word alone is no change. A planner's word closes nothing, since a builder follows.
    """
    known = requests_of(tx, feature_id)

    def with_word(each: ChangeRequest) -> ChangeRequest:
        new = () if each.number not in words else (words[each.number],)
        return msgspec.structs.replace(each, words=(*each.words, *new)[-MOST_WORDS:])

    requests, closed = tuple(map(with_word, known.requests)), tuple(map(with_word, known.closed))
    store_requests(tx, msgspec.structs.replace(known, requests=requests, closed=closed))
    if call.principal.role is Role.PLANNER:
        return False
    answered = tuple(
        each
        for each in requests
        if each.kind == "changes"
        and each.number in words
        and is_followed(each, call)
        and _counts(each, words[each.number], plan_version)
    )
    _close(tx, call, feature_id, answered)
    return bool(answered) and len(answered) == len(requests)


def _counts(request: ChangeRequest, said: WorkerWord, plan_version: int) -> bool:
    if said.word == "declined":
        return True
    return said.tree != request.sent_on or (bool(request.clause) and plan_version > request.plan_version)


def is_followed(request: ChangeRequest, call: Call) -> bool:
    """Tell whether the answer of a turn can be about a request: the turn began with it."""
    # Only a supervisor sends the answers of turns that may have begun before the request.
    return request.given or call.kernel.epoch is None


def store_requests(tx: Transaction, requests: ChangeRequests) -> None:
    """Store the requests for a feature as the next version."""
    known = tx.get(ChangeRequests, requests.feature_id)
    tx.put(msgspec.structs.replace(requests, version=next_version(known)), requests.feature_id)


def _close(tx: Transaction, call: Call, feature_id: FeatureId, followed: tuple[ChangeRequest, ...]) -> None:
    if not followed:
        return
    known = requests_of(tx, feature_id)
    left = tuple(each for each in known.requests if each not in followed)
    store_requests(tx, msgspec.structs.replace(known, requests=left, closed=(*known.closed, *followed)))
    tx.append(call.event("change_requests_closed", feature_id, numbers=[each.number for each in followed]))
