"""The record on a real SQLite file: its pragmas, older shapes, and files that are no record."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.adapters.storage.record.migrations import MIGRATIONS
from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.core.errors import Fault, RecordTooNew, UnknownFeature
from aop.kernel.record.chain import prove_contents
from aop.kernel.record.port import Unshown
from tests.adapters.storage.test_record import Note, event, first_broken

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "private" / "record.db"


@pytest.fixture
def record(path: Path) -> Iterator[SqliteRecord]:
    opened = SqliteRecord(path)
    yield opened
    opened.close()


def test_documents_below_a_prefix_are_read_by_a_range_of_the_primary_key(record: SqliteRecord) -> None:
    queries: list[str] = []
    with record.read() as view:
        connection = record._connection()
        connection.set_trace_callback(queries.append)
        list(view.all(Note, "a/"))
        connection.set_trace_callback(None)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {queries[-1]}").fetchall()
    assert [row[3] for row in plan] == ["SEARCH documents USING PRIMARY KEY (kind=? AND key>? AND key<?)"]


@pytest.mark.parametrize(("durable", "synchronous"), [(True, 2), (False, 1)])
def test_what_is_committed_as_durable_is_on_the_disk(record: SqliteRecord, *, durable: bool, synchronous: int) -> None:
    with record.write(durable=durable):
        connection = record._connection()
        assert [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")] == [
            "wal",
            synchronous,
        ]


def test_when_the_database_undoes_a_change_by_itself_nothing_more_of_it_is_written(record: SqliteRecord) -> None:
    with record.write() as tx:
        tx.append(event("before"))

    def break_off() -> None:
        with record.write() as tx:
            # Only SQLite itself ends a transaction behind our back, on a full or broken disk; this stands for it.
            tx._sql.execute("ROLLBACK")  # type: ignore[attr-defined]
            raise UnknownFeature("two")

    def go_on() -> None:
        with record.write() as tx:
            tx.append(event("never"))

    def lose() -> None:
        with record.write() as tx:
            tx.append(event("lost"))
            with pytest.raises(UnknownFeature):
                break_off()
            with pytest.raises(Fault, match="SQLite rolled the transaction back"):
                go_on()

    with pytest.raises(Fault, match="The record cannot be written: SQLite rolled the transaction back"):
        lose()
    with record.write() as tx:
        tx.append(event("after"))
    with record.read() as view:
        assert [entry.event.kind for entry in view.journal()] == ["before", "after"]


def test_a_record_of_every_older_shape_is_read_as_it_was_written(record: SqliteRecord, path: Path) -> None:
    dumps = sorted(GOLDEN.glob("record-shape-*.sql"))
    assert [dump.stem for dump in dumps] == [f"record-shape-{number}" for number in range(1, len(MIGRATIONS) + 1)]
    for dump in dumps:
        old = path.with_name(f"{dump.stem}.db")
        old.parent.mkdir(exist_ok=True)
        connection = sqlite3.connect(old)
        connection.executescript(dump.read_text(encoding="utf-8"))
        connection.close()
        opened = SqliteRecord(old)
        with opened.read() as view:
            assert first_broken(view.journal()) is None
            proven = prove_contents(view, [entry.hash for entry in view.journal()])
            assert (proven.documents, proven.operations, len([*view.writes()])) == (1, 1, 1)
            assert [entry.event.kind for entry in view.journal()] == ["feature_initialised"]
            assert view.get(Note, "a") == Note(version=2, text="second")
            assert [entry.operation_id for entry in view.pending_operations()] == ["op-2"]
            assert [claim.text for claim in view.claims_near("file", ["src/a.txt"])] == ["src/*.txt", "src/a.txt"]
            assert view.unshown() == (Unshown(kind="feature", key="one", stamp=2),)
            assert view.shown_hashes(["agentic/features/index.json"])["agentic/features/index.json"] == "c" * 64
        assert shape(opened) == shape(record)
        opened.close()


def shape(record: SqliteRecord) -> list[str]:
    with record.read():
        connection = record._connection()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY sql").fetchall()
    return [str(version), *(" ".join(sql.split()) for (sql,) in rows)]


def test_a_record_of_a_newer_shape_is_not_touched(record: SqliteRecord) -> None:
    with record.read():
        pass
    record._connection().execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    record.close()
    with pytest.raises(RecordTooNew, match="made by a newer AOP"), record.read():
        pass


def test_a_change_of_shape_that_fails_is_undone_as_a_whole(record: SqliteRecord, path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE shown (path TEXT)")
    with pytest.raises(Fault, match=r"record\.db` cannot be opened: table shown already exists"), record.read():
        pass
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("shown",)]
    connection.close()


def test_a_file_that_is_no_database_is_named(record: SqliteRecord, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\0" * 100 + b"not a database" * 1000)
    with pytest.raises(Fault, match=r"record\.db` cannot be opened: file is not a database"), record.write():
        pass
