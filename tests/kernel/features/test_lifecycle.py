"""The life of a feature: every step that is not listed is refused, and the index follows each one that is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.core.errors import Fault, InvalidStatusTransition
from aop.core.ids import ApprovalId, CommitId, FeatureId, ObjectId, TreeId
from aop.kernel.features.lifecycle import next_steps, relist, require_status, store_feature, with_status
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState, Index, Status
from aop.kernel.record.port import Claim

STEPS = {
    ("planning", "building"),
    ("planning", "blocked"),
    ("planning", "failed"),
    ("building", "qa"),
    ("building", "blocked"),
    ("building", "failed"),
    ("qa", "ready_to_merge"),
    ("qa", "blocked"),
    ("qa", "failed"),
    ("ready_to_merge", "merged"),
    ("ready_to_merge", "building"),
    ("ready_to_merge", "qa"),
    ("ready_to_merge", "blocked"),
    ("ready_to_merge", "failed"),
    ("blocked", "planning"),
    ("blocked", "building"),
    ("blocked", "qa"),
    ("blocked", "failed"),
}


def feature(status: Status, name: str = "one") -> FeatureState:
    return FeatureState(
        version=1,
        feature_id=FeatureId(name),
        branch=name,
        worktree_path=f".worktrees/{name}",
        status=status,
        gate_profile="default",
        gates={},
        last_updated="2026-01-02T03:04:05.678Z",
        base_commit=CommitId(ObjectId("c" * 40)),
        tree=TreeId(ObjectId("e" * 40)),
    )


@pytest.fixture
def record(tmp_path: Path) -> Iterator[SqliteRecord]:
    opened = SqliteRecord(tmp_path / "record.db")
    yield opened
    opened.close()


@pytest.mark.req("AOP-254")
@pytest.mark.parametrize("old", Status)
@pytest.mark.parametrize("new", Status)
def test_a_feature_takes_the_steps_of_the_list_and_no_other(old: Status, new: Status) -> None:
    before = feature(old)
    if (old.value, new.value) in STEPS:
        after = with_status(before, new, reason="Somebody said so.")
        came_from = old if new is Status.BLOCKED else None
        assert after == msgspec.structs.replace(
            before, status=new, status_reason="Somebody said so.", blocked_from=came_from
        )
        return
    with pytest.raises(InvalidStatusTransition) as refused:
        with_status(before, new, reason="Somebody said so.")
    assert refused.value.message == f"The feature `one` is `{old}` and cannot become `{new}`."
    allowed = sorted(to for step, to in STEPS if step == old)
    assert refused.value.facts == {"feature_id": "one", "status": old, "allowed": allowed}


@pytest.mark.req("AOP-253")
@pytest.mark.parametrize("new", [Status.PLANNING, Status.BUILDING, Status.QA])
def test_nobody_leaves_blocked_without_a_reason(new: Status) -> None:
    with pytest.raises(InvalidStatusTransition, match="leaving `blocked` needs a reason"):
        with_status(feature(Status.BLOCKED), new)
    assert with_status(feature(Status.BLOCKED), Status.FAILED).status is Status.FAILED


@pytest.mark.req("AOP-253")
@pytest.mark.parametrize(
    ("reached", "allowed"),
    [
        ("planning", ["failed", "planning"]),
        ("building", ["building", "failed", "planning"]),
        ("qa", ["building", "failed", "planning", "qa"]),
        ("ready_to_merge", ["building", "failed", "planning", "qa"]),
    ],
)
def test_a_blocked_feature_goes_on_no_further_than_it_had_come(reached: str, allowed: list[str]) -> None:
    blocked = with_status(feature(Status(reached)), Status.BLOCKED, reason="It waits.")
    assert sorted(next_steps(blocked)) == allowed
    with pytest.raises(InvalidStatusTransition) as refused:
        with_status(blocked, Status.READY_TO_MERGE, reason="It is fine.")
    assert refused.value.facts["allowed"] == allowed


def test_an_old_reason_does_not_stay_with_a_new_status() -> None:
    waiting = with_status(feature(Status.QA), Status.BLOCKED, reason="It waits.")
    assert with_status(with_status(waiting, Status.QA, reason="It goes on."), Status.READY_TO_MERGE).status_reason == ""


@pytest.mark.req("AOP-254")
def test_an_action_that_the_status_does_not_allow_is_refused() -> None:
    require_status(feature(Status.QA), Status.BUILDING, Status.QA, to="be patched")
    with pytest.raises(InvalidStatusTransition) as refused:
        require_status(feature(Status.MERGED), Status.BUILDING, Status.QA, to="be patched")
    assert refused.value.message == "The feature `one` is `merged`; to be patched it must be `building` or `qa`."


@pytest.mark.req("AOP-029", "AOP-094", "AOP-095")
def test_the_index_lists_each_feature_once_where_its_status_belongs(record: SqliteRecord) -> None:
    with record.write() as tx:
        for name in ("two", "one"):
            tx.put(feature(Status.PLANNING, name), name)
            relist(tx, FeatureId(name), Status.PLANNING, now="t0")
    seen = []
    states = {"one": feature(Status.PLANNING, "one")}
    for step in (Status.BUILDING, Status.BLOCKED, Status.BUILDING, Status.QA, Status.READY_TO_MERGE, Status.MERGED):
        with record.write() as tx:
            before = states["one"]
            after = with_status(before, step, reason="It goes on." if before.status is Status.BLOCKED else "")
            states["one"] = store_feature(tx, before, after, now=at(before.version))
            index = tx.get(Index, Index.key)
        assert index is not None
        seen.append((index.version, index.active, index.blocked, index.merged, index.failed, index.updated_at))
    assert seen == [
        (2, ("one", "two"), (), (), (), "t0"),
        (3, ("two",), ("one",), (), (), at(2)),
        (4, ("one", "two"), (), (), (), at(3)),
        (4, ("one", "two"), (), (), (), at(3)),
        (4, ("one", "two"), (), (), (), at(3)),
        (5, ("two",), (), ("one",), (), at(6)),
    ]
    assert (states["one"].version, states["one"].last_updated) == (7, at(6))


def at(second: int) -> str:
    return f"2026-01-02T03:04:0{second}.000Z"


@pytest.mark.parametrize(("end", "held"), [(Status.MERGED, 0), (Status.FAILED, 0), (Status.BLOCKED, 1)])
def test_a_feature_that_has_ended_claims_nothing_any_more(record: SqliteRecord, end: Status, held: int) -> None:
    before = feature(Status.READY_TO_MERGE)
    with record.write() as tx:
        tx.put(before, "one")
        tx.set_claims(before.feature_id, [Claim(feature_id=before.feature_id, kind="file", key="a", text="a")])
        store_feature(tx, before, with_status(before, end), now=at(1))
        assert len(tx.claims_near("file", [""])) == held
        assert ("feature", "one") in [(what.kind, what.key) for what in tx.unshown()]


@pytest.mark.req("AOP-041")
@pytest.mark.parametrize(
    ("changes", "misfit"),
    [
        ({"last_updated": "yesterday"}, "$.last_updated"),
        ({"status": "almost done"}, "$.status"),
        ({"branch": ""}, "$.branch"),
        ({"gates": {"fast": "perhaps"}}, "$.gates"),
        ({"role_status": {"planner": "asleep"}}, "$.role_status"),
        ({"locks": None}, "$.locks"),
    ],
)
def test_a_state_that_does_not_have_its_shape_is_not_written(
    record: SqliteRecord, changes: dict[str, Any], misfit: str
) -> None:
    known = feature(Status.PLANNING)
    with record.write() as tx:
        tx.put(known, "one")
    wrong = msgspec.structs.replace(known, version=2, **changes)
    with pytest.raises(Fault, match=re.escape(misfit)), record.write() as tx:
        tx.put(wrong, "one")
    with record.read() as view:
        assert view.get(FeatureState, "one") == known


@pytest.mark.req("AOP-041")
def test_no_document_is_written_without_its_shape(record: SqliteRecord) -> None:
    approval = Approval(
        version=1,
        approval_id=ApprovalId("approval-1"),
        feature_id=FeatureId("one"),
        tree=TreeId(ObjectId("1" * 40)),
        base=CommitId(ObjectId("2" * 40)),
        gate_runs={},
        config_hash="3",
        approved_by="ada",
        approved_at="2026-01-01T00:00:00.000Z",
    )
    wrong = msgspec.structs.replace(approval, gate_runs=["fast"])
    with pytest.raises(Fault, match=re.escape("$.gate_runs")), record.write() as tx:
        tx.put(wrong, "approval-1")
    with record.read() as view:
        assert view.get(Approval, "approval-1") is None
