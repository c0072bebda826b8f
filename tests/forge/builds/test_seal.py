"""The seal of a build through the gateway: what it scores, how it ends the branch, and when it is void."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.core.ids import ObjectId, TreeId
from aop.core.roles import Role
from aop.forge.builds.documents import BuildError, PhaseProgress, Seal, build_error_key
from aop.forge.builds.seal.dimensions import WEIGHTS
from aop.forge.builds.seal.seal_verdict import CERTIFIED_FROM
from aop.forge.contracts.types import ContractType
from aop.forge.projects.documents import ContractVersion, contract_key
from aop.kernel.record.documents.base import revise
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun
from tests.forge.broker.shelves import Agent
from tests.forge.builds.built import Built
from tests.forge.builds.notes_app import APP, BASE, PHASE_0, PHASE_1
from tests.world import git


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Built]:
    made = Built(tmp_path / "repo")
    yield made
    made.world.close()


def _verified(built: Built) -> tuple[bool, tuple[str, ...]]:
    answer = built.world.ok("forge.build_verify_seal", build_id=built.build_id)
    return answer["valid"], tuple(answer["flaws"])


@pytest.mark.req("FORGE-202")
@pytest.mark.req("FORGE-203")
@pytest.mark.req("FORGE-204")
@pytest.mark.req("FORGE-205")
def test_a_build_whose_phases_are_proven_is_certified_and_its_branch_ends_with_an_empty_commit(built: Built) -> None:
    built.finish()
    before, main = built.cycle(), built.git("rev-parse", "main")
    answer = built.world.ok("forge.build_seal", build_id=built.build_id)
    seal, cycle = answer["seal"], built.cycle()
    assert (answer["status"], seal["verdict"], seal["score"], seal["reasons"]) == ("sealed", "CERTIFIED", 100.0, ())
    assert {name: (each["score"], each["weight"], each["known"]) for name, each in seal["dimensions"].items()} == {
        name: (100.0, weight, True) for name, weight in WEIGHTS.items()
    }
    assert (cycle.status, cycle.seal_id, cycle.sealed_at, cycle.head) == (
        "sealed",
        seal["seal_id"],
        seal["sealed_at"],
        seal["commit"],
    )
    branch = "forge/build-notes-b1"
    told = built.git("log", "-1", "--format=%an <%ae>%n%s%n%P%n%(trailers:key=Build-Cycle)", branch).splitlines()
    assert told[:4] == [
        "ForgeGuard Bot <forgeguard-bot@users.noreply.github.com>",
        "[forge] sealed — verdict: CERTIFIED",
        before.head,
        "Build-Cycle: notes-b1",
    ]
    assert built.git("diff", "--stat", f"{branch}~1", branch) == ""
    assert built.git("rev-parse", f"{branch}^{{tree}}").strip() == seal["tree"] == built.state().tree
    assert seal["gate_runs"] == tuple(each.gate_run_id for each in cycle.sign_offs)
    assert built.git("rev-parse", "main") == main
    assert _verified(built) == (True, ())


def test_a_build_with_all_its_sign_offs_takes_no_more_work_and_a_second_seal_is_the_first_one(built: Built) -> None:
    built.finish()
    builder = Agent(built.world, Role.FORGE_BUILDER, build=built.build_id)
    refused = builder.error("write_file", path="notes/late.py", content="")
    assert (refused["code"], refused["details"]["suggested_next_actions"]) == (
        "build_ended", ["`aop forge build notes` seals it."],
    )  # fmt: skip
    first = built.world.ok("forge.build_seal", build_id=built.build_id)
    second = built.world.ok("forge_seal_branch", build_cycle_id=built.build_id)
    assert second == first
    assert (
        built.git("log", "--format=%s", "forge/build-notes-b1")
        .splitlines()
        .count("[forge] sealed — verdict: CERTIFIED")
        == 1
    )


@pytest.mark.req("FORGE-206")
def test_a_branch_without_a_commit_of_the_build_is_not_sealed(built: Built) -> None:
    assert built.world.refusal("forge.build_seal", build_id=built.build_id)["code"] == "nothing_to_seal"
    built.write(PHASE_0)
    built.commit()
    built.write(PHASE_1)
    assert built.world.refusal("forge.build_seal", build_id=built.build_id)["code"] == "build_uncommitted"
    built.git("branch", "-m", "forge/build-notes-b1", "elsewhere")
    assert built.world.refusal("forge.build_seal", build_id=built.build_id)["code"] == "build_branch_moved"
    assert built.cycle().status == "active"
    assert built.world.refusal("forge.build_verify_seal", build_id=built.build_id)["code"] == "build_not_sealed"


def test_a_sloppy_build_is_flagged_and_the_seal_says_why(built: Built) -> None:
    built.write({**PHASE_0, "notes/app.py": f"import sqlite3\n{APP}", "scripts/more.py": "import requests\n"})
    built.commit()
    seal = built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]
    assert seal["verdict"] == "FLAGGED"
    assert built.git("log", "-1", "--format=%s", "forge/build-notes-b1").strip() == "[forge] sealed — verdict: FLAGGED"
    scores = {name: each["score"] for name, each in seal["dimensions"].items()}
    assert (scores["build_integrity"], scores["reliability"], scores["test_coverage"]) == (0, 0, 0)
    assert scores["governance"] == 30
    told = "\n".join(seal["reasons"])
    for reason in (
        "build_integrity 0 of 100: signed off 0, phases 2, ledger whole True",
        "A1 scope: FAIL. scripts/more.py belongs to no deliverable",
        "A4 boundary compliance: FAIL. notes/app.py:1: No line of app matches",
        "A8 tests: FAIL. The verification of the directive has not run",
        "A9 dependencies: FAIL. scripts/more.py:1 imports `requests`, which no manifest declares",
    ):
        assert reason in told
    assert _verified(built) == (True, ())


def test_a_check_that_fails_keeps_a_high_score_from_certified(built: Built) -> None:
    built.finish()
    built.write({"scripts/more.py": "x = 1\n"})
    run = built.verify()
    built.change(sign_offs=built.cycle().sign_offs[:1], current=PhaseProgress(number=1))
    built.sign_off(built.commit(), run, 4)
    seal = built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]
    assert (seal["score"] >= CERTIFIED_FROM, seal["verdict"], seal["reasons"][0]) == (
        True,
        "CONDITIONAL",
        "At most CONDITIONAL, whatever the score: A1 scope failed.",
    )


def test_what_is_unknown_counts_as_nothing_and_is_said(built: Built) -> None:
    policy = built.root / "agentic/orchestrator/policy.yaml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text("version: 1\nforge:\n  build:\n    max_usd: 0\n")
    built.finish()
    seal = built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]
    found = seal["dimensions"]["cost_efficiency"]
    assert (found["score"], found["known"], found["formula"]) == (0, False, "unknown: the policy sets no cap")
    assert (seal["score"], seal["verdict"]) == (95.0, "CERTIFIED")
    assert seal["reasons"] == ("cost_efficiency is unknown, and counts as 0: unknown: the policy sets no cap",)


def test_unresolved_errors_and_stops_cost_reliability(built: Built) -> None:
    built.finish()
    error = BuildError(
        version=1,
        error_id="e1",
        build_id=built.build_id,
        fingerprint="f1",
        message="no name x",
        first_seen="2026-01-01T00:00:00Z",
        last_seen="2026-01-01T00:00:00Z",
    )
    with built.kernel.record.write() as tx:
        tx.put(error, build_error_key(built.build_id, "f1"))
    built.put_event("build_paused", build_id=built.build_id, code="AMBIGUOUS_INTENT", reason="Which one?")
    built.put_event("build_paused", build_id=built.build_id, reason="Lunch.")
    found = built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]["dimensions"]["reliability"]
    figures = found["figures"]
    assert (found["score"], figures["unresolved_errors"], figures["stops"], found["evidence"][0]) == (70, 1, 1, "e1")


def test_the_seal_has_the_difference_to_the_baseline(tmp_path: Path) -> None:
    old = {path: text for path, text in PHASE_0.items() if path != "tests/test_app.py"}
    made = Built(tmp_path / "repo", base={**BASE, **old})
    made.finish()
    found = made.world.ok("forge.build_seal", build_id=made.build_id)["seal"]["dimensions"]
    assert (found["test_coverage"]["score"], found["test_coverage"]["delta"]) == (100, 80)
    assert found["build_integrity"]["delta"] is None
    made.world.close()


def test_a_commit_of_a_person_after_the_seal_makes_it_void(built: Built) -> None:
    built.finish()
    sealed = built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]
    head = built.git("commit-tree", f"{sealed['commit']}^{{tree}}", "-p", sealed["commit"], "-m", "More").strip()
    built.git("update-ref", "refs/heads/forge/build-notes-b1", head)
    assert _verified(built) == (
        False,
        (f"The branch moved from {sealed['commit'][:12]} to {head[:12]}, with the same files.",),
    )
    built.git("update-ref", "-d", "refs/heads/forge/build-notes-b1")
    assert _verified(built) == (False, ("The branch `forge/build-notes-b1` is gone.",))


def test_a_seal_that_was_changed_is_void(built: Built) -> None:
    built.finish()
    seal_id = built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]["seal_id"]
    with built.kernel.record.write() as tx:
        found = tx.get(Seal, seal_id)
        assert found is not None
        tx.put(revise(found, score=100.0, reasons=()), seal_id)
    assert _verified(built) == (
        False,
        (
            "The signature does not fit the seal: it was changed, or another repository signed it.",
            "The journal has no entry for this seal.",
        ),
    )


def test_contracts_that_were_changed_make_it_void(built: Built) -> None:
    built.finish()
    built.world.ok("forge.build_seal", build_id=built.build_id)
    with built.kernel.record.write() as tx:
        key = contract_key("notes", ContractType.STACK, 1)
        found = tx.get(ContractVersion, key)
        assert found is not None
        tx.put(revise(found, content="# Other\n"), key)
    assert _verified(built) == (
        False,
        (f"The contract `{key}` is not the one that the journal recorded.",),
    )


def test_evidence_that_was_changed_makes_it_void(built: Built) -> None:
    built.finish()
    built.world.ok("forge.build_seal", build_id=built.build_id)
    log = next((built.root / "agentic/features/notes-b1/logs").iterdir())
    log.write_text("All is well.\n")
    assert _verified(built) == (
        False,
        (f"The log `{log.relative_to(built.root)}` is not what the step wrote.",),
    )


def test_another_tree_of_the_build_makes_it_void(built: Built) -> None:
    built.finish()
    sealed = built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]
    other = built.git("rev-parse", "main^{tree}").strip()
    with built.kernel.record.write() as tx:
        found = tx.get(FeatureState, "notes-b1")
        assert found is not None
        tx.put(revise(found, tree=TreeId(ObjectId(other))), "notes-b1")
    valid, flaws = _verified(built)
    assert not valid
    assert f"The tree of the build is {other[:12]}, and {sealed['tree'][:12]} was sealed." in flaws


def test_a_gate_run_that_is_gone_makes_it_void(built: Built) -> None:
    built.finish()
    run_id = built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]["gate_runs"][0]
    with built.kernel.record.write() as tx:
        tx.remove(GateRun, run_id)
    valid, flaws = _verified(built)
    assert not valid
    assert f"The gate run `{run_id}` is missing." in flaws


def test_an_edit_of_a_contract_after_the_pin_leaves_the_seal_valid(built: Built) -> None:
    built.finish()
    built.world.ok("forge.build_seal", build_id=built.build_id)
    shown = built.world.ok("forge.contract_show", project_id="notes", contract_type="stack")
    edited = shown["content"] + "- Style: none\n"
    built.world.ok("forge.contract_edit", project_id="notes", contract_type="stack", content=edited, expected_version=1)
    assert _verified(built) == (True, ())


def test_a_seal_that_was_interrupted_is_finished_by_the_next_one(built: Built) -> None:
    built.finish()
    built.change(status="sealing")
    assert built.world.ok("forge.build_seal", build_id=built.build_id)["seal"]["verdict"] == "CERTIFIED"
    assert built.cycle().status == "sealed"


@pytest.mark.req("FORGE-238")
def test_a_sealed_build_is_pushed_to_its_own_branch_alone(built: Built, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    git(tmp_path, "clone", "-q", "--bare", "--single-branch", "-b", "main", str(built.root), str(remote))
    main = git(remote, "rev-parse", "main").strip()
    built.git("remote", "add", "origin", str(remote))
    built.finish()
    answer = built.world.ok("forge.build_seal", build_id=built.build_id)
    assert answer["published"] == answer["seal"]["commit"]
    listed = git(remote, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    assert listed == [f"refs/heads/forge/build-notes-b1 {answer['seal']['commit']}", f"refs/heads/main {main}"]


def test_no_agent_can_seal(built: Built) -> None:
    tools = built.world.app.gateway.tools
    assert all(tools[name].person_only for name in ("forge.build_seal", "forge_seal_branch", "forge.build_verify_seal"))
