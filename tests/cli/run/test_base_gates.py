"""The gates of the base branch before agents begin: no turn without gate steps, and a question on a red base."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shops import Shop, error_of
from tests.world import PASSING_GATES, World, git, run_aop

FAILS = "The step `check` did not pass: it ended with exit code 1: sh check.sh"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.wants("one")
    return shop


def commit(shop: Shop, path: str, text: str) -> None:
    (shop.root / path).write_text(text)
    git(shop.root, "add", path)
    git(shop.root, "commit", "-qm", "Change")


def began(shop: Shop) -> list[str]:
    """Return the failures of the base with which runs began."""
    world = World(shop.root)
    with world.app.record.read() as view:
        found = [str(entry.event.payload["failing_base"]) for entry in view.journal(kinds=("run_began",))]
    world.close()
    return found


@pytest.mark.parametrize(
    ("gates", "lacking"),
    [
        pytest.param(
            "version: 1\nprofiles: {}\n",
            "the mode `fast` of the profile `default` has no steps; the mode `full` of the profile `default` has no"
            " steps; the profile `default` has no mode `merge`",
            id="no profile",
        ),
        pytest.param(
            PASSING_GATES.replace("fast:\n        - {name: check, cmd: [sh, check.sh]}", "fast: []"),
            "the mode `fast` of the profile `default` has no steps",
            id="no steps",
        ),
    ],
)
def test_a_run_without_gate_steps_is_refused_before_any_turn(shop: Shop, gates: str, lacking: str) -> None:
    commit(shop, "agentic/orchestrator/gates.yaml", gates)
    ran = shop.all_at_once("--json", "--anyway")
    error = error_of(ran)
    assert (ran.code, error["code"], error["message"]) == (
        *(4, "no_gate_steps"),
        f"No feature can be proven: {lacking}.",
    )
    assert error["details"]["suggested_next_actions"] == [
        "Write your test commands into `agentic/orchestrator/gates.yaml` and commit it. `aop init` proposes them;"
        " `aop doctor --gates` tries them."
    ]
    assert (shop.statuses(), began(shop)) == ({}, [])


def test_a_red_base_is_refused_without_a_terminal_and_accepted_once_with_anyway(shop: Shop) -> None:
    commit(shop, "src/broken.txt", "broken\n")
    refused = shop.all_at_once("--json")
    error = error_of(refused)
    assert (refused.code, error["code"], error["message"]) == (
        *(4, "base_gates_fail"),
        f"The fast gates fail on main itself. {FAILS}",
    )
    assert "`--anyway`" in error["details"]["suggested_next_actions"][0]
    assert (shop.root / json.loads(refused.out)["evidence"]["log_path"]).is_file()
    assert (shop.statuses(), (shop.root / "agentic/features").exists()) == ({}, False)
    commit(shop, "check.sh", "test ! -e src/broken.txt || test -e src/one.txt\n")
    assert shop.all_at_once("--anyway").code == 0
    again = shop.aop("resume", "--wait")
    assert "Running the fast gates" not in again.err
    assert f"The gates fail on main, which a person accepted: {FAILS}" in again.err
    assert began(shop) == [FAILS, FAILS]


def test_a_green_base_is_measured_once_and_not_again_after_a_merge(shop: Shop) -> None:
    first = shop.all_at_once()
    assert first.err.count("Running the fast gates on main once, to see that work can begin") == 1
    assert "Running the fast gates" not in shop.aop("resume", "--wait").err
    world = World(shop.root)
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval("one"))
    world.close()
    shop.wants("two")
    after = shop.run("-fi", str(shop.specs / "two.md"), "--wait")
    assert (after.code, "Running the fast gates" in after.err) == (0, False)
    assert began(shop) == ["", "", ""]


def test_a_red_base_that_is_repaired_outside_of_git_is_measured_again(shop: Shop) -> None:
    commit(shop, "check.sh", f"test -e {shop.root.parent}/tool\n")
    policy = f"version: 1\nexecution: {{sandbox_read: [{shop.root.parent}]}}\n"
    commit(shop, "agentic/orchestrator/policy.yaml", policy)
    assert shop.all_at_once("--json").code == 4
    (shop.root.parent / "tool").touch()
    assert shop.all_at_once().code == 0


@pytest.mark.parametrize(("answer", "code", "features"), [("n", 4, {}), ("y", 0, {"one": "ready_to_merge"})])
def test_at_a_terminal_a_person_decides_about_a_red_base(
    shop: Shop, answer: str, code: int, features: dict[str, str]
) -> None:
    commit(shop, "src/broken.txt", "broken\n")
    commit(shop, "check.sh", "test ! -e src/broken.txt || test -e src/one.txt\n")
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    words = [sys.executable, "-m", "aop.cli.main", "run", "-fl", str(shop.specs), "--wait"]
    env = {**os.environ, **shop.env}
    with os.fdopen(theirs), os.fdopen(ours):
        done = subprocess.run(words, cwd=shop.root, stdin=theirs, capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, shop.statuses()) == (code, features), done.stderr
    assert f"The fast gates fail on main itself. {FAILS}\n  Log: .aop/base/" in done.stderr
    assert "Begin all the same? [y/N] " in done.stderr


PROFILES = f"""{PASSING_GATES}\
  same:
    modes: {{fast: [{{name: check, cmd: [sh, check.sh]}}], full: [{{name: other, cmd: [sh, check.sh]}}]}}
  web:
    modes: {{fast: [{{name: web, cmd: [test, -e, src/missing.txt]}}], full: [{{name: web, cmd: [sh, check.sh]}}]}}
  later:
    modes: {{fast: [], full: []}}
"""


def test_the_base_is_checked_in_every_profile_that_a_new_feature_may_use_equal_ones_once(shop: Shop) -> None:
    commit(shop, "agentic/orchestrator/gates.yaml", PROFILES)
    refused = shop.all_at_once("--json")
    error = error_of(refused)
    assert (refused.code, error["code"], error["details"]["profile"]) == (4, "base_gates_fail", "web")
    assert error["message"].startswith("The fast gates of the profile `web` fail on main itself. The step `web` did")
    assert [line for line in refused.err.splitlines() if line.startswith("Running")] == [
        "Running the fast gates on main once, to see that work can begin",
        "Running the fast gates of the profile `web` on main once, to see that work can begin",
    ]
    again = shop.all_at_once("--anyway")
    assert (again.code, "Running the fast gates" in again.err) == (0, False), again.err


def test_planned_features_are_checked_in_the_profiles_of_their_plans(shop: Shop) -> None:
    commit(shop, "agentic/orchestrator/gates.yaml", PROFILES)
    world = World(shop.root)
    assert world.ok("gates.check_base")["profiles"] == ["default"]
    world.plan("planned", gate_profile="web")
    error = world.call("gates.check_base", features=["planned"]).error or {}
    assert (error["code"], error["details"]["profile"]) == ("base_gates_fail", "web")
    accepted = world.ok("gates.check_base", features=["planned"], anyway=True)
    assert (accepted["profiles"], accepted["passed"]) == (["default", "web"], False)
    world.close()


def test_no_agent_may_call_the_check_of_the_base(shop: Shop) -> None:
    ran = run_aop(shop.root, "call", "gates.check_base", "{}", "--role", "builder")
    assert json.loads(ran.out)["error"]["code"] == "forbidden_tool_for_role"
