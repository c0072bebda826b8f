"""evidence.verify: what was changed by other means than AOP's is named."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.storage.record.writes import adopt_contents
from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.gateway.principals import Principal
from tests.kernel.tools.worlds import plain
from tests.world import World


def tamper(world: World, sql: str, *values: Any) -> None:
    """Change the database behind AOP's back."""
    with sqlite3.connect(world.root / ".aop/record.db") as connection:
        assert connection.execute(sql, values).rowcount
    connection.close()


def verify(world: World, **arguments: Any) -> Any:
    return plain(world.ok("evidence.verify", **arguments))


def broken(world: World, **arguments: Any) -> Any:
    error = world.call("evidence.verify", **arguments).error
    assert error is not None
    assert error["code"] == "evidence_broken"
    return error["details"]


def test_an_untouched_record_is_intact(readied: World) -> None:
    readied.approval()
    answer = verify(readied)
    with readied.app.record.read() as view:
        *_, last = view.journal()
        *_, write = view.writes()
        contents = [name.partition(" ")[0] for name, _ in view.stored_digests()]
    assert write.seq == last.seq
    assert answer == {
        "entries": last.seq,
        "head_seq": last.seq,
        "head_hash": write.hash,
        "gate_runs": 2,
        "logs": 2,
        "logs_elsewhere": 0,
        "approvals": 1,
        "undigested": 0,
        "contracts": 0,
        "batches": 0,
        "builds": 0,
        "documents": sum(kind != "operation" for kind in contents),
        "operations": contents.count("operation"),
    }
    assert {"feature", "plan", "gate_run", "approval", "qa_index", "operation"} <= set(contents)
    assert verify(readied, feature_id="one") == answer
    # An anchor of an AOP that had no chain of writes still holds.
    assert verify(readied, anchor={"seq": last.seq, "hash": last.hash}) == answer
    assert readied.refusal("evidence.verify", feature_id="two")["code"] == "unknown_feature"
    readied.init("two")
    of_two = verify(readied, feature_id="two")
    assert (of_two["entries"], of_two["gate_runs"], of_two["logs"], of_two["approvals"]) == (last.seq + 1, 0, 0, 0)


def test_a_merged_and_a_deleted_feature_leave_an_intact_record(readied: World) -> None:
    readied.ok("feature.ready_to_merge", feature_id="one", user_approval_token=readied.approval())
    assert verify(readied)["gate_runs"] == 3
    readied.ok("feature.delete", feature_id="one", dry_run=False)
    assert (verify(readied)["gate_runs"], verify(readied, feature_id="one")["gate_runs"]) == (0, 0)


def test_a_record_in_which_nothing_happened_is_intact(world: World) -> None:
    answer = verify(world)
    assert (answer["entries"], answer["head_seq"], answer["operations"]) == (0, 0, 0)


JOURNAL = [
    pytest.param("UPDATE journal SET payload = '{}' WHERE seq = 2", "changed", 2, id="payload"),
    pytest.param("UPDATE journal SET actor = 'person:eve' WHERE seq = 3", "changed", 3, id="actor"),
    pytest.param("UPDATE journal SET at = '2020' WHERE seq = 1", "changed", 1, id="time"),
    pytest.param("UPDATE journal SET hash = 'x' WHERE seq = 2", "changed", 2, id="hash"),
    pytest.param("UPDATE journal SET previous_hash = 'x' WHERE seq = 2", "unlinked", 2, id="link"),
    pytest.param("UPDATE journal SET payload = 'no JSON' WHERE seq = 2", "unreadable", 2, id="no JSON"),
    pytest.param("DELETE FROM journal WHERE seq = 2", "missing", 2, id="gone"),
    pytest.param("DELETE FROM journal WHERE seq = 1", "missing", 1, id="first gone"),
]


@pytest.mark.parametrize(("sql", "kind", "seq"), JOURNAL)
def test_the_first_entry_that_was_tampered_with_is_named(readied: World, sql: str, kind: str, seq: int) -> None:
    tamper(readied, sql)
    details = broken(readied)
    assert (details["kind"], details["seq"], details["requires_human"]) == (kind, seq, True)


def test_an_end_that_was_cut_off_is_seen_by_the_anchor(readied: World) -> None:
    before = verify(readied)
    anchor = {"seq": before["head_seq"], "hash": before["head_hash"]}
    readied.ok("feature.log_append", feature_id="one", note="More.")
    assert verify(readied, anchor=anchor)["entries"] == before["entries"] + 1
    tamper(readied, "DELETE FROM journal WHERE seq >= ?", anchor["seq"])
    details = broken(readied, anchor=anchor)
    assert (details["kind"], details["seq"]) == ("cut", anchor["seq"])


def test_an_end_that_was_cut_off_is_seen_by_the_writes_that_are_newer(readied: World) -> None:
    before = verify(readied)["head_seq"]
    readied.ok("feature.log_append", feature_id="one", note="More.")
    tamper(readied, "DELETE FROM journal WHERE seq > ?", before)
    assert broken(readied)["kind"] == "cut"


def test_a_journal_that_was_written_anew_is_seen_by_the_anchor(readied: World) -> None:
    anchor = {"seq": 1, "hash": "f" * 64}
    assert broken(readied, anchor=anchor)["kind"] == "rewritten"


