"""`aop forge seal` and `aop forge verify` as real processes."""

from __future__ import annotations

from pathlib import Path

from tests.forge.builds.built import Built
from tests.forge.builds.notes_app import PHASE_0
from tests.world import run_aop


def test_a_proven_build_is_sealed_shown_and_verified(tmp_path: Path) -> None:
    made = Built(tmp_path / "repo")
    made.finish()
    made.world.close()
    assert run_aop(made.root, "forge", "verify", "notes-b1", "--json").json["error"]["code"] == "build_not_sealed"
    ran = run_aop(made.root, "forge", "seal", "notes-b1", "--html", str(tmp_path / "seal.html"))
    assert (ran.code, ran.out.splitlines()[0]) == (0, "notes-b1: CERTIFIED, 100 of 100")
    assert ran.err.splitlines()[-1] == "Check it later with: aop forge verify notes-b1"
    assert '<strong class="CERTIFIED">CERTIFIED, 100 of 100</strong>' in (tmp_path / "seal.html").read_text()
    told = run_aop(made.root, "forge", "seal", "notes-b1", "--json")
    assert (told.code, told.json["data"]["seal"]["verdict"]) == (0, "CERTIFIED")
    held = run_aop(made.root, "forge", "verify", "notes-b1")
    assert (held.code, held.out.rpartition(", sealed ")[0]) == (
        0,
        "The seal of notes-b1 holds: CERTIFIED, 100 of 100",
    )
    made.git("update-ref", "-d", "refs/heads/forge/build-notes-b1")
    void = run_aop(made.root, "forge", "verify", "notes-b1")
    assert (void.code, void.out.splitlines()[1]) == (1, "  - The branch `forge/build-notes-b1` is gone.")


def test_a_flagged_build_exits_with_1_and_says_why(tmp_path: Path) -> None:
    made = Built(tmp_path / "repo")
    made.write(PHASE_0)
    made.commit()
    made.world.close()
    ran = run_aop(made.root, "forge", "seal", "notes-b1")
    lines = ran.out.splitlines()
    assert (ran.code, lines[0].partition(",")[0]) == (1, "notes-b1: FLAGGED")
    assert "  - build_integrity 0 of 100: signed off 0, phases 2, ledger whole True" in lines
