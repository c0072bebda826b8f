"""Watching a run while it goes on, and hearing afterwards what happened in it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shops import SECONDS, Shop, error_of
from tests.racing import until


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def watcher(shop: Shop, *words: str, out: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "aop.cli.main", "watch", *words],
        cwd=shop.root,
        stdout=out,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **shop.env},
    )


def begun(shop: Shop) -> None:
    shop.wants("held_one")
    assert shop.run("-fl", str(shop.specs)).code == 0
    until(lambda: shop.turns_in_progress() == 1, seconds=SECONDS)


@pytest.mark.slow
@pytest.mark.req("AOP-310")
def test_piped_it_prints_a_line_for_each_change_and_ends_with_the_run(shop: Shop) -> None:
    begun(shop)
    with watcher(shop, "--json", out=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        first = json.loads(watch.stdout.readline())["data"]
        (shop.agent / "go").touch()
        rest = [json.loads(line)["data"] for line in watch.stdout.read().splitlines()]
        assert watch.wait(timeout=SECONDS) == 0
    assert (first["feature_id"], first["phase"], first["turns"]) == ("held_one", "planning", 0)
    assert (rest[-1]["phase"], rest[-1]["turns"], rest[-1]["cost_usd"]) == ("ready_to_merge", 2, None)
    assert not shop.is_supervised()


@pytest.mark.slow
def test_on_a_terminal_the_lines_are_drawn_over(shop: Shop) -> None:
    begun(shop)
    screen, terminal = pty.openpty()
    with watcher(shop, out=terminal) as watch:
        os.close(terminal)
        seen = os.read(screen, 4096)
        (shop.agent / "go").touch()
        while b"ready_to_merge" not in seen:
            seen += os.read(screen, 4096)
        assert watch.wait(timeout=SECONDS) == 0
    os.close(screen)
    assert b"repo on main | supervisor" in seen.splitlines()[0]
    assert b"planner: custom, " in seen
    # Each line is written over in place, and only what is below is cleared.
    assert b"A\r\x1b[1mrepo on main" in seen
    assert b"\x1b[2J" not in seen


@pytest.mark.slow
def test_ctrl_c_ends_the_watching_and_not_the_run(shop: Shop) -> None:
    begun(shop)
    with watcher(shop, out=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        watch.stdout.readline()
        watch.send_signal(signal.SIGINT)
        assert watch.wait(timeout=SECONDS) == 0
    assert shop.is_supervised()
    (shop.agent / "go").touch()
    shop.until_supervisor_ended()


def test_without_a_run_there_is_nothing_to_watch(shop: Shop) -> None:
    ran = shop.aop("watch")
    assert (ran.code, ran.out, ran.err) == (3, "", "No run is active. Start one with: aop run\n")


@pytest.mark.slow
def test_a_run_is_told_from_the_record_step_by_step_and_the_same_each_time(shop: Shop) -> None:
    shop.wants("one", "two")
    assert shop.all_at_once().code == 0
    (row,) = shop.aop("replay", "--json").json["data"]["runs"]
    assert (row["features"], row["turns"]) == (["one", "two"], 4)
    told = [shop.aop("replay", row["run"]) for _ in range(2)]
    assert (told[0].code, told[0].out) == (0, told[1].out)
    steps = shop.aop("replay", row["run"], "--json").json["data"]["steps"]
    assert (steps[0]["event"], "provider" in steps[0]["says"]) == ("run_began", True)
    assert [step["event"] for step in steps if step["feature_id"] == "one"] == [
        "feature_initialised",
        "turn_taken",
        "plan_accepted",
        "turn_taken",
        "patch_applied",
        "gates_ran",
        "gates_ran",
    ]
    assert len(told[0].out.splitlines()) == len(steps)
    of_feature = shop.aop("replay", "two", "--json").json["data"]["steps"]
    assert {step["feature_id"] for step in of_feature} == {"two"}


def test_a_run_that_left_nothing_is_refused(shop: Shop) -> None:
    assert shop.aop("replay").err == "No runs yet.\n"
    ran = shop.aop("replay", "run-0", "--json")
    assert (ran.code, error_of(ran)["code"]) == (1, "unknown_run")
