"""Steering a run that goes on: a feature more, a feature again, and a rest; real processes, a real agent command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shops import SECONDS, Shop, agents_alive, error_of
from tests.racing import until
from tests.world import World, git, make_repository, run_aop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# --- retry ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.req("AOP-239")
def test_a_feature_whose_failed_agent_a_person_stopped_begins_again_when_a_person_says_so(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "version: 1\nsupervisor: {max_iterations_per_phase: 2}\n")
    shop.wants("bad", "one")
    assert shop.all_at_once().code == 4
    assert shop.aop("answer", "q1", "Try harder.").code == 1
    assert shop.aop("answer", "q1", "retry").code == 0
    assert shop.aop("resume", "--wait").code == 4
    assert shop.aop("answer", "q2", "stop").code == 0
    ran = shop.aop("resume", "--wait")
    assert (ran.code, shop.statuses()) == (1, {"bad": "blocked", "one": "ready_to_merge"})
    assert "The agent's answer is not a valid proposal" in ran.out
    (shop.agent / "good").touch()
    again = shop.aop("retry", "bad", "--wait")
    assert (again.code, shop.statuses()["bad"]) == (0, "ready_to_merge"), again.out + again.err
    refused = shop.aop("retry", "bad", "--wait", "--json")
    assert (refused.code, error_of(refused)["code"]) == (1, "invalid_status_transition")
    assert shop.events()["feature_retried", "bad"] == 1


@pytest.mark.slow
def test_a_blocked_feature_is_taken_up_again_by_the_run_that_goes_on(shop: Shop) -> None:
    world = World(shop.root)
    world.init("two")
    world.ok("feature.ingest_spec", feature_id="two", text="Write two.\n", source_path="two.md")
    blocked = {"status": "blocked", "status_reason": "It waits."}
    world.ok("feature.state_patch", feature_id="two", expected_version=2, patch=blocked)
    world.close()
    shop.wants("held_one")
    assert shop.run("-fl", str(shop.specs)).code == 0
    retried = shop.aop("retry", "two")
    assert (retried.code, retried.err) == (0, "two was blocked and continues: planning.\n")
    (shop.agent / "go").touch()
    shop.until_supervisor_ended()
    assert shop.statuses() == {"held_one": "ready_to_merge", "two": "ready_to_merge"}


# --- add -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.req("AOP-262", "AOP-307")
def test_a_spec_is_added_to_the_run_that_goes_on(shop: Shop) -> None:
    shop.wants("held_one")
    started = shop.run("-fl", str(shop.specs), "--json")
    shop.wants("more")
    added = shop.aop("add", "-fi", str(shop.specs / "more.md"), "--json")
    assert (added.code, added.json["data"]) == (0, {"pid": started.json["data"]["pid"], "features": ["more"]})
    (shop.agent / "go").touch()
    shop.until_supervisor_ended()
    assert shop.statuses() == {"held_one": "ready_to_merge", "more": "ready_to_merge"}


@pytest.mark.req("AOP-300", "AOP-303")
@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        pytest.param(["-fi", "{specs}/good.md"], 3, "no_supervisor", id="nobody is there"),
        pytest.param(["-fi", "{specs}/good.md", "-fl", "{specs}"], 2, "invalid_cli_args", id="file and folder"),
        pytest.param(["-fi", "{specs}/nowhere.md"], 2, "input_path_not_found", id="no such file"),
        pytest.param([], 2, "no_specs_found", id="nothing to discover"),
    ],
)
def test_what_cannot_be_added_is_refused_and_nothing_changes(
    shop: Shop, words: list[str], exit_code: int, code: str
) -> None:
    shop.wants("good")
    ran = shop.aop("add", *(word.format(specs=shop.specs) for word in words), "--json")
    assert (ran.code, error_of(ran)["code"]) == (exit_code, code)
    assert not (shop.root / "agentic/features").exists()


# --- pause ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_paused_run_ends_its_turn_begins_no_other_and_rests_across_a_restart(shop: Shop) -> None:
    shop.wants("held_one")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: shop.turns_in_progress() == 1, seconds=SECONDS)
    assert shop.aop("pause").code == 0
    (shop.agent / "go").touch()
    until(lambda: "held_one: paused" in shop.log(), seconds=SECONDS)
    assert shop.aop("stop").code == 0
    waited = shop.all_at_once()
    assert (waited.code, waited.out) == (5, "held_one  building  Paused. Continue with: aop resume\n")
    assert shop.events()["patch_applied", "held_one"] == 0
    assert shop.aop("resume", "--wait").code == 0
    events = shop.events()
    assert (events["plan_accepted", "held_one"], events["patch_applied", "held_one"]) == (1, 1)


@pytest.mark.slow
def test_one_feature_rests_while_the_others_go_on_and_goes_on_in_the_same_run(shop: Shop) -> None:
    shop.wants("held_one", "held_two")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: shop.turns_in_progress() == 2, seconds=SECONDS)
    nothing_paused = shop.aop("resume", "--json")
    assert (nothing_paused.code, error_of(nothing_paused)["code"]) == (5, "supervisor_running")
    assert shop.aop("pause", "held_one").code == 0
    (shop.agent / "go").touch()
    until(lambda: shop.statuses() == {"held_one": "building", "held_two": "ready_to_merge"}, seconds=SECONDS)
    assert shop.is_supervised()
    assert shop.aop("pause").code == 0
    row = json.loads(shop.aop("status", "--json").out)["data"]["features"][0]
    assert (row["feature_id"], row["gates"]["plan"], row["spent"]["turns"]) == ("held_one", "pass", 1)
    assert (row["paused"], row["next_command"]) == (True, "aop resume")
    resumed = shop.aop("resume")
    assert (resumed.code, resumed.err.partition(" continues: ")[2]) == (0, "everything, held_one\n")
    shop.until_supervisor_ended()
    assert shop.statuses()["held_one"] == "ready_to_merge"


@pytest.mark.slow
def test_a_feature_that_a_person_stops_ends_its_turn_and_leaves_the_others_alone(shop: Shop) -> None:
    shop.wants("held_one", "held_two")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: shop.turns_in_progress() == 2, seconds=SECONDS)
    assert shop.aop("stop", "held_one").code == 0
    # Nobody says `go`: only the stop ends a turn.
    until(lambda: shop.turns_in_progress() == 1, seconds=SECONDS)
    (shop.agent / "go").touch()
    shop.until_supervisor_ended()
    assert shop.statuses() == {"held_one": "failed", "held_two": "ready_to_merge"}
    row = json.loads(shop.aop("status", "--json").out)["data"]["features"][0]
    assert (row["status_reason"], row["spent"]["turns"]) == ("A person stopped it.", 1)
    assert shop.aop("inbox", "--json").json["data"]["questions"] == []


@pytest.mark.slow
def test_a_test_that_fails_leaves_neither_its_supervisor_nor_its_agents(shop: Shop) -> None:
    shop.wants("held_one")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: bool(agents_alive(shop)), seconds=SECONDS)
    shop.close()
    assert (shop.is_supervised(), agents_alive(shop)) == (False, [])


def test_gates_that_run_are_shown_as_work_until_their_process_ends(tmp_path: Path) -> None:
    go, root = tmp_path / "go", make_repository(tmp_path / "repo")
    policy = f"version: 1\nexecution: {{sandbox_read: [{tmp_path}]}}\n"
    (root / "agentic/orchestrator/policy.yaml").write_text(policy)
    (root / "check.sh").write_text(f"until test -e {go}; do sleep 0.05; done\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Wait")
    world = World(root)
    world.plan("one")
    world.close()

    def at_work() -> Any:
        (row,) = run_aop(root, "status", "--json").json["data"]["features"]
        return row["gates_at_work"]

    words = [sys.executable, "-m", "aop.cli.main", "call", "gates.run", '{"feature_id": "one", "mode": "fast"}']
    with subprocess.Popen(words, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        until(lambda: (at_work() or {}).get("step") == "fast gates, step 1 of 1: check", seconds=SECONDS)
        shown = run_aop(root, "status", env={"COLUMNS": "140"}).out
        assert re.search(r"fast gates, step 1 of 1: check, \d+ s$", shown, re.MULTILINE), shown
        go.touch()
        assert running.wait(SECONDS) == 0
    assert at_work() is None
