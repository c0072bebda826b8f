"""Tools `report.journal` and `report.past`: what happened, and a past board."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments
from aop.core.ids import FEATURE_ID_PATTERN, FeatureId
from aop.core.redaction.redactor import mask_json
from aop.core.structs import copy_fields
from aop.kernel.gateway.calls import Arguments, Call, Outcome, Tool
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.features import Status
from aop.kernel.record.documents.usage import Spending
from aop.kernel.record.past_work import WORK_EVENTS, PastWork, past_work
from aop.kernel.record.port import JournalEntry, Snapshot, newest_seq
from aop.kernel.record.status_history import STATUS_EVENTS, StatusStep, status_steps

PAGE = 100
MOST_SEARCHED = 20_000
"""So many entries are searched by one call; the next one goes on before them."""
_CHUNK = 1_000
LONGEST_FACTS = 400
Number = Annotated[int, Meta(ge=1, le=10**15)]


class JournalArguments(Arguments, frozen=True, kw_only=True):
    before: Number | None = None
    """Only entries before this number; null for the newest."""
    feature_id: Annotated[str, Meta(pattern=FEATURE_ID_PATTERN)] | None = None
    kind: Annotated[str, Meta(max_length=100)] = ""
    """Only entries whose kind has these letters."""
    text: Annotated[str, Meta(max_length=200)] = ""
    """Only entries that have these letters in their kind, feature, actor or facts, in upper or lower case."""
    limit: Annotated[int, Meta(ge=1, le=500)] = PAGE
    """At most so many entries."""


class JournalRow(Struct, frozen=True, kw_only=True):
    """One entry of the journal, for people."""

    seq: int
    """Its number."""
    at: str
    """When it was written, in UTC."""
    kind: str
    """The kind of event."""
    feature_id: str
    """The feature; empty if it is about none."""
    actor: str
    """The author."""
    facts: str
    """Its other facts, as JSON without secrets; a long text is cut off."""


class JournalPage(Struct, frozen=True, kw_only=True):
    entries: tuple[JournalRow, ...]
    """The newest first."""
    newest: int
    """The number of the newest entry of the journal."""
    older: int | None
    """The `before` with which the next call goes on; null at the beginning of the journal."""


def journal(call: Call, arguments: JournalArguments) -> Outcome:
    """Return the newest entries that have what is asked for."""
    is_wanted, text = _filter(call, arguments), arguments.text.casefold()
    rows: list[JournalRow] = []
    with call.kernel.record.read() as view:
        newest = newest_seq(view)
        before = min(arguments.before or newest + 1, newest + 1)
        last = max(1, before - MOST_SEARCHED)
        for entry in filter(is_wanted, _backwards(view, before, last, arguments.feature_id)):
            row = _row(call, entry, text)
            if row is not None:
                rows.append(row)
            if len(rows) == arguments.limit:
                before = entry.seq
                break
        else:
            before = last
    return JournalPage(entries=tuple(rows), newest=newest, older=before if before > 1 else None)


def _filter(call: Call, arguments: JournalArguments) -> Callable[[JournalEntry], bool]:
    kind, reaches = arguments.kind.casefold().replace(" ", "_"), call.principal.reaches
    reaches_all = call.principal.features is None

    def is_wanted(entry: JournalEntry) -> bool:
        name = entry.event.feature_id
        # What is about no feature is for those who reach all of them.
        return kind in entry.event.kind and (reaches_all or (name is not None and reaches(name)))

    return is_wanted


def _backwards(view: Snapshot, before: int, last: int, name: str | None) -> Iterator[JournalEntry]:
    """Yield the entries before a number, of one feature or of all, the newest first, down to the last one."""
    feature = None if name is None else FeatureId(name)
    while before > last:
        begin = max(last, before - _CHUNK)
        chunk = list(view.journal(after=begin - 1, feature_id=feature, limit=before - begin))
        yield from reversed([entry for entry in chunk if entry.seq < before])
        before = begin


def _row(call: Call, entry: JournalEntry, text: str) -> JournalRow | None:
    """Return the row of an entry; None if it does not have the text, in lower case, where no secret is."""
    if text not in _whole_text(entry, entry.event.payload):
        return None
    masked = mask_json(dict(entry.event.payload), call.kernel.redact.mask_secrets)
    if text not in _whole_text(entry, masked):
        return None
    event, facts = entry.event, msgspec.json.encode(masked).decode()
    return JournalRow(
        seq=entry.seq,
        at=event.at,
        kind=event.kind,
        feature_id=event.feature_id or "",
        actor=event.actor,
        facts=facts if len(facts) <= LONGEST_FACTS else f"{facts[:LONGEST_FACTS]}...",
    )


def _whole_text(entry: JournalEntry, facts: Any) -> str:
    event = entry.event
    return f"{event.kind} {event.feature_id or ''} {event.actor} {msgspec.json.encode(facts).decode()}".casefold()


class PastArguments(Arguments, frozen=True, kw_only=True):
    seq: Number
    """The number of the journal at which to look."""


class PastFeature(Struct, frozen=True, kw_only=True):
    """A feature as it was."""

    feature_id: str
    status: Status
    reason: str
    """The reason of its status; empty if it had none."""
    since: str
    """When it got that status, in UTC."""
    since_seq: int
    """The number of the journal at which it got it."""
    role: str
    """The role that took its last turn; empty before the first."""
    gates: Mapping[str, str]
    """The verdicts of the gates on its tree of that time, by mode."""
    attempt: int
    """How many trees patches and edits had made; 0 before the first."""
    spent: Spending
    """The cost of its turns up to then, all roles together."""


class PastBoard(Struct, frozen=True, kw_only=True):
    seq: int
    """The number at which it is shown."""
    at: str
    """When that entry was written, in UTC."""
    kind: str
    """The kind of that entry."""
    newest: int
    """The number of the newest entry of the journal."""
    features: tuple[PastFeature, ...]
    """The features that there were."""
    counts: Mapping[str, int]
    """How many features had each status."""


def past(call: Call, arguments: PastArguments) -> Outcome:
    """Return every feature with the status that it had at a number of the journal. Raises: InvalidArguments."""
    with call.kernel.record.read() as view:
        newest = newest_seq(view)
        here = next(view.journal(after=arguments.seq - 1, limit=1), None)
        if here is None:
            raise InvalidArguments(f"The journal has no entry {arguments.seq}; the newest is {newest}.")
        entries = view.journal(kinds=sorted({*STATUS_EVENTS, *WORK_EVENTS}))
        before = list(takewhile(lambda each: each.seq <= arguments.seq, entries))
    known: dict[FeatureId, StatusStep] = {step.feature_id: step for step in status_steps(before)}
    work, mask = past_work(before), call.kernel.redact.mask_secrets
    features = tuple(
        _past_feature(name, step.status, step, work.get(name, PastWork()), mask)
        for name, step in sorted(known.items())
        if step.status is not None and call.principal.reaches(name)
    )
    counts = dict.fromkeys((status.value for status in Status), 0)
    for each in features:
        counts[each.status] += 1
    event = here.event
    return PastBoard(seq=here.seq, at=event.at, kind=event.kind, newest=newest, features=features, counts=counts)


def _past_feature(
    name: FeatureId, status: Status, step: StatusStep, work: PastWork, mask: Callable[[str], str]
) -> PastFeature:
    facts = {"feature_id": name, "status": status, "reason": mask(step.reason)}
    return copy_fields(PastFeature, work, **facts, since=step.at, since_seq=step.seq)


TOOLS = (
    Tool(
        name="report.journal",
        summary="Search the journal: by text, kind and feature, the newest entries first.",
        arguments=JournalArguments,
        output=JournalPage,
        roles=COORDINATORS,
        run=journal,
    ),
    Tool(
        name="report.past",
        summary="Show every feature with the status that it had at a number of the journal.",
        arguments=PastArguments,
        output=PastBoard,
        roles=COORDINATORS,
        run=past,
    ),
)
