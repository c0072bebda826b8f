"""The record on a real SQLite file and a real PostgreSQL: documents, journal, ledger, claims, threads and processes."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import msgspec
import pytest

from aop.core.errors import Fault, UnknownFeature
from aop.core.ids import FeatureId, OperationId
from aop.kernel.record.chain import FIRST_HASH, chained_hash
from aop.kernel.record.documents.base import Document
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import Verdict
from aop.kernel.record.port import Claim, Event, JournalEntry, Operation, Transaction
from tests.adapters.storage.postgres_clusters import needs_postgres, running_cluster
from tests.adapters.storage.records import AnyRecord, address, everything, open_at, tamper
from tests.racing import race, running

ONE, TWO = FeatureId("one"), FeatureId("two")


class Note(Document, frozen=True, kw_only=True):
    kind: ClassVar[str] = "note"
    text: str


class Other(Document, frozen=True, kw_only=True):
    kind: ClassVar[str] = "other"
    text: str


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with running_cluster() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "private" / "record.db")
    return address(request.getfixturevalue("cluster"), uuid4().hex)


@pytest.fixture
def record(where: str) -> Iterator[AnyRecord]:
    opened = open_at(where)
    yield opened
    opened.close()


def event(kind: str = "thing_happened", feature_id: FeatureId | None = None, **payload: Any) -> Event:
    return Event(
        kind=kind,
        at="2026-01-02T03:04:05.678Z",
        actor="person:ada",
        operation_id=OperationId("op-1"),
        feature_id=feature_id,
        payload=payload,
    )


def operation(name: str = "op-1") -> Operation:
    return Operation(operation_id=OperationId(name), tool="feature.init", payload_hash="f" * 64, actor="person:ada")


# --- documents -----------------------------------------------------------------------------------


def test_a_document_is_read_back_as_it_was_put(record: AnyRecord) -> None:
    note = Note(version=1, text="ä\n\u2028 \x00 end")
    with record.write() as tx:
        tx.put(note, "a")
    with record.read() as view:
        assert (view.get(Note, "a"), view.get(Note, "b"), view.get(Other, "a")) == (note, None, None)


def test_all_documents_of_a_kind_come_by_key(record: AnyRecord) -> None:
    with record.write() as tx:
        for key in ("b", "a-1", "a"):
            tx.put(Note(version=1, text=key), key)
        tx.put(Other(version=1, text="not a note"), "a")
    with record.read() as view:
        assert [note.text for note in view.all(Note)] == ["a", "a-1", "b"]


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("", ["a", "a/", "a/1", "a/10", "a/é", "a0", "b/1", "é"]),
        ("a", ["a", "a/", "a/1", "a/10", "a/é", "a0"]),
        ("a/", ["a/", "a/1", "a/10", "a/é"]),
        ("a/1", ["a/1", "a/10"]),
        ("%", []),
        ("A", []),
        ("é", ["é"]),
    ],
)
def test_the_documents_below_a_prefix_are_those_whose_key_begins_with_it(
    record: AnyRecord, prefix: str, found: list[str]
) -> None:
    with record.write() as tx:
        for key in ("b/1", "a/10", "a", "é", "a/é", "a/1", "a0", "a/"):
            tx.put(Note(version=1, text=key), key)
            tx.put(Other(version=1, text=key), key)
    with record.read() as view:
        assert [note.text for note in view.all(Note, prefix)] == found


@pytest.mark.req("AOP-029")
@pytest.mark.parametrize("version", [1, 2, 4], ids=["again", "same", "skipped"])
def test_a_version_that_is_not_the_next_one_is_never_stored(record: AnyRecord, version: int) -> None:
    second = Note(version=2, text="second")
    with record.write() as tx:
        tx.put(Note(version=1, text="first"), "a")
        tx.put(second, "a")
    with pytest.raises(Fault, match=f"The note `a` is not at version {version - 1}"), record.write() as tx:
        tx.put(Note(version=version, text="other"), "a")
    with record.read() as view:
        assert view.get(Note, "a") == second


def test_a_new_document_begins_at_version_1(record: AnyRecord) -> None:
    with pytest.raises(Fault, match="The note `a` is not at version 1"), record.write() as tx:
        tx.put(Note(version=2, text="first"), "a")


def test_a_stored_document_of_another_shape_is_a_fault_that_names_it(record: AnyRecord) -> None:
    with record.write() as tx:
        tx.put(Note(version=1, text="not a feature"), "a")
    tamper(record, "UPDATE documents SET kind = 'feature'")
    with pytest.raises(Fault, match="The feature `a` in the record does not have its shape"), record.read() as view:
        view.get(FeatureState, "a")


# --- transactions --------------------------------------------------------------------------------


def change_everything(tx: Transaction) -> None:
    tx.put(Note(version=1, text="first"), "a")
    tx.append(event())
    tx.enter_operation(operation())
    tx.set_claims(ONE, [Claim(feature_id=ONE, kind="file", key="a", text="a")])
    tx.mark_unshown("feature", ONE)


def change_everything_and_refuse(tx: Transaction) -> None:
    change_everything(tx)
    raise UnknownFeature("one")


def test_an_exception_inside_changes_nothing_at_all(record: AnyRecord) -> None:
    before = everything(record)
    with pytest.raises(UnknownFeature), record.write() as tx:
        change_everything_and_refuse(tx)
    assert everything(record) == before
    with record.write() as tx:
        change_everything(tx)
    assert everything(record) != before


def test_a_reader_sees_one_state_while_another_process_writes(record: AnyRecord, where: str) -> None:
    with record.write() as tx:
        tx.put(Note(version=1, text="first"), "a")
    writer = open_at(where)
    with record.read() as view:
        assert view.get(Note, "a") == Note(version=1, text="first")
        with writer.write() as tx:
            tx.put(Note(version=2, text="second"), "a")
            tx.append(event())
        assert (view.get(Note, "a"), list(view.journal())) == (Note(version=1, text="first"), [])
    writer.close()
    with record.read() as view:
        assert view.get(Note, "a") == Note(version=2, text="second")


def test_a_writer_that_is_killed_inside_its_transaction_leaves_nothing_and_blocks_nobody(
    record: AnyRecord, where: str
) -> None:
    with record.write() as tx:
        tx.append(event("before"))
    code = """
