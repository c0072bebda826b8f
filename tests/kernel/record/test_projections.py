"""Projections: the files for people and agents, byte for byte, and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.core.ids import ApprovalId, CommitId, FeatureId, GateRunId, ObjectId, OperationId, TreeId
from aop.core.text.front_matter import split_front_matter
from aop.core.text.json import parse_json
from aop.core.text.yaml import parse_yaml
from aop.kernel.record.chain import FIRST_HASH, chained_hash
from aop.kernel.record.documents.features import (
    Cluster,
    Collisions,
    FeatureEvidence,
    FeatureState,
    HeldLocks,
    Index,
    MergeEvidence,
    RoleStatuses,
    Status,
)
from aop.kernel.record.documents.gate_runs import GateRun, StepResult, Subject, Verdict
from aop.kernel.record.documents.plans import AcceptedPlan, Plan
from aop.kernel.record.documents.qa import QaHunk, QaIndex, QaItem
from aop.kernel.record.port import Event, JournalEntry
from aop.kernel.record.projections import decision_files, decision_lines, feature_files, front_matter, index_files
from tests.world import files, plan_for

GOLDEN = Path(__file__).parents[2] / "golden" / "files"

ONE, TWO = FeatureId("one"), FeatureId("two")
COMMIT, MERGE = CommitId(ObjectId("c" * 40)), CommitId(ObjectId("d" * 40))
TREE = TreeId(ObjectId("e" * 40))
NOW = "2026-01-02T03:04:05.678Z"

STATE = FeatureState(
    version=7,
    feature_id=ONE,
    branch="one",
    worktree_path=".worktrees/one",
    status=Status.BLOCKED,
    gate_profile="default",
    gates={"plan": Verdict.PASS, "fast": Verdict.FAIL, "full": Verdict.NA, "merge": Verdict.NA},
    locks=HeldLocks(held=("openapi",)),
    collisions=Collisions(files=({"feature_id": "two", "identifier": "src/a.txt"},)),
    cluster=Cluster(planner_session_id="session-1"),
    role_status=RoleStatuses(planner="done", builder="blocked"),
    last_updated=NOW,
    status_reason="It waits for `two`:\nboth change `src/a.txt`. --- no: 12:30",
    evidence=FeatureEvidence(
        last_gate_run=GateRunId("gate-1"),
        latest_by_mode={"fast": GateRunId("gate-1")},
        merge=MergeEvidence(
            commit=COMMIT,
            merge_commit=MERGE,
            strategy="squash",
            approval_id=ApprovalId("approval-1"),
            gates={"full": Verdict.PASS},
        ),
    ),
    base_commit=COMMIT,
    tree=TREE,
)
NEW = FeatureState(
    version=1,
    feature_id=TWO,
    branch="two",
    worktree_path=".worktrees/two",
    status=Status.PLANNING,
    gate_profile="default",
    gates={},
    last_updated=NOW,
    base_commit=COMMIT,
    tree=TREE,
)
PLAN = AcceptedPlan(
    version=2,
    plan=msgspec.convert(
        plan_for(
            "one",
            plan_version=2,
            revision_of=1,
            revision_reason="Two more files",
            files=files(("src/ä.txt",), ("src/a.txt",), ("src/old/",)),
            risk=["It is small"],
        ),
        Plan,
    ),
)
QA_INDEX = QaIndex(
    version=3,
    feature_id=ONE,
    source_diff_ref=f"{COMMIT}..{TREE}",
    items=(
        QaItem(
            path="src/a.txt",
            hunks=(QaHunk(start_line=2, end_line=2, change_type="modified"),),
            required_tests=("full:check",),
            status="passed",
            last_run_at=NOW,
            evidence_refs=("gate-1",),
        ),
        QaItem(path="src/ä.txt", hunks=(), required_tests=(), status="pending"),
    ),
)
INDEX = Index(
    version=4,
    active=(TWO,),
    blocked=(ONE,),
    locks={"openapi": ONE, "events": None},
    lock_leases={"openapi": {"holder": "one", "lease_id": "lease-1", "expires_at": NOW}},
    blocked_queue=({"feature_id": "one", "plan_version": 2, "detected_at": NOW},),
    updated_at=NOW,
)
RUN = GateRun(
    version=1,
    run_id=GateRunId("gate-1"),
    feature_id=ONE,
    profile="default",
    mode="fast",
    subject=Subject(tree=TREE, base_commit=COMMIT, definition="f" * 64),
    config_hash="a" * 64,
    verdict=Verdict.FAIL,
    failure_code="gate_failed",
    failure="The step `check` did not pass: it ended with exit code 1: sh check.sh",
    steps=(
        StepResult(
            name="check",
            command=("sh", "check.sh"),
            outcome="failed",
            exit_code=1,
            seconds=0.25,
            attempts=1,
            log_path="agentic/features/one/logs/gate-1-check.log",
        ),
    ),
    sandbox_level="bubblewrap",
    started_at=NOW,
    finished_at=NOW,
)


def journal(*events: tuple[str, dict[str, Any]]) -> list[JournalEntry]:
    entries, previous = [], FIRST_HASH
    for seq, (kind, payload) in enumerate(events, start=1):
        event = Event(
            kind=kind,
            at=NOW,
            actor="person:ada",
            operation_id=OperationId("op-1"),
            feature_id=ONE,
            payload=payload,
        )
        own = chained_hash(seq, event, previous)
        entries.append(JournalEntry(seq=seq, event=event, previous_hash=previous, hash=own))
        previous = own
    return entries


TOLD = journal(
    ("feature_initialised", {"branch": "one", "base_commit": COMMIT}),
    ("plan_accepted", {"plan_version": 1, "summary": "Two\n- lines {branch} %s"}),
    ("worktree_ensured", {"tree": TREE}),
    ("plan_revised", {"plan_version": 2, "revision_of": 1, "summary": "More files"}),
    ("patch_applied", {"files": 2, "tree": TREE}),
    ("gates_ran", {"mode": "fast", "profile": "default", "verdict": "fail", "tree": TREE}),
    ("approval_granted", {"tree": TREE, "base": COMMIT}),
    ("status_changed", {"old": "qa", "new": "blocked"}),
    ("note_added", {"note": "# A heading\nand more"}),
    ("feature_merged", {"strategy": "squash", "merge_commit": MERGE}),
)

WRITTEN = {
    **feature_files(STATE, PLAN, QA_INDEX, runs=[RUN], decisions=decision_lines(TOLD)),
    **feature_files(NEW, None, None, runs=[], decisions=()),
    **index_files(INDEX),
}


def test_the_files_of_fixed_documents_are_written_byte_for_byte() -> None:
    """A change here changes files that users keep and programs read: say so in docs/state-format.md."""
    golden = {path.relative_to(GOLDEN).as_posix(): path.read_bytes() for path in GOLDEN.rglob("*") if path.is_file()}
    assert golden == WRITTEN


def front_of(path: str) -> Any:
    return parse_yaml(split_front_matter(WRITTEN[path])[0]).value


def json_of(path: str) -> Any:
    return parse_json(WRITTEN[path])


@pytest.mark.req("AOP-084", "AOP-085", "AOP-086", "AOP-087", "AOP-088", "AOP-089", "AOP-090", "AOP-091", "AOP-092")
@pytest.mark.parametrize("name", ["one", "two"])
def test_the_front_matter_of_a_state_has_every_key_that_it_must_have(name: str) -> None:
    front = front_of(f"agentic/features/{name}/state.md")
    texts = ("feature_id", "branch", "worktree_path", "gate_profile", "last_updated", "status_reason")
    assert all(isinstance(front[key], str) for key in texts)
    assert (type(front["version"]), front["version"] >= 1) == (int, True)
    assert front["status"] in {status.value for status in Status}
    assert set(front["gates"].values()) <= {"pass", "fail", "na"}
    assert isinstance(front["locks"]["held"], list)
    assert {key: type(front["collisions"][key]) for key in ("files", "areas", "contracts")} == dict.fromkeys(
        ("files", "areas", "contracts"), list
    )
    assert front["cluster"].keys() == {f"{role}_session_id" for role in ("orchestrator", "planner", "builder", "qa")}
    assert all(isinstance(session, str) for session in front["cluster"].values())
    assert front["role_status"].keys() == {"planner", "builder", "qa"}
    assert set(front["role_status"].values()) <= {"ready", "running", "blocked", "done"}


@pytest.mark.req("AOP-084", "AOP-090", "AOP-093")
def test_a_state_reads_back_as_the_document_that_it_was_written_from() -> None:
    front, new = front_of("agentic/features/one/state.md"), front_of("agentic/features/two/state.md")
    assert msgspec.convert(front, FeatureState) == STATE
    assert (front["evidence"]["last_gate_run"], front["status_reason"]) == ("gate-1", STATE.status_reason)
    assert set(new["cluster"].values()) == {"unknown"}
    assert msgspec.convert({**new, "note of a later version": 1}, FeatureState) == NEW


@pytest.mark.req("AOP-086")
@pytest.mark.parametrize("status", Status)
def test_every_status_is_written_by_its_name(status: Status) -> None:
    state = msgspec.structs.replace(NEW, status=status)
    text = feature_files(state, None, None, runs=[], decisions=())["agentic/features/two/state.md"].decode()
    assert f"\nstatus: {status.value}\n" in text
    assert f"# two: {status.value}\n" in text


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(reason=texts, branch=texts.filter(bool), gate=texts.filter(bool), session=texts)
def test_whatever_a_text_holds_the_state_reads_back(reason: str, branch: str, gate: str, session: str) -> None:
    state = msgspec.structs.replace(
        STATE,
        status_reason=reason,
        branch=branch,
        gates={gate: Verdict.PASS},
        cluster=Cluster(qa_session_id=session),
    )
    written = feature_files(state, None, None, runs=[], decisions=())["agentic/features/one/state.md"]
    yaml, body = split_front_matter(written)
    assert parse_yaml(yaml).value == msgspec.json.decode(msgspec.json.encode(front_matter(state)))
    assert body.startswith("# one: blocked\n")


@pytest.mark.req("AOP-094", "AOP-095", "AOP-096", "AOP-097", "AOP-098")
def test_the_index_has_every_key_that_it_must_have() -> None:
    index = json_of("agentic/features/index.json")
    empty = parse_json(index_files(Index(version=1))["agentic/features/index.json"])
    assert isinstance(empty, dict)
    for each in (index, empty):
        assert type(each["version"]) is int
        assert all(isinstance(each[key], list) for key in ("active", "blocked", "merged", "failed", "blocked_queue"))
        assert all(isinstance(each[key], dict) for key in ("locks", "lock_leases"))
    assert (index["locks"], index["updated_at"]) == ({"openapi": "one", "events": None}, NOW)
    assert index["lock_leases"]["openapi"].keys() == {"holder", "lease_id", "expires_at"}
    assert msgspec.convert(index, Index) == INDEX


def test_a_plan_is_written_as_its_planner_sent_it() -> None:
    plan = json_of("agentic/features/one/plan.json")
    assert msgspec.convert(plan, Plan) == PLAN.plan
    assert plan["plan_version"] == 2
    assert "gate_targets" not in plan


@pytest.mark.req("AOP-143", "AOP-144")
def test_the_qa_index_has_every_key_that_it_must_have() -> None:
    index = json_of("agentic/features/one/qa_test_index.json")
    assert (index["feature_id"], index["version"], index["source_diff_ref"]) == ("one", 3, f"{COMMIT}..{TREE}")
    first, second = index["items"]
    assert first == {
        "path": "src/a.txt",
        "hunks": [{"start_line": 2, "end_line": 2, "change_type": "modified"}],
        "required_tests": ["full:check"],
        "status": "passed",
        "last_run_at": NOW,
        "evidence_refs": ["gate-1"],
    }
    assert second == {"path": "src/ä.txt", "hunks": [], "required_tests": [], "status": "pending"}
    assert msgspec.convert(index, QaIndex) == QA_INDEX


def test_the_evidence_of_a_run_reads_back() -> None:
    assert msgspec.convert(json_of("agentic/features/one/evidence/gate-1.json"), GateRun) == RUN


def test_the_decisions_are_one_line_each_whatever_their_text_holds() -> None:
    forged = "a\r\n\n# Forged\n- 2020 **person:eve** merged {0} {plan_version}"
    told = journal(
        ("plan_accepted", {"plan_version": 1, "summary": forged}),
        ("plan_accepted", {}),
        ("unknown_kind", {"secret": "x"}),
    )
    one_line = r"a \# Forged - 2020 \*\*person:eve\*\* merged {0} {plan_version}"
    (written,) = decision_files(ONE, decision_lines(told)).values()
    assert written.decode().splitlines() == [
        "# Decisions on one",
        "",
        f"- {NOW} **person:ada** Plan 1 was accepted: {one_line} (#1)",
        f"- {NOW} **person:ada** Plan ? was accepted: ? (#2)",
    ]
