"""Errors of a build through the gateway: one document each, counted, resolved, reopened."""

from __future__ import annotations

from typing import Any

import pytest

from aop.core.ids import CommitId, FeatureId, GateRunId, ObjectId, TreeId
from aop.forge.builds.documents import BuildError
from aop.forge.builds.people import errors
from aop.kernel.record.documents.gate_runs import GateRun, StepResult, Subject, Verdict
from tests.clocks import HandClock
from tests.forge.builds.cycles import begun
from tests.world import World

NOON = "2026-01-02T12:00:00.000Z"
SECRET = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


def track(world: World, build: str, *messages: str, **more: Any) -> Any:
    seen = [{"message": message, **more} for message in messages]
    return world.ok("forge.error_track", build_id=build, errors=seen)["error_ids"]


def listed(world: World, build: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.ok("forge.errors_list", build_id=build)["errors"]
    return found


def told(world: World, kind: str) -> list[Any]:
    with world.app.record.read() as view:
        return [dict(entry.event.payload) for entry in view.journal(kinds=(kind,))]


def verified(world: World, build: str, log: str) -> str:
    """Record a verification of the build with this log."""
    (world.root / "run.log").write_text(log)
    step = StepResult(
        name="tests",
        command=("pytest",),
        outcome="passed",
        exit_code=0,
        seconds=1.0,
        attempts=1,
        log_path="run.log",
    )
    with world.app.record.write() as tx:
        tx.put(
            GateRun(
                version=1,
                run_id=GateRunId("run-1"),
                feature_id=FeatureId(build),
                profile="forge",
                mode="full",
                subject=Subject(
                    tree=TreeId(ObjectId("a" * 40)), base_commit=CommitId(ObjectId("b" * 40)), definition="d"
                ),
                config_hash="c",
                verdict=Verdict.PASS,
                steps=(step,),
                sandbox_level="none",
                started_at=NOON,
                finished_at=NOON,
            ),
            "run-1",
        )
    return "run-1"


@pytest.mark.req("FORGE-173", "FORGE-174", "FORGE-176", "FORGE-178", "FORGE-184")
def test_the_same_error_on_another_line_counts_up(world: World, clock: HandClock, build: str) -> None:
    assert track(world, build, "src/a.py:3: no name x", phase=1) == ["e1"]
    clock.go_on(60)
    assert track(world, build, "src/a.py:77: no name x", "src/b.py:3: no name x") == ["e1", "e2"]
    later = "2026-01-02T12:01:00.000Z"
    first, second = listed(world, build)
    assert first == {
        "error_id": "e1",
        "build_id": build,
        "fingerprint": first["fingerprint"],
        "source": "build_log",
        "severity": "error",
        "phase": 1,
        "file_path": "src/a.py",
        "message": "src/a.py:3: no name x",
        "occurrence_count": 2,
        "first_seen": NOON,
        "last_seen": later,
        "resolved": False,
        "resolved_at": "",
        "resolution_method": "",
        "resolution_summary": "",
    }
    assert (second["error_id"], second["occurrence_count"], second["file_path"]) == ("e2", 1, "src/b.py")
    assert told(world, "build_error_tracked")[1] == first
    with world.app.record.read() as view:
        assert [view.get(BuildError, f"{build}/{each['fingerprint']}") is not None for each in (first, second)] == [
            True,
            True,
        ]


@pytest.mark.req("FORGE-176", "FORGE-190")
def test_a_flood_of_one_error_is_one_row_and_few_events(world: World, build: str) -> None:
    for start in range(0, 1000, 200):
        track(world, build, *(f"src/a.py:{start + line}: no name x" for line in range(200)))
    assert [(each["error_id"], each["occurrence_count"]) for each in listed(world, build)] == [("e1", 1000)]
    assert [each["occurrence_count"] for each in told(world, "build_error_tracked")] == [2**n for n in range(10)]


def test_so_many_different_errors_are_listed_and_the_rest_is_counted(world: World, build: str) -> None:
    for start in range(0, errors.MOST_ERRORS + 200, 100):
        track(world, build, *(f"no name x{chr(97 + n // 26)}{chr(97 + n % 26)}{'y' * start}" for n in range(100)))
    rows = {each["message"]: each["occurrence_count"] for each in listed(world, build)}
    assert len(rows) == errors.MOST_ERRORS + 1
    assert rows[errors.FURTHER_ERRORS] == 200


@pytest.mark.req("FORGE-179", "FORGE-184")
def test_a_fix_resolves_the_errors_of_the_files_that_it_changed(world: World, build: str) -> None:
    track(world, build, "src/a.py:3: no name x", "src/b.py:3: no name x", "no file at all")
    fix: dict[str, Any] = {
        "method": "auto-fix",
        "paths": ["src/a.py"],
        "error_ids": ["e3"],
        "summary": f"Imported x. {SECRET}",
    }
    assert world.ok("forge.errors_resolve", build_id=build, **fix)["error_ids"] == ["e1", "e3"]
    states = {each["error_id"]: (each["resolved"], each["resolution_method"]) for each in listed(world, build)}
    assert states == {"e1": (True, "auto-fix"), "e2": (False, ""), "e3": (True, "auto-fix")}
    events = told(world, "build_error_resolved")
    assert sorted(each["error_id"] for each in events) == ["e1", "e3"]
    assert events[0]["method"] == "auto-fix"
    assert events[0]["summary"].startswith("Imported x. ")
    assert SECRET not in events[0]["summary"]


@pytest.mark.req("FORGE-180")
def test_a_completed_phase_resolves_what_its_verification_does_not_show(world: World, build: str) -> None:
    track(world, build, "src/a.py:3: NameError: name 'x' is not defined", phase=0)
    track(world, build, "src/b.py:9: TypeError: cannot add", phase=0)
    track(world, build, "src/c.py:9: SyntaxError: not of this phase", phase=1)
    run = verified(world, build, "3 passed\nsrc/b.py:14: TypeError: cannot add\n")
    done: dict[str, Any] = {"method": "phase-complete", "phase": 0, "gate_run_id": run}
    assert world.ok("forge.errors_resolve", build_id=build, **done)["error_ids"] == ["e1"]
    rows = {each["error_id"]: each for each in listed(world, build)}
    assert {name: row["resolved"] for name, row in rows.items()} == {"e1": True, "e2": False, "e3": False}
    assert rows["e1"]["resolution_summary"] == "Phase 0 completed — errors cleared"


@pytest.mark.req("FORGE-180")
def test_a_phase_resolves_nothing_without_a_verification_of_its_own_build(world: World, build: str) -> None:
    track(world, build, "src/a.py:3: no name x", phase=0)
    other = begun(world, "other")
    run = verified(world, other, "ok\n")
    done: dict[str, Any] = {"method": "phase-complete", "phase": 0}
    assert world.refusal("forge.errors_resolve", build_id=build, **done)["code"] == "invalid_arguments"
    assert world.refusal("forge.errors_resolve", build_id=build, **done, gate_run_id=run)["code"] == "invalid_arguments"
    assert [each["resolved"] for each in listed(world, build)] == [False]


@pytest.mark.req("FORGE-176")
def test_a_resolved_error_that_comes_again_is_open_again(world: World, build: str) -> None:
    track(world, build, "src/a.py:3: no name x")
    world.ok("forge.error_dismiss", build_id=build, error_id="e1")
    track(world, build, "src/a.py:4: no name x")
    track(world, build, "src/a.py:5: no name x")
    row = listed(world, build)[0]
    facts = ("occurrence_count", "resolved", "resolved_at", "resolution_method", "resolution_summary")
    assert [row[name] for name in facts] == [3, False, "", "", ""]
    assert [each["occurrence_count"] for each in told(world, "build_error_tracked")] == [1, 2]


@pytest.mark.req("FORGE-177", "FORGE-181", "FORGE-186")
def test_a_person_dismisses_an_error_but_never_a_fatal_one(world: World, build: str) -> None:
    track(world, build, "src/a.py:3: no name x")
    track(world, build, "The model does not answer.", severity="fatal", source="build_failed")
    dismissed = world.ok("forge.error_dismiss", build_id=build, error_id="e1")
    assert (dismissed["resolved"], dismissed["resolution_method"], dismissed["resolution_summary"]) == (
        True,
        "dismissed",
        "",
    )
    assert world.refusal("forge.error_dismiss", build_id=build, error_id="e2")["code"] == "error_is_fatal"
    assert world.refusal("forge.error_dismiss", build_id=build, error_id="e9")["code"] == "unknown_build_error"
    assert [each["error_id"] for each in listed(world, build)] == ["e2", "e1"]
    world.ok("forge.error_dismiss", build_id=build, error_id="e1")
    assert len(told(world, "build_error_resolved")) == 1


def test_no_secret_of_an_error_is_kept(world: World, build: str) -> None:
    track(world, build, f"push to https://x:{SECRET}@example.org refused")
    assert SECRET not in listed(world, build)[0]["message"]
    assert SECRET.encode() not in (world.root / ".aop/record.db").read_bytes()


def test_errors_of_one_build_are_not_those_of_another(world: World, build: str) -> None:
    other = begun(world, "other")
    track(world, build, "src/a.py:3: no name x")
    assert listed(world, other) == []
    assert world.refusal("forge.error_dismiss", build_id=other, error_id="e1")["code"] == "unknown_build_error"
    assert world.refusal("forge.errors_list", build_id="nothing-b1")["code"] == "unknown_build"
