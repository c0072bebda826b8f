"""The record on a real PostgreSQL: repositories apart, servers that end, strangers, and moves there and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from aop.adapters.storage.record.migrations import close_for_good
from aop.adapters.storage.record.moves import Contents, copy_into_database, move_to_database, move_to_file
from aop.adapters.storage.record.postgres.place import Place
from aop.adapters.storage.record.postgres.postgres_clock import PostgresClock
from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord
from aop.adapters.storage.record.postgres.postgres_shape import MIGRATING, MIGRATIONS
from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.core.errors import (
    DatabaseNotAop,
    DatabaseUnavailable,
    EvidenceBroken,
    Fault,
    RecordElsewhere,
    RecordMoved,
    RecordNotEmpty,
    RecordTooNew,
)
from aop.kernel.record.port import Record
from aop.wiring.build import Settings
from tests.adapters.storage.postgres_clusters import PASSWORD, needs_postgres, running_cluster
from tests.adapters.storage.records import everything, tamper
from tests.adapters.storage.test_record import Note, change_everything, event, operation
from tests.racing import until

pytestmark = needs_postgres


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with running_cluster() as url:
        yield url


@pytest.fixture
def url(cluster: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the test's own."""
    name = f"test_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield urlsplit(cluster)._replace(path=f"/{name}").geturl()
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def place(url: str, name: str = "shop", home: str = "here:/shop") -> Place:
    return Place(url=url, name=name, home=home)


def kinds(record: Record) -> list[str]:
    with record.read() as view:
        return [entry.event.kind for entry in view.journal()]


def filled(path: Path) -> Path:
    """Make a record with some of everything, in several writes."""
    record = SqliteRecord(path)
    with record.write() as tx:
        change_everything(tx)
    with record.write() as tx:
        tx.finish_operation(operation().operation_id, {"ok": True})
        tx.put(Note(version=2, text="second \x00 \u2028"), "a")
        tx.append(event("later", number=1))
    record.close()
    return path


def test_repositories_in_one_database_do_not_see_each_other(url: str) -> None:
    shop, lab = PostgresRecord(place(url)), PostgresRecord(place(url, "lab", "here:/lab"))
    for record in (shop, lab):
        with record.write() as tx:
            change_everything(tx)
    with shop.write() as tx:
        tx.remove(Note, "a")
        tx.set_claims(tx.claims_near("file", [""])[0].feature_id, [])
        tx.append(event("sold"))
    with lab.read() as view:
        assert view.get(Note, "a") == Note(version=1, text="first")
        assert len(view.claims_near("file", [""])) == 1
    assert (kinds(shop), kinds(lab)) == (["thing_happened", "sold"], ["thing_happened"])
    shop.close()
    lab.close()


def test_an_empty_database_that_two_meet_at_once_is_prepared_once(url: str) -> None:
    records = [PostgresRecord(place(url, name, f"here:/{name}")) for name in ("shop", "lab")]
    with psycopg.connect(url) as first, ThreadPoolExecutor(2) as pool, psycopg.connect(url, autocommit=True) as admin:
        first.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATING,))
        numbers = [pool.submit(record.number) for record in records]
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        until(lambda: admin.execute(waiting).fetchone() == (2,))
        first.commit()
        assert sorted(number.result(timeout=300) for number in numbers) == [1, 2]
    for record in records:
        record.close()


def test_a_connection_that_the_server_ended_is_replaced(url: str) -> None:
    record = PostgresRecord(place(url))
    with record.write() as tx:
        tx.append(event("before"))
    with psycopg.connect(url, autocommit=True) as other:
        ended = other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    assert ended == [(True,)]
    with record.write() as tx:
        tx.append(event("after"))
    assert kinds(record) == ["before", "after"]
    record.close()


def test_a_change_whose_connection_is_lost_is_a_fault_and_leaves_nothing(url: str) -> None:
    record = PostgresRecord(place(url))

    def lose() -> None:
        with record.write() as tx, psycopg.connect(url, autocommit=True) as other:
            tx.append(event("lost"))
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    with pytest.raises(Fault, match="The record cannot be used"):
        lose()
    assert kinds(record) == []
    record.close()


def test_a_statement_that_fails_undoes_the_whole_change_even_if_it_is_swallowed(url: str) -> None:
    record = PostgresRecord(place(url))

    def swallow() -> None:
        with record.write() as tx:
            tx.append(event("lost"))
            tx.enter_operation(operation())
            tx.enter_operation(operation())
            # A change is sent with the next question.
            with pytest.raises(Fault):
                tx.operation(operation().operation_id)

    with pytest.raises(Fault, match="the transaction failed"):
        swallow()
    assert kinds(record) == []
    record.close()