from tests.adapters.storage.records import open_at
from aop.kernel.record.port import Event
with open_at(sys.argv[1]).write() as tx:
    tx.append(Event(kind="never", at="", actor="", operation_id="op-2"))
    ready()
"""
    with running(code, where) as child:
        child.kill()
        child.wait()
        with record.write() as tx:
            tx.append(event("after"))
    with record.read() as view:
        assert [entry.event.kind for entry in view.journal()] == ["before", "after"]


def test_what_is_not_durable_outlasts_its_process(record: AnyRecord, where: str) -> None:
    code = """
from tests.adapters.storage.records import open_at
from aop.kernel.record.port import Event
with open_at(sys.argv[1]).write(durable=False) as tx:
    tx.append(Event(kind="written", at="", actor="", operation_id="op-2"))
ready()
"""
    with running(code, where) as child:
        child.kill()
        child.wait()
    with record.read() as view:
        assert [entry.event.kind for entry in view.journal()] == ["written"]


def test_a_closed_record_opens_again(record: AnyRecord) -> None:
    with record.write() as tx:
        tx.append(event())
    record.close()
    with record.read() as view:
        assert [entry.seq for entry in view.journal()] == [1]


# --- the journal ---------------------------------------------------------------------------------


def first_broken(entries: Iterable[JournalEntry]) -> int | None:
    """Return the number of the first entry that does not follow from those before it."""
    previous = FIRST_HASH
    for seq, entry in enumerate(entries, start=1):
        if (entry.seq, entry.previous_hash, entry.hash) != (seq, previous, chained_hash(seq, entry.event, previous)):
            return seq
        previous = entry.hash
    return None


def test_the_journal_numbers_its_events_and_chains_them(record: AnyRecord) -> None:
    payload: dict[str, Any] = {
        "verdict": Verdict.PASS,
        "deep": {"list": [1, 2.5, None, True], "text": "ä\u2028"},
        "pair": ("a", "b"),
    }
    with record.write() as tx:
        returned = [tx.append(event("first", **payload)), tx.append(event("second", ONE))]
    with record.read() as view:
        entries = list(view.journal())
    assert [entry.seq for entry in entries] == [1, 2]
    assert entries[0].event.payload == {"verdict": "pass", "deep": payload["deep"], "pair": ["a", "b"]}
    assert [entry.hash for entry in entries] == [entry.hash for entry in returned]
    assert [entry.previous_hash for entry in entries] == [FIRST_HASH, entries[0].hash]
    assert first_broken(entries) is None


@pytest.mark.parametrize(
    ("tampering", "broken"),
    [
        pytest.param("UPDATE journal SET payload = '{\"number\":9}' WHERE seq = 3", 3, id="payload"),
        pytest.param("UPDATE journal SET actor = 'person:bob' WHERE seq = 2", 2, id="actor"),
        pytest.param("UPDATE journal SET at = '2025-01-01T00:00:00.000Z' WHERE seq = 5", 5, id="time"),
        pytest.param("UPDATE journal SET kind = 'another' WHERE seq = 1", 1, id="kind"),
        pytest.param("UPDATE journal SET operation_id = 'op-9' WHERE seq = 4", 4, id="operation"),
        pytest.param("UPDATE journal SET feature_id = NULL WHERE seq = 4", 4, id="feature"),
        pytest.param("DELETE FROM journal WHERE seq = 3", 3, id="deleted"),
        pytest.param("UPDATE journal SET seq = seq + 10 WHERE seq > 2", 3, id="renumbered"),
        pytest.param("UPDATE journal SET hash = previous_hash WHERE seq = 2", 2, id="hash"),
    ],
)
def test_a_journal_that_was_tampered_with_does_not_add_up(record: AnyRecord, tampering: str, broken: int) -> None:
    with record.write() as tx:
        for number in range(1, 6):
            tx.append(event(feature_id=ONE, number=number))
    tamper(record, tampering)
    with record.read() as view:
        assert first_broken(view.journal()) == broken


def test_the_journal_is_read_from_a_number_on_by_feature_and_by_kind(record: AnyRecord) -> None:
    with record.write() as tx:
        for kind, feature_id in (("a", ONE), ("b", ONE), ("a", TWO), ("c", None), ("a", ONE)):
            tx.append(event(kind, feature_id))
    with record.read() as view:
        found = {
            "after": [entry.seq for entry in view.journal(after=3)],
            "feature": [entry.seq for entry in view.journal(feature_id=ONE)],
            "kinds": [entry.seq for entry in view.journal(kinds=("b", "c"))],
            "all three": [entry.seq for entry in view.journal(after=1, feature_id=ONE, kinds=("a",))],
        }
    assert found == {"after": [4, 5], "feature": [1, 2, 5], "kinds": [2, 4], "all three": [5]}


# --- the ledger ----------------------------------------------------------------------------------


@pytest.mark.req("AOP-326")
def test_an_operation_is_pending_until_its_answer_is_stored(record: AnyRecord) -> None:
    entry, intent, answer = operation(), {"to": ["x", 1]}, {"ok": True, "data": {"deep": [None]}}
    seen: list[Operation | None] = []
    steps: Sequence[Any] = (
        lambda tx: tx.enter_operation(entry),
        lambda tx: tx.intend(entry.operation_id, intent),
        lambda tx: tx.finish_operation(entry.operation_id, answer),
    )
    pending: list[int] = []
    for step in steps:
        with record.write() as tx:
            step(tx)
        with record.read() as view:
            seen.append(view.operation(entry.operation_id))
            pending.append(len(view.pending_operations()))
    intended = msgspec.structs.replace(entry, intent=intent)
    assert seen == [entry, intended, msgspec.structs.replace(intended, answer=answer)]
    assert pending == [1, 1, 0]


@pytest.mark.req("AOP-326")
def test_an_answer_is_never_replaced_or_taken_back(record: AnyRecord) -> None:
    name = operation().operation_id
    with record.write() as tx:
        tx.enter_operation(operation())
        tx.finish_operation(name, {"ok": True})
    changes: Sequence[Any] = (
        lambda tx: tx.finish_operation(name, {"ok": False}),
        lambda tx: tx.withdraw_operation(name),
        lambda tx: tx.intend(name, {}),
    )
    for change in changes:
        with pytest.raises(Fault, match="`op-1` is not pending"), record.write() as tx:
            change(tx)
    with pytest.raises((sqlite3.IntegrityError, Fault)), record.write() as tx:
        tx.enter_operation(operation())
    with record.read() as view:
        assert view.operation(name) == msgspec.structs.replace(operation(), answer={"ok": True})


def test_a_withdrawn_operation_leaves_its_id_free(record: AnyRecord) -> None:
    with record.write() as tx:
        tx.enter_operation(operation())
    with record.write() as tx:
        tx.withdraw_operation(operation().operation_id)
    with record.write() as tx:
        assert tx.operation(operation().operation_id) is None
        tx.enter_operation(operation())


def test_pending_operations_come_oldest_first(record: AnyRecord) -> None:
    with record.write() as tx:
        for name in ("z", "m", "a"):
            tx.enter_operation(operation(name))
        tx.finish_operation(OperationId("m"), {})
    with record.read() as view:
        assert [entry.operation_id for entry in view.pending_operations()] == ["z", "a"]


# --- claims --------------------------------------------------------------------------------------

HELD = {
    "src": "src/",
    "src/app": "src/app/",
    "src/app/a.py": "src/app/a.py",
    "src/app.py": "src/app.py",
    "src/apple/b.py": "src/apple/b.py",
    "docs/a.md": "docs/a.md",
}


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        pytest.param(["docs/a.md"], {"docs/a.md"}, id="itself"),
        pytest.param(["src/app/a.py"], {"src", "src/app", "src/app/a.py"}, id="folders above"),
        pytest.param(["src/app"], {"src", "src/app", "src/app/a.py"}, id="below, and no namesakes"),
        pytest.param(["docs"], {"docs/a.md"}, id="below a folder that nobody holds"),
        pytest.param(["src/ap"], {"src"}, id="half a name is no folder"),
        pytest.param([""], set(HELD), id="the root is above everything"),
        pytest.param(["lib/x.py"], set(), id="elsewhere"),
        pytest.param(["docs/a.md", "src/app.py"], {"docs/a.md", "src", "src/app.py"}, id="several"),
        pytest.param([], set(), id="none"),
    ],
)
def test_claims_are_found_near_a_key(record: AnyRecord, keys: list[str], found: set[str]) -> None:
    pattern = Claim(feature_id=TWO, kind="file", key="lib/*.rs", text="lib/*.rs", is_pattern=True)
    plain = [Claim(feature_id=ONE, kind="file", key=key, text=text) for key, text in HELD.items()]
    with record.write() as tx:
        tx.set_claims(ONE, [*plain, Claim(feature_id=ONE, kind="area", key="src", text="src")])
        tx.set_claims(TWO, [pattern])
    with record.read() as view:
        near = view.claims_near("file", keys)
    assert set(near) == {pattern, *(claim for claim in plain if claim.key in found)}
    assert len(near) == len(set(near))


def test_a_claim_on_the_root_is_found_from_everywhere(record: AnyRecord) -> None:
    root = Claim(feature_id=ONE, kind="area", key="", text="/")
    with record.write() as tx:
        tx.set_claims(ONE, [root])
    with record.read() as view:
        assert (view.claims_near("area", ["src/app/a.py"]), view.claims_near("area", [""])) == ((root,), (root,))


def test_two_entries_with_one_key_are_two_claims(record: AnyRecord) -> None:
    claims = (
        Claim(feature_id=ONE, kind="file", key="src/x", text="src/x"),
        Claim(feature_id=ONE, kind="file", key="src/x", text="src/x/"),
    )
    with record.write() as tx:
        tx.set_claims(ONE, [*claims, claims[0]])
    with record.read() as view:
        assert view.claims_near("file", ["src/x"]) == claims


def test_claims_on_paths_as_long_as_a_system_allows_are_found_and_told_apart(record: AnyRecord) -> None:
    # Digits of a digest: an index could not hold them by compressing them.
    folder = "/".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(61))
    paths = [f"{folder}/{'x' * 60}{end}" for end in ("a", "b", "\\", "ü")]
    claims = tuple(Claim(feature_id=ONE, kind="file", key=path, text=path) for path in sorted(paths))
    assert len(paths[0]) > 4000
    with record.write() as tx:
        tx.set_claims(ONE, [*claims, claims[0]])
    with record.read() as view:
        assert view.claims_near("file", [folder]) == claims
        assert view.claims_near("file", [paths[1]]) == tuple(claim for claim in claims if claim.key == paths[1])


def test_new_claims_of_a_feature_replace_its_old_ones_only(record: AnyRecord) -> None:
    new = Claim(feature_id=ONE, kind="file", key="b", text="b")
    others = Claim(feature_id=TWO, kind="file", key="a", text="a")
    with record.write() as tx:
        tx.set_claims(ONE, [Claim(feature_id=ONE, kind="file", key="a", text="a")])
        tx.set_claims(TWO, [others])
        tx.set_claims(ONE, [new])
        assert tx.claims_near("file", [""]) == (others, new)


# --- what is on disk -----------------------------------------------------------------------------


def test_what_a_later_transaction_asks_for_is_not_answered_by_an_earlier_showing(record: AnyRecord) -> None:
    with record.write() as tx:
        tx.mark_unshown("feature", ONE)
        tx.mark_unshown("index", "features")
        early = tx.unshown()
    with record.write() as tx:
        tx.mark_unshown("feature", ONE)
    with record.write() as tx:
        for what in early:
            tx.mark_shown(what, {f"{what.key}.md": "a" * 64})
    with record.read() as view:
        (left,) = view.unshown()
        assert (left.kind, left.key) == ("feature", ONE)
        assert left.stamp > max(what.stamp for what in early)
        # What was written was written, even though it must be written again.
        assert view.shown_hashes(["one.md"])["one.md"] == "a" * 64


def test_a_stamp_is_never_given_out_twice(record: AnyRecord) -> None:
    stamps = []
    for _ in range(3):
        with record.write() as tx:
            tx.mark_unshown("worktree", ONE)
            (what,) = tx.unshown()
        with record.write() as tx:
            tx.mark_shown(what, {})
        stamps.append(what.stamp)
    assert len(set(stamps)) == 3


def test_the_hash_of_a_shown_file_is_the_newest_one(record: AnyRecord) -> None:
    with record.write() as tx:
        for digit in "ab":
            tx.mark_unshown("feature", ONE)
            tx.mark_shown(tx.unshown()[0], {"state.md": digit * 64})
    with record.read() as view:
        assert (
            view.shown_hashes(["state.md"])["state.md"],
            view.shown_hashes(["plan.json"])["plan.json"],
            view.unshown(),
        ) == ("b" * 64, None, ())


# --- many at once --------------------------------------------------------------------------------


def test_threads_write_one_after_the_other(record: AnyRecord) -> None:
    def count_up() -> None:
        for _ in range(15):
            with record.write() as tx:
                note = tx.get(Note, "count")
                number = 1 if note is None else note.version + 1
                tx.put(Note(version=number, text=str(number)), "count")
                tx.append(event(number=number))

    threads = [threading.Thread(target=count_up) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with record.read() as view:
        entries = list(view.journal())
        assert view.get(Note, "count") == Note(version=90, text="90")
    assert [entry.event.payload["number"] for entry in entries] == list(range(1, 91))
    assert first_broken(entries) is None


def test_a_change_inside_a_change_is_undone_alone_and_kept_with_the_outer_one(record: AnyRecord, where: str) -> None:
    def refuse() -> None:
        with record.write() as tx:
            tx.append(event("refused"))
            raise UnknownFeature("two")

    with record.write() as tx:
        tx.append(event("first"))
        with pytest.raises(UnknownFeature):
            refuse()
        with record.write(durable=False) as part, record.read() as view:
            seen = [entry.event.kind for entry in view.journal()]
            part.append(event("last", seen=seen, told=kinds_elsewhere(where)))
        assert kinds_elsewhere(where) == []
    with record.read() as view:
        entries = list(view.journal())
    assert [(entry.event.kind, entry.event.payload) for entry in entries] == [
        ("first", {}),
        ("last", {"seen": ["first"], "told": []}),
    ]
    assert first_broken(entries) is None


def test_what_was_changed_inside_a_change_that_fails_is_undone_with_it(record: AnyRecord) -> None:
    def fail() -> None:
        with record.write():
            with record.write() as tx:
                tx.append(event("lost"))
            raise UnknownFeature("two")

    with pytest.raises(UnknownFeature):
        fail()
    with record.write() as tx:
        tx.append(event("after"))
    with record.read() as view:
        assert [entry.event.kind for entry in view.journal()] == ["after"]


def kinds_elsewhere(where: str) -> list[str]:
    other = open_at(where)
    try:
        with other.read() as view:
            return [entry.event.kind for entry in view.journal()]
    finally:
        other.close()


COUNT_UP = """
from typing import ClassVar
from tests.adapters.storage.records import open_at
from aop.kernel.record.documents.features import Document
from aop.kernel.record.port import Event

class Note(Document, frozen=True, kw_only=True):
    kind: ClassVar[str] = "note"
    text: str

ready()
record = open_at(sys.argv[1])
for turn in range(15):
    with record.write() as tx:
        note = tx.get(Note, "count")
        number = 1 if note is None else note.version + 1
        tx.put(Note(version=number, text=str(number)), "count")
        tx.append(Event(kind="counted", at="", actor=sys.argv[2], operation_id="op-1", payload={"number": number}))
print(json.dumps(turn))
"""


@pytest.mark.hostile("S15")
def test_six_processes_that_open_a_new_record_together_lose_no_write(record: AnyRecord, where: str) -> None:
    assert race(COUNT_UP, [(where, f"process:{number}") for number in range(6)]) == [14] * 6
    with record.read() as view:
        entries = list(view.journal())
        assert view.get(Note, "count") == Note(version=90, text="90")
    assert [entry.event.payload["number"] for entry in entries] == list(range(1, 91))
    assert {entry.event.actor for entry in entries} == {f"process:{number}" for number in range(6)}
    assert first_broken(entries) is None
