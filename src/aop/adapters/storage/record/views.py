"""Views of the record: reads and changes in SQL for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import msgspec

from aop.adapters.storage.record.rows import CLAIM, ENTRY, OPERATION, document_of, entry_of, json_text, operation_of
from aop.adapters.storage.record.sql import Sql
from aop.adapters.storage.record.writes import (
    Changes,
    answered_operation,
    digest_of_text,
    document_name,
    journal_end,
    read_writes,
    stored_digests,
)
from aop.core.errors import Fault, Json
from aop.core.ids import FeatureId, OperationId
from aop.kernel.record.chain import chained_hash
from aop.kernel.record.documents.base import Document
from aop.kernel.record.port import NO_LIMIT, Claim, Event, JournalEntry, Operation, Unshown, UnshownKind, WriteEntry

D = TypeVar("D", bound=Document)
Question = tuple[str, Sequence[Any]]
"""A statement that changes nothing, with its values."""
LAST_CHARACTER = "\U0010ffff"
"""No text has a character after it."""


@contextmanager
def savepoint(sql: Sql, changes: Changes, check: Callable[[], None]) -> Iterator[None]:
    """Undo alone what is changed inside, if it raises; `check` raises if the transaction is gone."""
    # Outside a transaction a savepoint would start one and commit it.
    check()
    sql.execute("SAVEPOINT part")
    before = dict(changes)
    try:
        yield
    except BaseException:
        changes.clear()
        changes.update(before)
        with suppress(Fault):
            check()
            sql.execute("ROLLBACK TO part")
            sql.execute("RELEASE part")
        raise
    check()
    sql.execute("RELEASE part")


class View:
    """Implements both `Snapshot` and `Transaction`; the caller's type decides which it is used as."""

    IN_RANGE, EQUAL, TIMES = "key >= ? AND key < ?", "key = ?", 1
    """The conditions that find claims by an index, and how often each takes its values."""

    def __init__(self, sql: Sql, changes: Changes | None = None) -> None:
        self._sql = sql
        self._changes: Changes = {} if changes is None else changes

    def get(self, shape: type[D], key: str) -> D | None:
        body = self._body(shape.kind, key)
        return None if body is None else document_of(shape, key, body)

    def _body(self, kind: str, key: str) -> str | None:
        row = self._sql.execute("SELECT body FROM documents WHERE kind = ? AND key = ?", (kind, key)).fetchone()
        return None if row is None else str(row[0])

    def all(self, shape: type[D], prefix: str = "") -> Iterator[D]:
        # A range on the primary key.
        sql = "SELECT key, body FROM documents WHERE kind = ? AND key >= ? AND key < ? ORDER BY key"
        rows = self._sql.execute(sql, (shape.kind, prefix, prefix + LAST_CHARACTER))
        return (document_of(shape, key, body) for key, body in rows.fetchall())

    def put(self, document: Document, key: str) -> None:
        body = msgspec.json.encode(document).decode()
        # What does not have its shape could not be read again.
        document_of(type(document), key, body)
        row = (document.version, body, document.kind, key)
        stale = f"The {document.kind} `{key}` is not at version {document.version - 1}."
        if document.version == 1:
            sql = "INSERT INTO documents (version, body, kind, key) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            self._change_one(sql, row, stale)
        else:
            sql = "UPDATE documents SET version = ?, body = ? WHERE kind = ? AND key = ? AND version = ?"
            self._change_one(sql, (*row, document.version - 1), stale)
        self._changes[document_name(document.kind, key)] = digest_of_text(body)

    def remove(self, shape: type[Document], key: str) -> None:
        done = self._sql.execute("DELETE FROM documents WHERE kind = ? AND key = ?", (shape.kind, key))
        if done.rowcount:
            self._changes[document_name(shape.kind, key)] = None

    def operation(self, operation_id: OperationId) -> Operation | None:
        row = self._sql.execute(f"{OPERATION} WHERE operation_id = ?", (operation_id,)).fetchone()
        return None if row is None else operation_of(row)

    def pending_operations(self) -> tuple[Operation, ...]:
        return tuple(
            operation_of(row) for row in self._sql.execute(f"{OPERATION} WHERE answer IS NULL ORDER BY number")
        )

    def enter_operation(self, operation: Operation) -> None:
        sql = "INSERT INTO operations (operation_id, tool, payload_hash, actor) VALUES (?, ?, ?, ?)"
        self._sql.execute(sql, (operation.operation_id, operation.tool, operation.payload_hash, operation.actor))

    def intend(self, operation_id: OperationId, intent: Mapping[str, Json]) -> None:
        self._change_pending("UPDATE operations SET intent = ?", (json_text(intent),), operation_id)

    def finish_operation(self, operation_id: OperationId, answer: Mapping[str, Json]) -> None:
        self._change_pending("UPDATE operations SET answer = ?", (json_text(answer),), operation_id)
        name, digest = answered_operation(self._sql, operation_id)
        self._changes[name] = digest

    def withdraw_operation(self, operation_id: OperationId) -> None:
        self._change_pending("DELETE FROM operations", (), operation_id)

    def _change_pending(self, change: str, values: tuple[str, ...], operation_id: OperationId) -> None:
        gone = f"The operation `{operation_id}` is not pending."
        self._change_one(f"{change} WHERE operation_id = ? AND answer IS NULL", (*values, operation_id), gone)

    def _change_one(self, sql: str, values: Sequence[str | int], fault: str) -> None:
        """Change a row. Raises: a fault with that message if there is none."""
        if self._sql.execute(sql, values).rowcount != 1:
            raise Fault(fault)

    def append(self, event: Event) -> JournalEntry:
        last, previous = self._journal_end()
        seq = last + 1
        entry = JournalEntry(seq=seq, event=event, previous_hash=previous, hash=chained_hash(seq, event, previous))
        self._sql.execute(
            "INSERT INTO journal (seq, kind, at, actor, operation_id, feature_id, payload, previous_hash, hash)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(seq, event.kind, event.at, event.actor, event.operation_id, event.feature_id),
                *(json_text(event.payload), previous, entry.hash),
            ),
        )
        return entry

    def _journal_end(self) -> tuple[int, str]:
        """Return the number and the hash of the newest entry."""
        return journal_end(self._sql)

    def journal(
        self,
        *,
        after: int = 0,
        feature_id: FeatureId | None = None,
        kinds: Sequence[str] = (),
        newest: int | None = None,
        limit: int = NO_LIMIT,
    ) -> Iterator[JournalEntry]:
        sql = f"{ENTRY} WHERE seq > ?"
        values: list[int | str] = [after]
        if feature_id is not None:
            sql, values = f"{sql} AND feature_id = ?", [*values, feature_id]
        if kinds:
            sql, values = f"{sql} AND kind IN ({', '.join('?' * len(kinds))})", [*values, *kinds]
        if newest is None:
            rows = self._sql.execute(f"{sql} ORDER BY seq LIMIT ?", [*values, limit]).fetchall()
            return (entry_of(row) for row in rows)
        last = self._sql.execute(f"{sql} ORDER BY seq DESC LIMIT ?", [*values, newest]).fetchall()
        return (entry_of(row) for row in reversed(last))

    def writes(self, *, after: int = 0, limit: int = NO_LIMIT) -> Iterator[WriteEntry]:
        return read_writes(self._sql, after=after, limit=limit)

    def stored_digests(self) -> Iterator[tuple[str, str]]:
        return stored_digests(self._sql)

    def set_claims(self, feature_id: FeatureId, claims: Sequence[Claim]) -> None:
        self._sql.execute("DELETE FROM claims WHERE feature_id = ?", (feature_id,))
        self._sql.executemany(
            "INSERT INTO claims (kind, key, feature_id, text, is_pattern) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            [(claim.kind, claim.key, claim.feature_id, claim.text, int(claim.is_pattern)) for claim in claims],
        )

    def claims_near(self, kind: str, keys: Sequence[str]) -> tuple[Claim, ...]:
        questions: list[Question] = [(f"{CLAIM} WHERE kind = ? AND is_pattern = 1", (kind,))]
        plain = f"{CLAIM} WHERE kind = ? AND is_pattern = 0"
        # `0` follows `/` in ASCII: the half-open range holds exactly what lies below the folder.
        below, at = (f"{plain} AND {condition}" for condition in (self.IN_RANGE, self.EQUAL))
        for key in keys:
            questions.append((below, (kind, *(f"{key}/", f"{key}0") * self.TIMES)) if key else (plain, (kind,)))
            questions += [(at, (kind, *(folder,) * self.TIMES)) for folder in _with_folders_above(key)]
        found = {row for rows in self._answers(questions) for row in rows}
        return tuple(
            Claim(kind=row[0], key=row[1], feature_id=row[2], text=row[3], is_pattern=bool(row[4]))
            for row in sorted(found)
        )

    def _answers(self, questions: Sequence[Question]) -> Iterator[Iterable[Any]]:
        return (self._sql.execute(*question) for question in questions)

    def unshown(self) -> tuple[Unshown, ...]:
        rows = self._sql.execute("SELECT kind, key, stamp FROM unshown ORDER BY kind, key").fetchall()
        return tuple(Unshown(kind=kind, key=key, stamp=stamp) for kind, key, stamp in rows)

    def mark_unshown(self, kind: UnshownKind, key: str) -> None:
        # Each stamp is new and never used again.
        self._sql.execute("DELETE FROM unshown WHERE kind = ? AND key = ?", (kind, key))
        self._sql.execute("INSERT INTO unshown (kind, key) VALUES (?, ?)", (kind, key))

    def mark_shown(self, what: Unshown, hashes: Mapping[str, str]) -> None:
        sql = "DELETE FROM unshown WHERE kind = ? AND key = ? AND stamp = ?"
        self._sql.execute(sql, (what.kind, what.key, what.stamp))
        self.forget_shown(sorted(hashes))
        self._sql.executemany("INSERT INTO shown (path, sha256) VALUES (?, ?)", sorted(hashes.items()))

    def forget_shown(self, paths: Sequence[str]) -> None:
        self._sql.executemany("DELETE FROM shown WHERE path = ?", [(path,) for path in paths])

    def shown_below(self, folder: str) -> tuple[str, ...]:
        # A range as in `claims_near`.
        sql = "SELECT path FROM shown WHERE path >= ? AND path < ? ORDER BY path"
        return tuple(path for (path,) in self._sql.execute(sql, (f"{folder}/", f"{folder}0")))

    def shown_hashes(self, paths: Sequence[str]) -> dict[str, str | None]:
        questions = [("SELECT sha256 FROM shown WHERE path = ?", (path,)) for path in paths]
        found = zip(paths, self._answers(questions), strict=True)
        return {path: next((str(sha256) for (sha256,) in rows), None) for path, rows in found}


def _with_folders_above(key: str) -> Iterator[str]:
    """Return the key and every folder above it, from the root (empty)."""
    parts = key.split("/")
    return ("/".join(parts[:depth]) for depth in range(len(parts) + 1))
