"""How other systems of this kind have failed, line by line of that list: each must be impossible through the real door.

What is not here: names, plans and reads have files of their own beside this one; what takes two processes, a death or
a remote system is tested where those are.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from aop.core.roles import Role
from tests.hostile.arena import POLICY, Arena
from tests.hostile.test_diff_text import HUNK, create, edit
from tests.hostile.test_secrets import PLANTED
from tests.world import files, git, plan_for

GATES = "agentic/orchestrator/gates.yaml"


def run(script: str, **keys: Any) -> dict[str, Any]:
    return {"name": "check", "cmd": ["sh", "-c", script], **keys}


def gates_are(arena: Arena, step: dict[str, Any], **profile: Any) -> None:
    """Make one step the only one of every mode, on the base branch."""
    default = {"modes": {"fast": [step], "full": [step], "merge": [step]}, **profile}
    lax = {"modes": {"fast": [run("true")], "full": [run("true")]}}
    arena.commit(GATES, json.dumps({"version": 1, "profiles": {"default": default, "lax": lax}}))


def full_gates_fail(arena: Arena) -> str:
    answer = arena.call("gates.run", feature_id="one", mode="full")
    assert answer.error is not None, answer.data
    assert gates(arena)["full"] == "fail"
    return str(answer.error["code"])


def gates(arena: Arena) -> Any:
    return arena.ok("feature.state_get", feature_id="one")["front_matter"]["gates"]


# --- patches and plans ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", [POLICY, "protected.txt"])
def test_a_diff_without_a_git_header_is_judged_like_any_other(arena: Arena, path: str) -> None:
    line = (arena.root / path).read_text().partition("\n")[0]
    diff = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{line}\n+# gone\n"
    error = arena.refusal("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff)
    assert error["code"] == "protected_path"


UNACCEPTABLE = [
    ({"summary": ""}, "invalid_arguments"),
    ({"surprise": 1}, "invalid_arguments"),
    ({"files": files(create=(".git/hooks/post-checkout",))}, "path_out_of_bounds"),
    ({"files": files(create=("../../x",))}, "path_out_of_bounds"),
    ({"files": files(modify=("protected.txt",))}, "protected_path"),
    ({"files": files(modify=("**",))}, "protected_path"),
]


@pytest.mark.req("AOP-040")
@pytest.mark.parametrize(("changes", "code"), UNACCEPTABLE)
def test_a_plan_that_breaks_a_rule_is_refused_and_not_taken_with_warnings(
    arena: Arena, changes: dict[str, Any], code: str
) -> None:
    plan = plan_for("one", **{"allowed_areas": ["**"], **changes})
    assert arena.refusal("plan.submit", feature_id="one", plan_json=plan)["code"] == code


def test_a_new_file_is_in_the_diff_in_the_changed_files_and_in_the_qa_index_of_all_patches(arena: Arena) -> None:
    for diff in (create(b"src/c.txt"), edit(b"src/a.txt"), create(b"d.txt")):
        arena.patch(diff=diff.decode())
    shown = arena.ok("repo.diff", feature_id="one")
    index = arena.ok("feature.get_context", feature_id="one")["qa_index"]
    expected = ["d.txt", "src/a.txt", "src/c.txt"]
    assert [each["path"] for each in shown["changed_files"]] == expected
    assert [line.split(" b/")[1] for line in shown["text"].splitlines() if line.startswith("diff ")] == expected
    assert [item["path"] for item in index["items"]] == expected


def test_the_first_calls_of_a_tool_may_come_at_once(arena: Arena) -> None:
    start = Barrier(8)

    def status(_number: int) -> bool:
        start.wait(300)
        return arena.call("repo.status", feature_id="one").ok

    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(status, range(8))) == [True] * 8


def test_what_a_dead_process_left_locked_stops_nobody(arena: Arena) -> None:
    for lock in (arena.root / ".aop/locks").iterdir():
        lock.write_text("4194304\n")
    for folder in (".git", ".git/worktrees/one"):
        (arena.root / folder / "index.lock").touch()
    arena.patch(diff=edit(b"x").decode())
    assert arena.content("x") == "y\n"


# --- gates ---------------------------------------------------------------------------------------


def test_nobody_chooses_another_profile_for_a_run(arena: Arena) -> None:
    gates_are(arena, run("false"))
    for role in (Role.ORCHESTRATOR, Role.BUILDER, Role.QA):
        error = arena.refusal("gates.run", role=role, feature_id="one", mode="fast", profile="lax")
        assert error["code"] == "invalid_override_precedence"


def test_a_pass_under_another_profile_does_not_count(arena: Arena) -> None:
    gates_are(arena, run("false"))
    arena.plan(gate_profile="lax")
    arena.ok("gates.run", feature_id="one", mode="fast")
    strict = plan_for("one", plan_version=2, revision_of=1)
    arena.ok("plan.update", feature_id="one", expected_plan_version=1, plan_json=strict)
    assert gates(arena)["fast"] == "na"


def test_a_step_cannot_be_skipped_by_what_it_depends_on(arena: Arena) -> None:
    gates_are(arena, run("false", depends_on=["chekc"]))
    assert arena.refusal("gates.run", feature_id="one", mode="fast")["code"] == "invalid_configuration"


def test_a_profile_without_steps_proves_nothing(arena: Arena) -> None:
    arena.commit(GATES, json.dumps({"version": 1, "profiles": {"default": {"modes": {"fast": [], "full": []}}}}))
    assert arena.refusal("gates.run", feature_id="one", mode="fast")["code"] == "no_gate_steps"


GOOD_RECORD = "SF:a.py\nDA:1,1\nDA:2,1\nBRDA:1,0,0,1\nBRDA:1,0,1,1\nend_of_record\n"
BAD_RECORD = "SF:b.py\nDA:1,0\nDA:2,0\nBRDA:1,0,0,0\nBRDA:1,0,1,0\nend_of_record\n"

REPORTS = [
    ("every record counts", f"printf '{GOOD_RECORD}{BAD_RECORD}' > cov.lcov", "coverage_below_minimum"),
    ("an empty report is none", ": > cov.lcov", "gate_failed"),
    (
        "a report without branches does not pass",
        "printf 'SF:a\\nDA:1,1\\nend_of_record\\n' > cov.lcov",
        "coverage_below_minimum",
    ),
    ("a missing report is a failure", "true", "gate_failed"),
    ("a report that is a link is no report", "printf x > y; ln -s y cov.lcov", "gate_failed"),
]


@pytest.mark.req("AOP-194", "AOP-273")
@pytest.mark.parametrize(("script", "code"), [row[1:] for row in REPORTS], ids=[row[0] for row in REPORTS])
def test_no_report_and_half_a_report_are_failures(arena: Arena, script: str, code: str) -> None:
    gates_are(arena, run(script.replace("\n", "\\n")), parsers={"coverage": {"type": "lcov", "path": "cov.lcov"}})
    assert full_gates_fail(arena) == code


def test_the_whole_report_passes_where_all_of_it_is_covered(arena: Arena) -> None:
    script = f"printf '{GOOD_RECORD}' > cov.lcov".replace("\n", "\\n")
    gates_are(arena, run(script), parsers={"coverage": {"type": "lcov", "path": "cov.lcov"}})
    assert arena.ok("gates.run", feature_id="one", mode="full")["verdict"] == "pass"


def test_a_report_of_an_earlier_run_does_not_speak_for_this_one(arena: Arena) -> None:
    gates_are(arena, run("true"), parsers={"coverage": {"type": "lcov", "path": "cov.lcov"}})
    (arena.worktree / "cov.lcov").write_text(GOOD_RECORD)
    assert full_gates_fail(arena) == "gate_failed"


@pytest.mark.parametrize("parser", [{"type": "magic", "path": "x"}, {"type": "lcov"}])
def test_a_parser_that_does_not_exist_or_reads_nothing_is_no_configuration(
    arena: Arena, parser: dict[str, str]
) -> None:
    gates_are(arena, run("true"), parsers={"coverage": parser})
    assert arena.refusal("gates.run", feature_id="one", mode="fast")["code"] == "invalid_configuration"


@pytest.mark.hostile("G27")
@pytest.mark.parametrize(
    ("script", "seconds", "verdict"),
    [("sleep 600 & sleep 600", 1, "fail"), ("sleep 600 & exit 0", 500, "pass"), ("sleep 600 & exit 3", 500, "fail")],
)
def test_a_grandchild_that_holds_the_pipe_holds_nobody_up(
    arena: Arena, script: str, seconds: int, verdict: str
) -> None:
    gates_are(arena, run(script, timeout_seconds=seconds))
    arena.call("gates.run", feature_id="one", mode="fast")
    assert gates(arena)["fast"] == verdict


def test_a_secret_that_a_gate_prints_stands_in_no_log_and_no_answer(arena: Arena) -> None:
    secret = PLANTED["github-token"]
    gates_are(arena, run(f"echo token {secret[:20]}''{secret[20:]}; exit 1"))
    answer = arena.call("gates.run", feature_id="one", mode="fast")
    assert answer.error is not None
    log = (arena.root / answer.evidence["log_path"]).read_text()
    assert log.startswith("token ")
    assert secret not in log + str(answer)


# --- proof, approval, merge ----------------------------------------------------------------------


def approved(arena: Arena) -> str:
    """Bring the feature to an approval; return the token."""
    arena.ready(diff=edit(b"src/a.txt").decode())
    return arena.approval()


def merge(arena: Arena, token: str | None) -> Any:
    return arena.call("feature.ready_to_merge", feature_id="one", commit_message="Land it", user_approval_token=token)


def test_a_verdict_ends_with_the_next_patch(arena: Arena) -> None:
    arena.plan()
    arena.patch(diff=edit(b"src/a.txt").decode())
    arena.ok("gates.run", feature_id="one", mode="fast")
    arena.patch(diff=edit(b"src/a.txt").replace(HUNK, b"@@ -1 +1 @@\n-y\n+z\n").decode())
    assert gates(arena)["fast"] == "na"

    arena.ok("gates.run", feature_id="one", mode="full")
    status = arena.ok("repo.status", feature_id="one")
    error = arena.refusal("feature.approve", feature_id="one", tree=status["tree"], base=status["base_head"])
    assert error["code"] == "evidence_stale"


def test_only_what_was_proven_is_merged_and_no_stray_file(arena: Arena) -> None:
    token = approved(arena)
    (arena.worktree / "stray.txt").write_text("left behind\n")
    (arena.worktree / "src/a.txt").write_text("never tested\n")
    assert merge(arena, token).ok
    changed = git(arena.root, "diff", "--name-only", "main^1", "main").split()
    assert (changed, git(arena.root, "show", "main:src/a.txt")) == (["src/a.txt"], "y\n")


def test_a_base_that_moved_after_the_approval_is_not_merged_onto(arena: Arena) -> None:
    token = approved(arena)
    arena.commit("README.md", "Moved on.\n")
    error = arena.refusal(
        "feature.ready_to_merge", feature_id="one", commit_message="Land it", user_approval_token=token
    )
    assert error["code"] == "approval_invalid"


def test_what_is_merged_is_tested_as_merged(arena: Arena) -> None:
    approved(arena)
    arena.commit("src/broken.txt", "breaks the gates\n")
    head = git(arena.root, "rev-parse", "main")
    answer = merge(arena, arena.approval())
    assert (answer.error["code"], git(arena.root, "rev-parse", "main")) == ("gate_failed", head)


def test_a_merge_leaves_the_checkout_its_index_and_its_branch_alone(arena: Arena) -> None:
    token = approved(arena)
    (arena.root / "README.md").write_text("unfinished\n")
    (arena.root / "x").write_text("staged\n")
    git(arena.root, "add", "x")
    files_before = {path: path.read_bytes() for path in sorted(arena.root.iterdir()) if path.is_file()}
    index = git(arena.root, "ls-files", "--stage")

    answer = merge(arena, token)

    assert answer.ok, answer.error
    assert {path: path.read_bytes() for path in sorted(arena.root.iterdir()) if path.is_file()} == files_before
    assert (arena.root / "src/a.txt").read_text() == "x\n"
    assert (git(arena.root, "ls-files", "--stage"), git(arena.root, "symbolic-ref", "HEAD")) == (
        index,
        "refs/heads/main\n",
    )
    assert git(arena.root, "diff", "--name-only", "main^1", "main").split() == ["src/a.txt"]


def test_no_string_is_an_approval(arena: Arena) -> None:
    approved(arena)
    before = arena.fingerprint()
    codes = {token: (merge(arena, token).error or {})["code"] for token in (None, "", "yes", "true", "x" * 100_000)}
    assert codes == {token: "approval_invalid" if token else "user_approval_required" for token in codes}
    assert arena.fingerprint() == before


def test_an_approval_is_spent_once_and_for_one_feature(arena: Arena) -> None:
    token = approved(arena)
    arena.ready("two", diff=edit(b"src/b.txt").decode(), files=files(modify=("src/b.txt",)))
    stolen = arena.call("feature.ready_to_merge", feature_id="two", commit_message="m", user_approval_token=token)
    assert (stolen.error or {})["code"] == "approval_invalid"
    assert merge(arena, token).ok
    assert (merge(arena, token).error or {})["code"] == "invalid_status_transition"


def test_no_worker_approves_or_merges(arena: Arena) -> None:
    token = approved(arena)
    status = arena.ok("repo.status", feature_id="one")
    before = arena.fingerprint()
    for role in (Role.ORCHESTRATOR, Role.PLANNER, Role.BUILDER, Role.QA):
        answers = (
            arena.call_as_worker("feature.approve", role, "one", tree=status["tree"], base=status["base_head"]),
            arena.call_as_worker("feature.ready_to_merge", role, "one", user_approval_token=token),
        )
        assert [(answer.error or {})["code"] for answer in answers] == ["forbidden_tool_for_role"] * 2
    assert arena.fingerprint() == before
