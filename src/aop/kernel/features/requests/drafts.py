"""Drafts of comments: written, edited and deleted by their author until sent."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from aop.core.errors import TooManyComments, UnknownComment, VersionConflict
from aop.core.ids import FeatureId
from aop.kernel.features.requests.change_requests import (
    ChangeRequest,
    ChangeRequests,
    requests_of,
    store_requests,
)
from aop.kernel.record.port import Snapshot, Transaction

LARGEST_COMMENT = 4_000
MOST_DRAFTS = 50
"""So many drafts a feature can have, of all people."""
MOST_COMMENTS = 300
"""So many comments a feature keeps, with those that were followed."""


def drafts_of(view: Snapshot, feature_id: FeatureId, author: str) -> tuple[ChangeRequest, ...]:
    """Return the drafts of one person, oldest first."""
    return tuple(each for each in requests_of(view, feature_id).drafts if each.asked_by == author)


def add_draft(tx: Transaction, feature_id: FeatureId, draft: ChangeRequest) -> ChangeRequest:
    """Store a draft under the next number. Raises: TooManyComments."""
    known = requests_of(tx, feature_id)
    if len(known.drafts) >= MOST_DRAFTS:
        raise TooManyComments(
            f"The feature `{feature_id}` has {MOST_DRAFTS} drafts of comments already.", feature_id=feature_id
        )
    if len(known.drafts) + len(known.requests) + len(known.closed) >= MOST_COMMENTS:
        raise TooManyComments(
            f"The feature `{feature_id}` has {MOST_COMMENTS} comments already.",
            hint="Say it in one text, with `feature.request_changes`, or delete drafts.",
            feature_id=feature_id,
        )
    stored = msgspec.structs.replace(draft, number=known.newest + 1)
    store_requests(tx, msgspec.structs.replace(known, newest=stored.number, drafts=(*known.drafts, stored)))
    return stored


def edit_draft(
    tx: Transaction, feature_id: FeatureId, old: ChangeRequest, *, text: str, revision: int | None
) -> ChangeRequest:
    """Replace the text of a draft, unless it was edited meanwhile. Raises: VersionConflict."""
    if revision is not None and revision != old.revision:
        raise VersionConflict(f"The comment {old.number}", expected=revision, current=old.revision)
    new = msgspec.structs.replace(old, text=text, revision=old.revision + 1)
    known = requests_of(tx, feature_id)
    store_requests(tx, _with_drafts(known, (new if each == old else each for each in known.drafts)))
    return new


def delete_draft(tx: Transaction, feature_id: FeatureId, old: ChangeRequest) -> None:
    """Remove a draft; its number is not used again."""
    known = requests_of(tx, feature_id)
    store_requests(tx, _with_drafts(known, (each for each in known.drafts if each != old)))


def draft_named(view: Snapshot, feature_id: FeatureId, author: str, number: int) -> ChangeRequest:
    """Return a draft of a person. Raises: UnknownComment, also for what was sent or is another person's."""
    own = drafts_of(view, feature_id, author)
    found = [each for each in own if each.number == number]
    if not found:
        listed = ", ".join(str(each.number) for each in own)
        said = f"Your drafts are {listed}." if listed else "You have no drafts."
        raise UnknownComment(
            f"`{feature_id}` has no draft {number} of yours. {said}", feature_id=feature_id, number=number
        )
    return found[0]


def _with_drafts(known: ChangeRequests, drafts: Iterable[ChangeRequest]) -> ChangeRequests:
    return msgspec.structs.replace(known, drafts=tuple(drafts))
