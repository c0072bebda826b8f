"""Document base: version, digest and the constrained types that documents share."""

from typing import Annotated, ClassVar, TypeVar

import msgspec
from msgspec import Meta, Struct

from aop.core.digests import sha256_hex
from aop.core.text.json import canonical_json

NonEmpty = Annotated[str, Meta(min_length=1)]
Positive = Annotated[int, Meta(ge=1)]
Moment = Annotated[
    str,
    Meta(
        # The pattern too: many a reader of JSON Schema takes `format` for a note.
        pattern="^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
        r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z$",
        extra_json_schema={"format": "date-time"},
    ),
]
"""A moment as `aop.core.clock.timestamp` writes it."""


class Document(Struct, frozen=True, kw_only=True):
    """Something that the record keeps under (kind, key)."""

    kind: ClassVar[str]
    version: Positive


D = TypeVar("D", bound=Document)


def next_version(before: Document | None) -> int:
    """Return the version of the document that replaces another one, or that is the first."""
    return 1 if before is None else before.version + 1


def revise(document: D, **changes: object) -> D:
    """Return the next version of a document, with changed fields."""
    return msgspec.structs.replace(document, version=document.version + 1, **changes)


def digest_of(document: Document) -> str:
    """Return the digest of a document that never changes."""
    return sha256_hex(canonical_json(msgspec.to_builtins(document)))
