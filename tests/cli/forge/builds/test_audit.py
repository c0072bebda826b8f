"""`aop forge audit` as a real process: exit codes, the words of a screen, and JSON."""

from __future__ import annotations

from pathlib import Path

from aop.forge.builds.audit.audit_verdicts import NAMES
from tests.forge.builds.built import Built
from tests.forge.builds.notes_app import PHASE_0
from tests.world import run_aop


def test_an_audit_says_what_fails_and_exits_with_1(tmp_path: Path) -> None:
    made = Built(tmp_path / "repo")
    made.write({**PHASE_0, "scripts/more.py": "x = 1\n"})
    made.world.close()
    ran = run_aop(made.root, "forge", "audit", "notes-b1")
    lines = ran.out.splitlines()
    assert (ran.code, lines[0][:31], lines[-1]) == (1, "notes-b1, phase 0, tree " + lines[0][24:31], "10 PASS, 3 FAIL")
    assert lines[lines.index("A1  FAIL   scope") + 1].strip() == (
        "scripts/more.py belongs to no deliverable of the phases 0 to 0"
    )
    told = run_aop(made.root, "forge", "audit", "notes-b1", "--json")
    assert (told.code, told.json["ok"], told.json["data"]["passed"]) == (1, False, False)
    failed = [each["code"] for each in told.json["data"]["checks"] if each["verdict"] == "FAIL"]
    assert failed == ["A1", "A7", "A8"]


def test_an_audit_without_a_failure_exits_with_0(tmp_path: Path) -> None:
    made = Built(tmp_path / "repo")
    made.write(PHASE_0)
    made.verify()
    made.world.close()
    told = run_aop(made.root, "forge", "audit", "notes-b1", "--json")
    assert {each["code"]: each["verdict"] for each in told.json["data"]["checks"]} == dict.fromkeys(NAMES, "PASS")
    assert (told.code, told.json["schema"], told.json["ok"]) == (0, "aop/1", True)


def test_a_build_that_has_not_begun_has_no_audit(tmp_path: Path) -> None:
    made = Built(tmp_path / "repo")
    made.world.ok("forge.pin", project_id="notes")
    made.world.close()
    assert run_aop(made.root, "forge", "audit", "notes-b2", "--json").json["error"]["code"] == "build_not_begun"
    assert run_aop(made.root, "forge", "audit", "nothing", "--json").json["error"]["code"] == "unknown_build"
