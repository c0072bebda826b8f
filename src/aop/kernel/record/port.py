"""Record port: documents, journal, operations and claims, in transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeVar

from msgspec import Struct

from aop.core.errors import Json
from aop.core.ids import FeatureId, OperationId
from aop.kernel.record.documents.base import Document

D = TypeVar("D", bound=Document)
NO_LIMIT = 2**63 - 1
"""More rows than a database can have."""


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened, in the past tense; the journal numbers and chains it."""

    kind: str
    at: str
    actor: str
    operation_id: OperationId
    feature_id: FeatureId | None = None
    payload: Mapping[str, Json] = {}


class JournalEntry(Struct, frozen=True, kw_only=True):
    """An event with its place in the chain."""

    seq: int
    event: Event
    previous_hash: str
    hash: str


class WriteEntry(Struct, frozen=True, kw_only=True):
    """The digests of all that one transaction stored, with their place in a chain beside the journal."""

    number: int
    seq: int
    """The newest journal entry of that time; the hash covers its hash too."""
    changes: Mapping[str, str | None]
    """The new digest of each document and of each answered operation, by kind and key; None where it was removed."""
    previous_hash: str
    hash: str


class Operation(Struct, frozen=True, kw_only=True):
    """One mutating call: entered before anything happens, finished by its own transaction."""

    operation_id: OperationId
    tool: str
    payload_hash: str
    actor: str
    intent: Mapping[str, Json] | None = None
    """The call's intended effect outside the database; read by the process that finds it unfinished."""
    answer: Mapping[str, Json] | None = None
    """The recorded envelope; None while the operation is pending."""


class Claim(Struct, frozen=True, kw_only=True):
    """Something that an accepted plan holds, in a form that other plans are compared with."""

    feature_id: FeatureId
    kind: Literal["file", "area", "contract"]
    key: str
    """Folded: two claims that differ only in case are the same place on some machines."""
    text: str
    is_pattern: bool = False


UnshownKind = Literal["feature", "decisions", "index", "worktree", "gone_worktree", "gone_branch", "workflow"]


class Unshown(Struct, frozen=True, kw_only=True):
    """Something on disk that may be older than the record."""

    kind: UnshownKind
    key: str
    stamp: int
    """The transaction that asked for it: a later one asks again, and is not answered by this one."""


class Snapshot(Protocol):
    """A consistent view of the record."""

    def get(self, shape: type[D], key: str) -> D | None:
        """Return a document, or None."""

    def all(self, shape: type[D], prefix: str = "") -> Iterator[D]:
        """Return the documents of a kind whose key begins with a prefix, by key."""

    def operation(self, operation_id: OperationId) -> Operation | None:
        """Return a ledger entry, or None."""

    def pending_operations(self) -> tuple[Operation, ...]:
        """Return the ledger entries that have no answer yet, oldest first."""

    def journal(
        self,
        *,
        after: int = 0,
        feature_id: FeatureId | None = None,
        kinds: Sequence[str] = (),
        newest: int | None = None,
        limit: int = NO_LIMIT,
    ) -> Iterator[JournalEntry]:
        """Return the entries after a number, in order: only so many of the first (`limit`), or of the `newest`."""

    def writes(self, *, after: int = 0, limit: int = NO_LIMIT) -> Iterator[WriteEntry]:
        """Return the entries of the chain of writes after a number, in order."""

    def stored_digests(self) -> Iterator[tuple[str, str]]:
        """Return the name and the digest of each document and of each answered operation, as they are now."""

    def claims_near(self, kind: str, keys: Sequence[str]) -> tuple[Claim, ...]:
        """Return the claims on these keys, on a folder above one of them, on anything below one, and all patterns."""

    def unshown(self) -> tuple[Unshown, ...]:
        """Return what may be older on disk than in the record."""

    def shown_below(self, folder: str) -> tuple[str, ...]:
        """Return the files below a folder that AOP wrote, sorted."""

    def shown_hashes(self, paths: Sequence[str]) -> Mapping[str, str | None]:
        """Return for each file the SHA-256 of what AOP last wrote to it, or None."""


class Transaction(Snapshot, Protocol):
    """All or nothing; no other transaction writes at the same time."""

    def put(self, document: Document, key: str) -> None:
        """Store a document whose version is one more than the stored one's (1 for a new one)."""

    def remove(self, shape: type[Document], key: str) -> None:
        """Remove a document, if it is there; what happened to it stays in the journal."""

    def append(self, event: Event) -> JournalEntry:
        """Add an event to the end of the chain."""

    def enter_operation(self, operation: Operation) -> None:
        """Enter a pending operation."""

    def intend(self, operation_id: OperationId, intent: Mapping[str, Json]) -> None:
        """Note what a pending operation is about to do."""

    def finish_operation(self, operation_id: OperationId, answer: Mapping[str, Json]) -> None:
        """Store the answer of a pending operation."""

    def withdraw_operation(self, operation_id: OperationId) -> None:
        """Take back a pending operation that changed nothing."""

    def set_claims(self, feature_id: FeatureId, claims: Sequence[Claim]) -> None:
        """Replace all claims of a feature."""

    def mark_unshown(self, kind: UnshownKind, key: str) -> None:
        """Note that something on disk has to follow this transaction."""

    def forget_shown(self, paths: Sequence[str]) -> None:
        """Forget what AOP wrote to files that it has removed."""

    def mark_shown(self, what: Unshown, hashes: Mapping[str, str]) -> None:
        """Note that it has followed, and what was written (path to SHA-256)."""


class Record(Protocol):
    """The one store behind everything that AOP knows."""

    def read(self) -> AbstractContextManager[Snapshot]:
        """Look at one consistent state; inside a change, at what the change has made of it so far."""

    def write(self, *, durable: bool = True) -> AbstractContextManager[Transaction]:
        """Change it; an exception inside changes nothing.

        A change inside another one of the same thread is a part of it: undone alone when it raises, kept with the outer
        one. What is durable outlasts a power cut, as does all that was written before it; what is not durable outlasts
        the death of this process, and may be undone by a power cut before the next durable change.
        """


def newest_seq(view: Snapshot) -> int:
    """Return the number of the newest journal entry; 0 before the first."""
    return next((entry.seq for entry in view.journal(newest=1)), 0)
