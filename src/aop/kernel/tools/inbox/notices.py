"""Tool `notices.note`: which notices were sent, so that none is sent twice."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

from aop.core.ids import FeatureId
from aop.core.structs import copy_fields
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, committed, the_feature
from aop.kernel.gateway.role_sets import SYSTEM
from aop.kernel.record.documents.base import Document, NonEmpty, next_version
from aop.kernel.record.port import Transaction

Delivery: TypeAlias = Literal["sending", "sent", "failed"]


class SentNotice(Document, frozen=True, kw_only=True):
    """One event and one target, under `<event>@<target>`."""

    kind: ClassVar[str] = "notice"

    event_id: NonEmpty
    target: NonEmpty
    feature_id: FeatureId
    outcome: Delivery
    at: NonEmpty


class NoticeArguments(ChangeArguments, frozen=True, kw_only=True):
    event_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,200}$")]
    """The event; a target gets one notice about it."""
    target: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    """The target, by its name in the policy."""
    outcome: Delivery
    """`sending` before, `sent` or `failed` after; a final outcome does not change."""


class NoticeResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    event_id: str
    """The event."""
    target: str
    """The target."""
    outcome: Delivery
    """The outcome that is stored now."""


@committed
def note(call: Call, arguments: NoticeArguments, tx: Transaction) -> Outcome:
    """Record that a notice is about to be sent, was sent, or failed."""
    state = the_feature(tx, arguments)
    key = f"{arguments.event_id}@{arguments.target}"
    known = tx.get(SentNotice, key)
    if known is None or known.outcome == "sending" != arguments.outcome:
        notice = copy_fields(SentNotice, arguments, version=next_version(known), at=call.kernel.now())
        tx.put(notice, key)
        facts = {"event_id": notice.event_id, "target": notice.target, "outcome": notice.outcome}
        tx.append(call.event("notice_noted", state.feature_id, **facts))
        known = notice
    return copy_fields(NoticeResult, known, feature_id=state.feature_id)


TOOLS = (
    Tool(
        name="notices.note",
        summary="Record whether a notice about an event was sent.",
        arguments=NoticeArguments,
        output=NoticeResult,
        roles=SYSTEM,
        run=note,
        mutates=True,
        person_only=True,
    ),
)