def test_the_settings_of_a_database_do_not_weaken_what_a_write_promises(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        name = urlsplit(url).path[1:]
        for setting in (
            "default_transaction_isolation = 'repeatable read'",
            "default_transaction_read_only = on",
            "synchronous_commit = off",
            "client_encoding = 'LATIN1'",
        ):
            other.execute(f"ALTER DATABASE {name} SET {setting}")
    record = PostgresRecord(place(url))
    with record.write() as tx:
        tx.append(event("\u8a18\u9332"))
    settings = ("transaction_isolation", "transaction_read_only", "synchronous_commit")
    with record.statements() as sql:
        assert [sql.execute(f"SHOW {each}").fetchall() for each in settings] == [
            [("read committed",)],
            [("off",)],
            [("on",)],
        ]
    assert kinds(record) == ["\u8a18\u9332"]
    record.close()


def test_a_database_that_cannot_hold_every_letter_is_refused_before_anything_is_stored(cluster: str) -> None:
    with psycopg.connect(cluster, autocommit=True) as connection:
        connection.execute("CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    record = PostgresRecord(place(urlsplit(cluster)._replace(path="/narrow").geturl()))
    with pytest.raises(DatabaseUnavailable, match="its encoding is LATIN1; AOP needs UTF8"), record.read():
        pass
    record.close()


@pytest.mark.parametrize("password", ["ha%lf-of-it", "ha@lf-of-it", "ha/lf-of-it"])
def test_an_address_that_cannot_be_read_is_refused_without_a_part_of_its_password(password: str) -> None:
    record = PostgresRecord(place(f"postgresql://aop:{password}@127.0.0.1:1/shop"))
    with pytest.raises(DatabaseUnavailable) as refused, record.read():
        pass
    assert "lf" not in refused.value.message


def test_every_password_of_an_address_is_a_secret() -> None:
    url = "postgresql://aop:se%21cret@db/shop?password=other-one&sslpassword=third-one&sslmode=require"
    settings = Settings.from_env({"AOP_DATABASE": url})
    assert settings.secrets == ("other-one", "se!cret", "third-one")


@pytest.mark.parametrize("broken", ["password", "port", "database"])
def test_a_database_that_does_not_let_us_in_is_named_without_its_password(url: str, broken: str) -> None:
    address = {
        "password": url.replace(PASSWORD, "wrong-and-secret"),
        "port": url.replace(f":{urlsplit(url).port}", ":1"),
        "database": urlsplit(url)._replace(path="/nowhere").geturl(),
    }[broken]
    record = PostgresRecord(place(address))
    with pytest.raises(DatabaseUnavailable) as refused, record.read():
        pass
    said = f"{refused.value.message} {refused.value.hint}"
    assert "postgresql://127.0.0.1:" in said
    assert not any(secret in said for secret in (PASSWORD, "wrong-and-secret"))


def test_a_record_of_a_newer_shape_is_not_touched(url: str) -> None:
    record = PostgresRecord(place(url))
    with record.write() as tx:
        tx.append(event())
    record.close()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("UPDATE aop.shape SET shape = 99")
    newer = PostgresRecord(place(url))
    with pytest.raises(RecordTooNew, match="made by a newer AOP: it has shape 99"), newer.write():
        pass
    newer.close()


def test_a_schema_of_a_stranger_is_left_alone(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE SCHEMA aop; CREATE TABLE aop.journal (mine text)")
    record = PostgresRecord(place(url))
    with pytest.raises(DatabaseNotAop), record.write():
        pass
    record.close()
    with psycopg.connect(url) as other:
        tables = other.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'aop'").fetchall()
    assert tables == [("journal",)]


def test_a_record_of_another_machine_is_refused_until_it_is_adopted(url: str) -> None:
    first = PostgresRecord(place(url))
    with first.write() as tx:
        tx.append(event("first"))
    first.close()
    second = PostgresRecord(place(url, home="there:/shop"))
    with pytest.raises(RecordElsewhere, match="belongs to `here:/shop`"), second.read():
        pass
    assert second.adopt() == "here:/shop"
    assert kinds(second) == ["first"]
    second.close()
    again = PostgresRecord(place(url))
    with pytest.raises(RecordElsewhere, match="belongs to `there:/shop`"), again.read():
        pass
    again.close()


# --- machines --------------------------------------------------------------------------------------


def test_a_record_of_shape_one_is_brought_up_to_date_with_what_its_machine_has_shown(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as old:
        old.execute(
            "CREATE SCHEMA aop; CREATE TABLE aop.shape (shape integer NOT NULL); INSERT INTO aop.shape VALUES (1)"
        )
        old.execute(MIGRATIONS[0])
        old.execute("INSERT INTO aop.repositories (name, home, state) VALUES ('shop', 'here:/shop', 'active')")
        old.execute("SET aop.repository = 1; INSERT INTO aop.shown VALUES ('a.md', 'f00')")
        old.execute("INSERT INTO aop.unshown (kind, key) VALUES ('feature', 'one')")
    record = PostgresRecord(place(url))
    with record.read() as view:
        assert (view.shown_hashes(["a.md"])["a.md"], [(each.kind, each.key) for each in view.unshown()]) == (
            "f00",
            [("feature", "one")],
        )
    record.close()


def shown_by(record: Record) -> list[str]:
    with record.read() as view:
        return [each.key for each in view.unshown()]


def test_what_has_to_be_shown_is_noted_for_each_machine_and_struck_off_by_each(url: str) -> None:
    here, there = PostgresRecord(place(url)), PostgresRecord(place(url, home="there:/shop"))
    with here.write() as tx:
        tx.mark_unshown("feature", "early")
    # As long as one machine alone may open a record, a second one comes by way of adoption.
    there.adopt()
    with there.write() as tx:
        tx.mark_unshown("feature", "one")
        tx.mark_unshown("feature", "two")
    with there.write() as tx:
        tx.mark_shown(next(each for each in tx.unshown() if each.key == "one"), {"one.md": "f00"})
    assert (shown_by(here), shown_by(there)) == (["early", "one", "two"], ["two"])
    with here.read() as mine, there.read() as theirs:
        assert (mine.shown_hashes(["one.md"])["one.md"], theirs.shown_hashes(["one.md"])["one.md"]) == (None, "f00")
    with here.write() as tx:
        tx.mark_unshown("feature", "one")
    assert (shown_by(here), shown_by(there)) == (["early", "one", "two"], ["one", "two"])
    here.close()
    there.close()


def test_leases_end_by_the_clock_of_the_database_on_every_machine(url: str) -> None:
    here, there = PostgresRecord(place(url)), PostgresRecord(place(url))
    first = PostgresClock(here).lease_seconds()
    with there.write():
        second = PostgresClock(there).lease_seconds()
    assert first[0] == second[0] == "database"
    assert first[1] < second[1] < first[1] + 60
    here.close()
    there.close()


# --- moves -----------------------------------------------------------------------------------------


def waits_for_lock(path: Path) -> bool:
    """Tell whether a thread waits for the lock of a record; the kernel marks those that wait with an arrow."""
    inode = path.with_name(f"{path.name}.lock").stat().st_ino
    lines = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and line.split()[6].endswith(f":{inode}") for line in lines)


def ends(contents: Contents) -> tuple[str, str]:
    return contents.head, contents.last_write


def test_a_record_is_the_same_there_and_back(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    before = SqliteRecord(path)
    all_of_it = everything(before)
    before.close()
    there = move_to_database(path, place(url))
    record = PostgresRecord(place(url))
    assert everything(record) == all_of_it
    record.close()
    back = move_to_file(place(url), path)
    after = SqliteRecord(path)
    assert (everything(after), back) == (all_of_it, there)
    assert (there.entries, there.documents, there.operations) == (2, 1, 1)
    after.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["moved-record.db", "record.db", "record.db.lock"]


def test_what_is_written_after_a_move_goes_back_with_it(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    move_to_database(path, place(url))
    record = PostgresRecord(place(url))
    with record.write() as tx:
        tx.mark_unshown("index", "features")
        tx.enter_operation(operation("op-2"))
        tx.append(event("in the database"))
    record.close()
    move_to_file(place(url), path)
    move_to_database(path, place(url))
    move_to_file(place(url), path)
    back = SqliteRecord(path)
    assert kinds(back)[-1] == "in the database"
    with back.read() as view:
        assert [each.operation_id for each in view.pending_operations()] == ["op-2"]
    back.close()


def test_the_record_that_was_moved_away_is_changed_by_nobody(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    early = SqliteRecord(path)
    assert len(kinds(early)) == 2
    move_to_database(path, place(url))
    with pytest.raises(RecordMoved), early.write() as tx:
        tx.append(event("too late"))
    with pytest.raises(RecordMoved), early.read():
        pass
    early.close()
    late = SqliteRecord(path)
    with pytest.raises(RecordMoved), late.read():
        pass
    in_database = PostgresRecord(place(url))
    assert len(kinds(in_database)) == 2
    move_to_file(place(url), path)
    with pytest.raises(RecordMoved, match="moved out of the database"), in_database.write() as tx:
        tx.append(event("too late"))
    in_database.close()


def test_a_move_into_the_database_that_was_killed_while_it_copied_is_repeated(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    killed = PostgresRecord(place(url), serves="arriving")
    with killed.write() as tx:
        tx.append(event("half of it"))
    killed.close()
    record = PostgresRecord(place(url))
    with pytest.raises(RecordMoved, match="has not arrived"), record.read():
        pass
    move_to_database(path, place(url))
    assert kinds(record) == ["thing_happened", "later"]
    record.close()


def test_a_move_into_the_database_that_was_killed_before_its_last_step_is_finished(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    whole = move_to_database(path, place(url))
    killed = PostgresRecord(place(url))
    killed.set_state("arriving")
    killed.close()
    assert ends(move_to_database(path, place(url))) == ends(whole)
    record = PostgresRecord(place(url))
    assert kinds(record) == ["thing_happened", "later"]
    record.close()


def test_a_move_back_that_was_killed_before_its_last_step_is_finished(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    move_to_database(path, place(url))
    whole = move_to_file(place(url), path)
    # As it is when the file was not yet put in its place.
    path.rename(tmp_path / "record.db.arriving")
    (tmp_path / "moved-record.db").rename(path)
    assert move_to_file(place(url), path) == whole
    back = SqliteRecord(path)
    assert kinds(back) == ["thing_happened", "later"]
    back.close()


def test_a_second_move_at_the_same_time_does_not_undo_what_followed_the_first(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    first, copied = SqliteRecord(path), PostgresRecord(place(url), serves="arriving")
    with ThreadPoolExecutor(1) as pool:
        with first.statements() as old:
            second = pool.submit(move_to_database, path, place(url))
            # It has the file open, and waits for its lock.
            until(lambda: waits_for_lock(path))
            copy_into_database(old, copied)
            close_for_good(old)
            copied.set_state("active")
            with copied.write() as tx:
                tx.append(event("after the move"))
        refused = second.exception()
    found = [] if copied.state() != "active" else kinds(copied)
    first.close()
    copied.close()
    assert found == ["thing_happened", "later", "after the move"]
    assert isinstance(refused, RecordNotEmpty)


def test_a_copy_that_is_not_what_the_database_has_by_now_is_not_taken_for_the_record(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    move_to_database(path, place(url))
    move_to_file(place(url), path)
    # As after a move that was killed, and another one from a folder that had adopted the record meanwhile.
    path.unlink()
    old = SqliteRecord(tmp_path / "record.db.arriving")
    with old.write() as tx:
        tx.append(event("long ago"))
    old.close()
    with pytest.raises(RecordMoved):
        move_to_file(place(url), path)
    assert not path.exists()


def test_a_record_is_not_moved_onto_another_one(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    other = PostgresRecord(place(url))
    with other.write() as tx:
        tx.append(event("other"))
    with pytest.raises(RecordNotEmpty):
        move_to_database(path, place(url))
    still = SqliteRecord(path)
    assert (kinds(still), kinds(other)) == (["thing_happened", "later"], ["other"])
    still.close()
    other.close()


def test_a_record_that_was_tampered_with_is_not_moved(url: str, tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    record = SqliteRecord(path)
    tamper(record, "UPDATE documents SET body = replace(body, 'second', 'forged')")
    with pytest.raises(EvidenceBroken, match="is not what AOP wrote"):
        move_to_database(path, place(url))
    assert kinds(record) == ["thing_happened", "later"]
    record.close()


def test_closing_a_record_for_good_covers_every_table(tmp_path: Path) -> None:
    path = filled(tmp_path / "record.db")
    record = SqliteRecord(path)
    with record.statements() as sql:
        close_for_good(sql)
    record.close()
    older = sqlite3.connect(path)
    for table in ("journal", "documents", "operations", "claims", "unshown", "shown", "writes"):
        with pytest.raises(sqlite3.IntegrityError, match="the record was moved"):
            older.execute(f"INSERT INTO {table} DEFAULT VALUES")
    older.close()
