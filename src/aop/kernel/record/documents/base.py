"""Document base: version, digest and the constrained types that documents share."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

from aop.core.digests import sha256_hex
from aop.core.text.json import canonical_json

NonEmpty = Annotated[str, Meta(min_length=1)]
Positive = Annotated[int, Meta(ge=1)]


class Document(Struct, frozen=True, kw_only=True):
    """Something that the record keeps under (kind, key)."""

    kind: ClassVar[str]
    version: Positive


def digest_of(document: Document) -> str:
    """Return the digest of a document that never changes."""
    return sha256_hex(canonical_json(msgspec.to_builtins(document)))
