"""Writes: what each transaction stored, as a chain of digests beside the journal.

The digest of a document is that of its stored text; the digest of an operation is that of its whole row, once it has
an answer. So a change from outside is seen in everything that AOP decides by, not only in the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from aop.adapters.storage.record.sql import Sql
from aop.core.digests import sha256_hex
from aop.kernel.record.chain import FIRST_HASH, OPERATION, hash_of_write
from aop.kernel.record.port import WriteEntry

Changes = dict[str, str | None]
"""The new digest of each thing, None where it was removed; by kind and key."""

NO_END = (0, FIRST_HASH)
"""The end of a chain that has no link."""
_DOCUMENTS = "SELECT kind, key, body FROM documents ORDER BY kind, key"
_ROW = "SELECT operation_id, tool, payload_hash, actor, intent, answer FROM operations WHERE answer IS NOT NULL"


def document_name(kind: str, key: str) -> str:
    """Return the name under which the chain has a document."""
    return f"{kind} {key}"


def digest_of_text(text: str) -> str:
    """Return the digest of a document's stored text."""
    return sha256_hex(text.encode())


def answered_operation(sql: Sql, operation_id: str) -> tuple[str, str]:
    """Return the name and the digest of an operation that has its answer."""
    return operation_digest(sql.execute(f"{_ROW} AND operation_id = ?", (operation_id,)).fetchone())


def stored_digests(sql: Sql) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of every document and of every answered operation, as they are now."""
    for kind, key, body in sql.execute(_DOCUMENTS):
        yield document_name(kind, key), digest_of_text(body)
    yield from map(operation_digest, sql.execute(f"{_ROW} ORDER BY number"))


def append_write(sql: Sql, changes: Mapping[str, str | None]) -> None:
    """Add the changes of a transaction to the end of the chain."""
    if not changes:
        return
    last: tuple[int, str] | None
    last = sql.execute("SELECT number, hash FROM writes ORDER BY number DESC LIMIT 1").fetchone()
    add_write(sql, changes, last=last or NO_END, entry=journal_end(sql))


def journal_end(sql: Sql) -> tuple[int, str]:
    """Return the number and the hash of the journal's newest entry."""
    end: tuple[int, str] | None = sql.execute("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1").fetchone()
    return end or NO_END


def add_write(sql: Sql, changes: Mapping[str, str | None], *, last: tuple[int, str], entry: tuple[int, str]) -> None:
    """Add a link to the chain, after its last one and the journal's newest entry."""
    number, previous = last[0] + 1, last[1]
    own = hash_of_write(number, previous, entry, changes)
    sql.execute(
        "INSERT INTO writes (number, seq, changes, previous_hash, hash) VALUES (?, ?, ?, ?, ?)",
        (number, entry[0], msgspec.json.encode(changes).decode(), previous, own),
    )


def read_writes(sql: Sql, *, after: int, limit: int) -> Iterator[WriteEntry]:
    """Yield the entries of the chain after a number, in order."""
    statement = "SELECT number, seq, changes, previous_hash, hash FROM writes WHERE number > ? ORDER BY number LIMIT ?"
    for number, seq, changes, previous, own in sql.execute(statement, (after, limit)).fetchall():
        found = msgspec.json.decode(changes, type=dict[str, str | None])
        yield WriteEntry(number=number, seq=seq, changes=found, previous_hash=previous, hash=own)


def adopt_contents(sql: Sql) -> None:
    """Begin the chain with what an older AOP stored."""
    append_write(sql, dict(stored_digests(sql)))


def operation_digest(row: tuple[str | None, ...]) -> tuple[str, str]:
    """Return the name and the digest of a whole row of an operation."""
    return document_name(OPERATION, row[0] or ""), sha256_hex(msgspec.json.encode(row))
