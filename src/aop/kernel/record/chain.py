"""Chains of journal and writes: each entry has the hash of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from aop.core.digests import sha256_hex
from aop.core.errors import EvidenceBroken
from aop.core.text.json import canonical_json
from aop.kernel.record.port import Event, JournalEntry, Snapshot, WriteEntry

FIRST_HASH = "0" * 64
PAGE = 1000
OPERATION = "operation"
"""What the chain of writes calls an answered operation; other names begin with the kind of a document."""

ReadPage = Callable[[int], Iterator[JournalEntry]]
"""Returns the entries after a number, in order, not too many at once."""


def chained_hash(seq: int, event: Event, previous: str) -> str:
    """Return the hash that ties an entry to all entries before it."""
    return sha256_hex(canonical_json({"seq": seq, "previous": previous, "event": msgspec.to_builtins(event)}))


def hash_of_write(number: int, previous: str, journal_end: tuple[int, str], changes: Mapping[str, str | None]) -> str:
    """Return the hash that ties a write to all writes before it, and to the journal's end at that time."""
    seq, entry = journal_end
    return sha256_hex(
        canonical_json({"number": number, "previous": previous, "seq": seq, "entry": entry, "changes": dict(changes)})
    )


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


class ProvenContents(Struct, frozen=True, kw_only=True):
    """How much of the record is what AOP last wrote, and where the chain of writes ends."""

    documents: int
    operations: int
    anchors: Mapping[int, Sequence[str]]
    """The hashes of the writes, by the number of the journal entry that was the newest."""


def prove_contents(view: Snapshot, journal_hashes: Sequence[str]) -> ProvenContents:
    """Compare every document and answered operation with the chain of writes. Raises: EvidenceBroken."""
    written: dict[str, str | None] = {}
    anchors: dict[int, list[str]] = {}
    number, previous = 0, FIRST_HASH
    for write in _all_writes(view):
        _check_write(write, number + 1, previous, journal_hashes)
        written.update(write.changes)
        anchors.setdefault(write.seq, []).append(write.hash)
        number, previous = write.number, write.hash
    counts = {True: 0, False: 0}
    for name, digest in view.stored_digests():
        recorded = written.pop(name, None)
        if recorded != digest:
            kind = "missing" if recorded is None else "changed"
            raise _broken_content(name, kind, "was not written by AOP" if recorded is None else "is not what AOP wrote")
        counts[name.startswith(f"{OPERATION} ")] += 1
    gone = min((name for name, digest in written.items() if digest is not None), default=None)
    if gone is not None:
        raise _broken_content(gone, "missing", "is missing from the record")
    return ProvenContents(documents=counts[False], operations=counts[True], anchors=anchors)


def _all_writes(view: Snapshot) -> Iterator[WriteEntry]:
    number = 0
    while True:
        last = number
        try:
            for write in view.writes(after=number, limit=PAGE):
                yield write
                number = write.number
        except msgspec.DecodeError as error:
            raise EvidenceBroken(f"Write {number + 1} of the record cannot be read.", kind="unreadable") from error
        if number == last:
            return


def _check_write(write: WriteEntry, number: int, previous: str, journal_hashes: Sequence[str]) -> None:
    name = f"Write {number} of the record"
    if write.number != number:
        raise EvidenceBroken(f"{name} is missing; the next one is number {write.number}.", kind="missing")
    if write.previous_hash != previous:
        raise EvidenceBroken(f"{name} does not follow from the one before it.", kind="unlinked")
    if write.seq > len(journal_hashes):
        raise EvidenceBroken(f"{name} is newer than the end of the journal, which was cut off.", kind="cut")
    end = (write.seq, journal_hashes[write.seq - 1] if write.seq else FIRST_HASH)
    if write.hash != hash_of_write(number, previous, end, write.changes):
        raise EvidenceBroken(f"{name} was changed after it was written.", kind="changed")


def _broken_content(name: str, kind: str, what: str) -> EvidenceBroken:
    noun, _, key = name.partition(" ")
    return EvidenceBroken(f"The {noun} `{key}` {what}.", kind=kind)


def _check(entry: JournalEntry, number: int, previous: str) -> None:
    if entry.seq != number:
        raise _broken(number, "missing", f"is missing; the next one is number {entry.seq}")
    if entry.previous_hash != previous:
        raise _broken(number, "unlinked", "does not follow from the one before it")
    if entry.hash != chained_hash(entry.seq, entry.event, previous):
        raise _broken(number, "changed", "was changed after it was written")


def _broken(number: int, kind: str, what: str) -> EvidenceBroken:
    return EvidenceBroken(f"Entry {number} of the journal {what}.", kind=kind, seq=number)
