"""Leftovers of builds: `aop gc` removes the worktrees of those that are over, old sessions and old scans; no branch."""

from __future__ import annotations

from pathlib import Path

from aop.adapters.reporting.doctor.leftovers import Leftover
from aop.adapters.reporting.doctor.state import check_worktrees, examine_record
from aop.core.ids import CommitId, ObjectId, TokenId
from aop.core.roles import Role
from aop.forge.projects.documents import BrokerSession, ForgeProject, ScoutRun
from aop.kernel.gateway.tokens import IssuedToken
from aop.kernel.record.documents.base import revise
from aop.wiring.leftovers import leftovers_of
from tests.forge.builds.built import Built
from tests.forge.builds.cycles import refs

LONG_AGO, LATER = "2020-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"


def test_the_worktree_of_a_sealed_build_goes_and_its_branch_and_seal_stay(tmp_path: Path) -> None:
    built = Built(tmp_path / "repo")
    leftovers = leftovers_of(built.world.app)
    built.finish()
    assert list(leftovers.find()) == []
    built.world.ok("forge.build_seal", build_id=built.build_id)
    worktree, before = built.root / ".worktrees/notes-b1", refs(built.root)
    (worktree / "draft.txt").write_text("Nobody committed this.\n")
    (found,) = leftovers.find()
    assert found == Leftover(kind="worktree", name="notes-b1", ended=True, holds_work=True)
    removal = leftovers.remove(found)
    assert (removal.problem, worktree.exists(), refs(built.root)) == ("", False, before)
    assert built.git("show", f"{removal.rescued}:draft.txt") == "Nobody committed this.\n"
    assert built.world.ok("forge.build_verify_seal", build_id=built.build_id)["valid"]
    examined = examine_record(built.root / ".aop", {})
    assert "has no worktree" not in str(check_worktrees(built.world.app.repository, examined))
    assert list(leftovers.find()) == []
    built.world.close()


def test_a_build_that_is_at_work_keeps_its_worktree(tmp_path: Path) -> None:
    built = Built(tmp_path / "repo")
    claimed = Leftover(kind="worktree", name="notes-b1", ended=True)
    assert leftovers_of(built.world.app).remove(claimed).problem == "A feature `notes-b1` now exists."
    assert (built.root / ".worktrees/notes-b1").is_dir()
    built.world.close()


def test_sessions_of_tokens_that_are_not_valid_and_old_scans_go(tmp_path: Path) -> None:
    built = Built(tmp_path / "repo")
    ends = {"expired": (LONG_AGO, ""), "revoked": (LATER, LONG_AGO), "valid": (LATER, "")}
    scans = {"newest": ("", LONG_AGO), "locked": ("notes-b0", LONG_AGO), "old": ("", LONG_AGO), "young": ("", LATER)}
    with built.kernel.record.write() as tx:
        for name, (expires, revoked) in ends.items():
            token = IssuedToken(
                version=1, token_id=TokenId(name), role=Role.CODER, actor="coder:1", issued_by="ada",
                issued_at=LONG_AGO, expires_at=expires, revoked_at=revoked,
            )  # fmt: skip
            tx.put(token, name)
        for name in (*ends, "unknown"):
            tx.put(BrokerSession(version=1, token_id=name, project_id="notes"), name)
        for name, (locked_by, updated) in scans.items():
            scan = ScoutRun(
                version=1, run_id=name, project_id="notes", head_sha=CommitId(ObjectId("a" * 40)), locked_by=locked_by,
                created_at=LONG_AGO, updated_at=updated,
            )  # fmt: skip
            tx.put(scan, name)
        project = tx.get(ForgeProject, "notes")
        assert project is not None
        tx.put(revise(project, scan_run="newest"), "notes")
    leftovers = leftovers_of(built.world.app)
    found = list(leftovers.find())
    assert {(each.kind, each.name) for each in found} == {
        ("session", "expired"), ("session", "revoked"), ("session", "unknown"), ("scan", "old"),
    }  # fmt: skip
    assert [leftovers.remove(each).problem for each in found] == [""] * 4
    with built.kernel.record.read() as view:
        assert {each.token_id for each in view.all(BrokerSession)} == {"valid"}
        assert {each.run_id for each in view.all(ScoutRun)} == {"newest", "locked", "young"}
    kept = built.world.ok("forge.leftover_drop", role=Role.SYSTEM, kind="session", key="valid")
    assert kept == {"kind": "session", "key": "valid", "dropped": False}
    built.world.close()
