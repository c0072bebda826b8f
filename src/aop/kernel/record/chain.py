"""Journal chain: each entry has the hash of the one before, so changes are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from aop.core.digests import sha256_hex
from aop.core.errors import EvidenceBroken
from aop.core.text.json import canonical_json
from aop.kernel.record.port import Event, JournalEntry

FIRST_HASH = "0" * 64
PAGE = 1000

ReadPage = Callable[[int], Iterator[JournalEntry]]
"""Returns the entries after a number, in order, not too many at once."""


def chained_hash(seq: int, event: Event, previous: str) -> str:
    """Return the hash that ties an entry to all entries before it."""
    return sha256_hex(canonical_json({"seq": seq, "previous": previous, "event": msgspec.to_builtins(event)}))


def whole_chain(read: ReadPage) -> Iterator[JournalEntry]:
    """Yield every entry of a journal. Raises: EvidenceBroken at the first that does not follow from the one before."""
    seq, previous = 0, FIRST_HASH
    while True:
        last = seq
        try:
            for entry in read(seq):
                _check(entry, seq + 1, previous)
                yield entry
                seq, previous = entry.seq, entry.hash
        except msgspec.DecodeError as error:
            raise _broken(seq + 1, "unreadable", "cannot be read") from error
        if seq == last:
            return


def _check(entry: JournalEntry, number: int, previous: str) -> None:
    if entry.seq != number:
        raise _broken(number, "missing", f"is missing; the next one is number {entry.seq}")
    if entry.previous_hash != previous:
        raise _broken(number, "unlinked", "does not follow from the one before it")
    if entry.hash != chained_hash(entry.seq, entry.event, previous):
        raise _broken(number, "changed", "was changed after it was written")


def _broken(number: int, kind: str, what: str) -> EvidenceBroken:
    return EvidenceBroken(f"Entry {number} of the journal {what}.", kind=kind, seq=number)