def test_a_verdict_that_was_made_a_pass_is_seen(readied: World) -> None:
    tamper(readied, "UPDATE documents SET body = json_set(body, '$.verdict', 'fail') WHERE kind = 'gate_run'")
    details = broken(readied)
    assert (details["kind"], details["feature_id"]) == ("changed", "one")


def test_a_gate_run_that_has_no_shape_any_more_is_seen(readied: World) -> None:
    tamper(readied, "UPDATE documents SET body = '{}' WHERE kind = 'gate_run'")
    assert broken(readied)["kind"] == "unreadable"


def test_a_gate_run_that_never_was_is_seen(readied: World) -> None:
    tamper(
        readied,
        "INSERT INTO documents SELECT kind, 'forged', version, replace(body, json_extract(body, '$.run_id'), 'forged')"
        " FROM documents WHERE kind = 'gate_run' LIMIT 1",
    )
    assert broken(readied)["kind"] == "missing"


def test_an_approval_for_another_tree_is_seen(readied: World) -> None:
    readied.approval()
    tamper(readied, "UPDATE documents SET body = json_set(body, '$.tree', ?) WHERE kind = 'approval'", "0" * 40)
    assert broken(readied)["kind"] == "changed"


CONTENTS = [
    (
        "UPDATE documents SET body = json_set(body, '$.status', 'merged') WHERE kind = 'feature'",
        "changed",
        "feature `one`",
    ),
    (
        "UPDATE documents SET version = 9, body = replace(body, 'src', 'sec') WHERE kind = 'plan'",
        "changed",
        "plan `one`",
    ),
    ("DELETE FROM documents WHERE kind = 'plan'", "missing", "plan `one`"),
    ("INSERT INTO documents SELECT kind, 'two', 1, body FROM documents WHERE kind = 'plan'", "missing", "plan `two`"),
    ("UPDATE operations SET answer = '{}' WHERE number = 2", "changed", "operation `op-"),
    ("UPDATE operations SET actor = 'person:eve' WHERE number = 2", "changed", "operation `op-"),
    ("DELETE FROM operations WHERE number = 1", "missing", "operation `op-"),
    ("UPDATE writes SET changes = '{}' WHERE number = 2", "changed", "Write 2 of the record was changed"),
    ("UPDATE writes SET changes = '[' WHERE number = 2", "unreadable", "Write 2 of the record cannot be read."),
    ("UPDATE writes SET seq = 1 WHERE number = 3", "changed", "Write 3 of the record was changed"),
    ("UPDATE writes SET previous_hash = 'x' WHERE number = 2", "unlinked", "Write 2 of the record does not follow"),
    ("DELETE FROM writes WHERE number = 2", "missing", "Write 2 of the record is missing"),
]


@pytest.mark.parametrize(("sql", "kind", "said"), CONTENTS, ids=[sql[:50] for sql, _, _ in CONTENTS])
def test_any_document_or_operation_that_was_tampered_with_is_named(
    readied: World, sql: str, kind: str, said: str
) -> None:
    tamper(readied, sql)
    error = readied.call("evidence.verify").error
    assert error is not None
    assert (error["code"], error["details"]["kind"], said in error["message"]) == ("evidence_broken", kind, True), error


def test_documents_that_were_written_anew_with_their_chain_are_seen_by_the_anchor(readied: World) -> None:
    before = verify(readied)
    anchor = {"seq": before["head_seq"], "hash": before["head_hash"]}
    tamper(readied, "DELETE FROM documents WHERE kind = 'plan'")
    tamper(readied, "DELETE FROM writes")
    with sqlite3.connect(readied.root / ".aop/record.db") as other:
        adopt_contents(other)
    other.close()
    assert verify(readied)["documents"] == before["documents"] - 1
    assert broken(readied, anchor=anchor)["kind"] == "rewritten"


def edited(path: Path) -> None:
    path.write_text("All tests passed.\n")


def removed(path: Path) -> None:
    path.unlink()


def linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize(("change", "kind"), [(edited, "changed"), (removed, "missing"), (linked, "changed")])
def test_a_log_that_is_not_what_a_step_wrote_is_seen(readied: World, change: Callable[[Path], None], kind: str) -> None:
    readied.init("two")
    change(next((readied.root / "agentic/features/one/logs").iterdir()))
    assert broken(readied)["kind"] == kind
    assert broken(readied, feature_id="one")["kind"] == kind
    assert verify(readied, feature_id="two")["logs"] == 0


def test_an_evidence_file_that_was_edited_is_seen(readied: World) -> None:
    file = next((readied.root / "agentic/features/one/evidence").iterdir())
    file.write_text(json.dumps({"verdict": "pass"}))
    assert broken(readied)["kind"] == "changed"


def test_a_token_of_one_feature_does_not_ask_about_another(readied: World) -> None:
    who = Principal(role=Role.QA, actor="qa:two", features=frozenset({FeatureId("two")}))
    refused = readied.app.gateway.call(who, "evidence.verify", {"feature_id": "one"}).error
    assert refused is not None
    assert refused["code"] == "forbidden_tool_for_role"
    assert readied.app.gateway.call(who, "evidence.verify", {}).data["gate_runs"] == 0
