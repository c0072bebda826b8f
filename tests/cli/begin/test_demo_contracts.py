"""`aop demo forge`, as a real process: what it reports is what the record says, and within its budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aop.forge.contracts.types import CONTRACT_TYPES
from tests.world import git, run_aop

MOST_CONTRACT_TOKENS = {"scout": 1_250, "coder": 1_750, "auditor": 1_300, "fixer": 800}
MOST_BRIEF_TOKENS = {"scout": 800, "coder": 600, "auditor": 500, "fixer": 400}


@pytest.mark.req("FORGE-119", "FORGE-233")
def test_an_idea_and_a_repository_get_contracts_that_a_build_reads_by_parts(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "demo", "forge", "--json", "--keep", env={"TMPDIR": str(tmp_path)})
    assert ran.code == 0, ran.err
    report: dict[str, Any] = ran.json["data"]
    root = Path(report["repository"])
    assert list(report) == [
        "projects", "scan", "pinned", "tokens", "check", "build", "seal", "default_branch", "repository", "seconds",
    ]  # fmt: skip
    assert report["seconds"] > 0
    assert [(each["project_id"], each["flow"], each["status"], each["consistency"]) for each in report["projects"]] == [
        ("seed-library", "greenfield", "contracts_generated", []),
        ("parcel-desk", "scout", "contracts_generated", []),
    ]
    for project in report["projects"]:
        shown = run_aop(root, "forge", "show", project["project_id"], "--json").json["data"]["contracts"]
        assert [each["contract_type"] for each in project["contracts"]] == [*CONTRACT_TYPES]
        assert [(each["version"], each["sha256"]) for each in project["contracts"]] == [
            (each["version"], each["sha256"]) for each in shown
        ]
        assert all(each["tokens"] > 100 for each in project["contracts"])
    scan = report["scan"]
    assert (scan["head_sha"], scan["files"], scan["health_grade"], scan["tasks"]) == (
        git(root, "rev-parse", "HEAD").strip(), 14, "B", 4,
    )  # fmt: skip
    pinned = report["pinned"]
    assert {**pinned, "sha256": len(pinned["sha256"])} == {
        "build_id": "seed-library-b1", "batch": 1, "sha256": 64, "contract_type": "manifesto", "live_version": 2,
        "served_version": 1, "source": "snapshot",
    }  # fmt: skip
    assert report["check"] == {
        "holds": 18,
        "violated": [{**report["check"]["violated"][0], "file": "parcels/web/app.py", "line": 32}],
        "unknown": 0,
    }
    verified = run_aop(root, "evidence", "verify", "--json")
    assert verified.code == 0, verified.out
    assert git(root, "status", "--porcelain") == ""
    check_budgets(report["tokens"])
    check_build(report, root)


def check_budgets(tokens: dict[str, Any]) -> None:
    """Assert what the roles may be sent, and that tools send less than snowball."""
    assert tokens["tokenizer"] == "o200k"
    assert tokens["fixed_context"] <= 6_000
    for role, sizes in tokens["roles"].items():
        assert 0 < sizes["contracts"] <= MOST_CONTRACT_TOKENS[role], role
        assert sizes["brief"] <= MOST_BRIEF_TOKENS[role], role
        assert sizes["contracts"] < tokens["push"]
    sent = tokens["generation"]
    assert (sent["tool_use"]["requests"], sent["snowball"]["requests"]) == (36, 18)
    assert sent["tool_use"]["sent"] < sent["snowball"]["sent"]


def check_build(report: dict[str, Any], root: Path) -> None:
    """Assert what came of the build, as git has it: proven phases on a branch of its own, and nothing else moved."""
    build, branch = report["build"], "forge/build-shelf-labels-b1"
    assert [*build] == [
        "build_id", "branch", "status", "phases", "commits", "questions", "errors", "audit", "contract_reads",
        "compactions", "cost_usd",
    ]  # fmt: skip
    assert (build["build_id"], build["branch"], build["status"]) == ("shelf-labels-b1", branch, "sealed")
    signed = [(each["number"], each["name"], each["sign_off"]["tests"]) for each in build["phases"]]
    assert signed == [(0, "Genesis", 5), (1, "Release", 6)]
    (reason,) = build["phases"][0]["refused"]
    assert reason.startswith("The verification did not pass: ")
    assert build["phases"][1]["refused"] == []
    log = git(root, "log", "--reverse", "--format=%H|%an <%ae>|%s", f"main..{branch}").splitlines()
    assert ["|".join([each["sha"], each["author"], each["subject"]]) for each in build["commits"]] == log
    assert {each["build_cycle"] for each in build["commits"]} == {"shelf-labels-b1"}
    assert git(root, "rev-parse", f"{branch}^{{tree}}").strip() == build["phases"][1]["sign_off"]["tree"]
    assert build["questions"] == [{"question_id": "q1", "answer": "Cut it"}]
    assert sorted((each["count"], each["resolved"], each["method"]) for each in build["errors"]) == [
        (1, True, "auto-fix"), (1, True, "phase-complete"),
    ]  # fmt: skip
    assert set(build["audit"].values()) == {"PASS"}
    assert build["contract_reads"] == {
        "scout": ["phases", "manifesto", "schema", "physics"],
        "coder": ["phases", "stack", "schema", "physics"],
        "auditor": ["boundaries", "schema"],
        "fixer": ["schema"],
    }
    assert (report["seal"]["verdict"], report["seal"]["valid"], len(report["seal"]["dimensions"])) == (
        "CERTIFIED", True, 9,
    )  # fmt: skip
    main = git(root, "rev-parse", "main").strip()
    assert report["default_branch"] == {"before": main, "after": main}


@pytest.mark.slow
def test_the_demo_says_what_it_does_and_removes_what_it_made(tmp_path: Path) -> None:
    ran = run_aop(tmp_path, "demo", "forge", env={"TMPDIR": str(tmp_path)})
    assert ran.code == 0, ran.err
    assert "seed-library: 9 contracts in 18 turns" in ran.err
    assert "violated at parcels/web/app.py:32" in ran.err
    assert "seed-library-b1 reads version 1 of manifesto" in ran.out
    assert "shelf-labels-b1 was built in 2 phases with 6 tests and 5 commits on forge/build-shelf-labels-b1" in ran.out
    assert "Phase 0 was said to be done once before it was. The verification did not pass" in ran.out
    assert "2 errors were met and resolved: auto-fix, phase-complete." in ran.out
    assert list(tmp_path.glob("aop-demo-*")) == []
