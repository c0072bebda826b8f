"""Rows of the record: stored columns become documents, operations and entries."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from aop.core.errors import Fault, Json
from aop.core.ids import FeatureId, OperationId
from aop.kernel.record.documents.base import Document
from aop.kernel.record.port import Event, JournalEntry, Operation

D = TypeVar("D", bound=Document)

OPERATION = "SELECT operation_id, tool, payload_hash, actor, intent, answer FROM operations"
ENTRY = "SELECT seq, kind, at, actor, operation_id, feature_id, payload, previous_hash, hash FROM journal"
CLAIM = "SELECT kind, key, feature_id, text, is_pattern FROM claims"


def json_text(value: Json) -> str:
    """Return a value as the text that is stored."""
    return msgspec.json.encode(value).decode()


def document_of(shape: type[D], key: str, body: str) -> D:
    """Return a stored document. Raises: Fault if it does not have its shape."""
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.DecodeError as error:
        raise Fault(f"The {shape.kind} `{key}` in the record does not have its shape: {error}") from error


def operation_of(row: tuple[str, str, str, str, str | None, str | None]) -> Operation:
    """Return a stored operation."""
    operation_id, tool, payload_hash, actor, intent, answer = row
    return Operation(
        operation_id=OperationId(operation_id),
        tool=tool,
        payload_hash=payload_hash,
        actor=actor,
        intent=None if intent is None else msgspec.json.decode(intent),
        answer=None if answer is None else msgspec.json.decode(answer),
    )


def entry_of(row: tuple[int, str, str, str, str, str | None, str, str, str]) -> JournalEntry:
    """Return a stored entry of the journal."""
    seq, kind, at, actor, operation_id, feature_id, payload, previous, own = row
    event = Event(
        kind=kind,
        at=at,
        actor=actor,
        operation_id=OperationId(operation_id),
        feature_id=None if feature_id is None else FeatureId(feature_id),
        payload=msgspec.json.decode(payload),
    )
    return JournalEntry(seq=seq, event=event, previous_hash=previous, hash=own)
