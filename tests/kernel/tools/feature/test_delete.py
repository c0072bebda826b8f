"""feature.delete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.gate_runs import GateRun
from tests.kernel.gateway.test_crash_repair import Killed, mortal_kernel
from tests.kernel.tools.worlds import events, plain, state_of
from tests.world import World, git, plan_for

FOLDER = "agentic/features/one"


def delete(world: World, **options: Any) -> Any:
    return plain(world.ok("feature.delete", feature_id="one", dry_run=False, **options))


def below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def merged(world: World) -> None:
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval())


@pytest.mark.req("AOP-324")
def test_asked_without_more_it_only_says_what_would_go(readied: World) -> None:
    spec = readied.root / FOLDER / "spec.md"
    spec.write_text("# Wanted\n")
    before = readied.fingerprint()

    answer = plain(readied.ok("feature.delete", feature_id="one", worktree=True, branch=True))

    assert readied.fingerprint() == before
    assert answer == {
        "feature_id": "one",
        "version": state_of(readied).version,
        "status": "ready_to_merge",
        "deleted": False,
        "files": [f"{FOLDER}/{name}" for name in below(readied.root / FOLDER) if name != "spec.md"],
        "kept_files": [f"{FOLDER}/spec.md"],
        "worktree_path": ".worktrees/one",
        "branch": "one",
        "branch_head": git(readied.root, "rev-parse", "one").strip(),
        "unmerged": True,
        "locks": [],
    }
    assert len(answer["files"]) == 8


@pytest.mark.req("AOP-324")
def test_a_deleted_feature_is_gone_from_the_record_and_its_files_are_gone_but_not_its_history(readied: World) -> None:
    told = events(readied)
    answer = delete(readied)
    assert answer["deleted"] is True
    assert not (readied.root / FOLDER).exists()
    assert readied.refusal("feature.state_get", feature_id="one")["code"] == "unknown_feature"
    assert plain(readied.ok("report.dashboard"))["features"] == []
    assert events(readied) == [*told, "feature_deleted"]
    with readied.app.record.read() as view:
        assert (list(view.all(GateRun)), list(view.all(Approval)), view.unshown()) == ([], [], ())
        assert view.claims_near("file", [""]) == ()
    assert git(readied.root, "for-each-ref", "refs/aop").strip() == ""


def test_worktree_and_branch_stay_unless_somebody_asks(readied: World) -> None:
    delete(readied)
    assert (readied.root / ".worktrees/one/src/a.txt").read_text() == "one\nTWO\nthree\n"
    assert git(readied.root, "branch", "--list", "one").strip("+ \n") == "one"


def test_worktree_and_branch_go_when_somebody_asks_and_nothing_else_does(readied: World) -> None:
    merged(readied)
    readied.init("two")
    before = {name: value for name, value in readied.fingerprint().items() if "one" not in name and name != "journal"}
    head = git(readied.root, "rev-parse", "one").strip()

    answer = delete(readied, worktree=True, branch=True)

    assert (answer["branch"], answer["branch_head"], answer["unmerged"]) == ("one", head, False)
    assert not (readied.root / ".worktrees/one").exists()
    assert git(readied.root, "branch", "--list", "one") == ""
    assert ".worktrees/one" not in git(readied.root, "worktree", "list")
    after = {name: value for name, value in readied.fingerprint().items() if name != "journal"}
    changed = {name for name in before if before[name] != after.get(name)}
    assert changed == {"refs", "agentic/features/index.json"}
    assert after.keys() == before.keys()


@pytest.mark.parametrize("strategy", ["merge_commit", "squash"])
def test_what_was_merged_is_not_unmerged_however_it_landed(readied: World, strategy: str) -> None:
    readied.ok(
        "feature.ready_to_merge", feature_id="one", user_approval_token=readied.approval(), merge_strategy=strategy
    )
    assert delete(readied, worktree=True, branch=True)["unmerged"] is False


def patched(world: World) -> None:
    world.plan()
    world.patch()


def own_commits(world: World) -> None:
    world.init()
    git(world.root / ".worktrees/one", "commit", "-q", "--allow-empty", "-m", "Mine")


@pytest.mark.parametrize("prepare", [patched, own_commits])
@pytest.mark.parametrize("branch", [False, True])
def test_work_that_was_never_merged_is_not_lost_without_force(
    world: World, prepare: Callable[[World], None], *, branch: bool
) -> None:
    prepare(world)
    error = world.refusal("feature.delete", feature_id="one", dry_run=False, worktree=True, branch=branch)
    assert (error["code"], error["details"]["requires_human"]) == ("unmerged_work", True)
    assert delete(world, worktree=True, branch=branch, force=True)["unmerged"] is True
    assert not (world.root / ".worktrees/one").exists()


def test_a_branch_cannot_go_alone(readied: World) -> None:
    error = readied.refusal("feature.delete", feature_id="one", dry_run=False, branch=True, force=True)
    assert error["code"] == "invalid_arguments"


def test_a_branch_that_is_checked_out_elsewhere_stays(world: World) -> None:
    world.init()
    git(world.root, "checkout", "-q", "--ignore-other-worktrees", "one")
    error = world.refusal("feature.delete", feature_id="one", dry_run=False, worktree=True, branch=True, force=True)
    assert (error["code"], error["details"]["branch"]) == ("branch_in_use", "one")


def test_what_somebody_left_in_the_worktree_goes_to_quarantine_and_what_git_ignores_goes(world: World) -> None:
    world.init()
    worktree = world.root / ".worktrees/one"
    (worktree / "notes.txt").write_text("Mine.\n")
    (worktree / "src/a.txt").write_text("Changed by hand.\n")
    (worktree / "deep/er").mkdir(parents=True)
    (worktree / "deep/er/x").write_text("x")
    delete(world, worktree=True, branch=True)
    kept = world.root / ".aop/quarantine/one"
    found = {name.partition("/")[2]: (kept / name).read_text() for name in below(kept)}
    assert found == {"notes.txt": "Mine.\n", "src/a.txt": "Changed by hand.\n", "deep/er/x": "x"}
    assert not worktree.exists()


def test_files_that_are_not_aops_stay_in_the_folder_and_edited_ones_are_set_aside(world: World) -> None:
    world.init()
    folder = world.root / FOLDER
    for name in ("spec.md", "notes.md", "deep/notes.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("Mine.\n")
    (folder / "state.md").write_text("Edited.\n")
    answer = world.call("feature.delete", feature_id="one", dry_run=False)
    assert below(folder) == ["deep/notes.md", "notes.md", "spec.md"]
    (place,) = answer.evidence["set_aside"]
    assert (world.root / place).read_text() == "Edited.\n"


@pytest.mark.parametrize("part", ["", "/logs"])
def test_a_link_in_the_folder_leads_nowhere(world: World, part: str) -> None:
    world.init()
    outside = world.root.parent / "outside"
    (outside / "logs").mkdir(parents=True)
    (outside / "state.md").write_text("Not yours.\n")
    (outside / "logs/x.log").write_text("Not yours.\n")
    place = world.root / f"{FOLDER}{part}"
    if not part:
        place.rename(world.root / "agentic/features/moved")
    place.symlink_to(outside / part.lstrip("/"))
    world.call("feature.delete", feature_id="one", dry_run=False, worktree=True, branch=True)
    assert below(outside) == ["logs/x.log", "state.md"]


def test_locks_and_claims_are_free_for_others(world: World) -> None:
    world.init("two")
    world.plan("one")
    world.ok("locks.acquire", feature_id="one", resource="openapi")
    assert world.refusal("plan.submit", feature_id="two", plan_json=plan_for("two"))["code"] == "collision_detected"
    assert delete(world)["locks"] == ["openapi"]
    world.ok("plan.submit", feature_id="two", plan_json=plan_for("two"))
    world.ok("locks.acquire", feature_id="two", resource="openapi", wait_timeout_seconds=0)


def test_a_feature_can_be_made_again_and_begins_anew(readied: World) -> None:
    token = readied.approval()
    delete(readied, worktree=True, branch=True, force=True)
    readied.ready()
    assert state_of(readied).version == 5
    error = readied.refusal("feature.ready_to_merge", feature_id="one", user_approval_token=token)
    assert error["code"] == "approval_invalid"


@pytest.mark.parametrize("role", sorted(set(Role) - {Role.SYSTEM}))
def test_no_token_deletes_a_feature(readied: World, role: Role) -> None:
    error = readied.call_as_worker("feature.delete", role, "one", feature_id="one", dry_run=False).error
    assert error is not None
    assert error["code"] == "forbidden_tool_for_role"


DEATHS = [
    pytest.param("record", "write", 1, True, False, id="entered"),
    pytest.param("record", "write", 2, False, False, id="about to be forgotten"),
    pytest.param("record", "write", 2, True, True, id="forgotten"),
    pytest.param("files", "remove", 1, True, True, id="one file removed"),
    pytest.param("git.branches", "forget", 1, True, True, id="files removed"),
    pytest.param("git.branches", "delete", 1, True, True, id="branch deleted"),
    pytest.param("git.worktrees", "remove", 1, False, True, id="worktree about to go"),
    pytest.param("git.worktrees", "remove", 1, True, True, id="worktree removed"),
]


@pytest.mark.req("AOP-259")
@pytest.mark.parametrize(("port", "method", "nth", "after", "gone"), DEATHS)
def test_a_deletion_that_was_killed_happened_or_did_not(
    readied: World, port: str, method: str, nth: int, *, after: bool, gone: bool
) -> None:
    merged(readied)
    readied.ok("report.dashboard")
    kernel = mortal_kernel(readied.app.gateway.kernel, port, method, nth=nth, after=after)
    gateway = Gateway(kernel, readied.app.gateway.tools)
    gateway.tools_for(readied.app.person)
    wish: Any = {"feature_id": "one", "dry_run": False, "worktree": True, "branch": True}
    with pytest.raises(Killed):
        gateway.call(readied.app.person, "feature.delete", wish)
    following = World(readied.root)
    following.ok("report.dashboard")
    left = {
        "record": following.call("feature.state_get", feature_id="one").ok,
        "files": (readied.root / FOLDER).exists(),
        "worktree": (readied.root / ".worktrees/one").exists(),
        "branch": bool(git(readied.root, "branch", "--list", "one")),
        "ref": bool(git(readied.root, "for-each-ref", "refs/aop")),
    }
    assert left == dict.fromkeys(left, not gone)
    assert events(following).count("feature_deleted") == int(gone)
    following.close()
