"""Agents that misbehave: each ends in an outcome that has a name, within its time, and the run goes on."""

from __future__ import annotations

import json
import os
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run.bad_agents import bad_agent
from tests.cli.shops import Shop
from tests.world import Ran, World, run_aop

POLICY = """\
version: 1
supervisor: {turn_timeout_seconds: 10}
execution: {max_log_bytes: 100000}
"""
FAILING = {
    "nonsense": "exited with 0 without a submission",
    "endless": "did not end within 10 seconds",
    "flood": "did not end within 10 seconds",
    "dies": "exited with 137 without a submission",
    "ignores": "exited with 0 without a submission",
}
REPORTING = ("outside", "git", "environ", "others", "same")

pytestmark = pytest.mark.slow


class Ward:
    """One run with every bad agent in it, and a good one."""

    def __init__(self, folder: Path) -> None:
        self.shop = Shop(folder, POLICY)
        key = f"sk-{uuid.uuid4().hex}"
        self.program = bad_agent(folder / "bin", "claude", key)
        self.shop.wants(*(f"{manner}_one" for manner in (*FAILING, *REPORTING, "good")))
        path = os.pathsep.join([str(self.program), os.path.dirname(sys.executable), os.environ["PATH"]])
        env = {"PATH": path, "ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
        words = ["run", "-fl", str(self.shop.specs), "--wait", "--json", "--agent-provider", "claude"]
        self.ran: Ran = run_aop(self.shop.root, *words, env=env, seconds=300)
        self.told: Any = json.loads(self.ran.out)
        world = World(self.shop.root)
        with world.app.record.read() as view:
            self.events = [entry.event for entry in view.journal()]
        world.close()

    def attempts(self, manner: str) -> list[str]:
        """Return what became of each turn of a feature."""
        asked = next(question for question in self.told["questions"] if question["feature_id"] == f"{manner}_one")
        return [attempt["outcome"] for attempt in asked["detail"]["attempts"]]

    def note(self, manner: str) -> Any:
        said = [event for event in self.events if event.kind == "note_added" and event.feature_id == f"{manner}_one"]
        return json.loads(str(said[0].payload["note"]))


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return Ward(tmp_path_factory.mktemp("ward"))


@pytest.mark.parametrize("manner", FAILING)
def test_an_agent_that_brings_nothing_is_ended_and_told_so_until_a_person_is_asked(ward: Ward, manner: str) -> None:
    said = [line for line in ward.ran.err.splitlines() if f" {manner}_one: planner: no usable answer: " in line]
    assert [FAILING[manner] in line for line in said] == [True] * 3, said
    assert ward.attempts(manner) == ["no_usable_answer"] * 3


def test_the_run_goes_on_and_brings_the_good_feature_to_its_end(ward: Ward) -> None:
    statuses = {row["feature_id"]: row["status"] for row in ward.told["features"]}
    bad = [f"{manner}_one" for manner in (*FAILING, *REPORTING)]
    assert statuses == {**dict.fromkeys(bad, "planning"), "good_one": "ready_to_merge"}
    assert (ward.shop.root / ".worktrees/good_one/src/good_one.txt").read_text() == "written"


def test_no_process_and_no_folder_of_a_bad_agent_is_left(ward: Ward) -> None:
    assert command_lines_with(str(ward.program)) == []
    left = [path for name in ("tmp", "scratch") for path in (ward.shop.root / ".aop" / name).glob("*")]
    assert left == []


def test_what_an_agent_floods_its_log_with_is_cut(ward: Ward) -> None:
    assert (ward.shop.root / ".aop/logs/flood_one/planner.log").stat().st_size <= 110_000


def test_an_agent_that_asks_the_same_for_ever_goes_in_circles(ward: Ward) -> None:
    assert ward.attempts("same") == ["a request, and no proposal", *["the same answer again"] * 3]


@pytest.mark.req("AOP-227")
def test_an_agent_reaches_its_own_role_and_feature_alone_and_acts_on_nothing_by_itself(ward: Ward) -> None:
    assert ward.note("others") == ["forbidden_tool_for_role"] * 5 + ["ok"]


def test_an_agent_sees_neither_the_key_nor_the_environment_of_its_parent(ward: Ward) -> None:
    seen = ward.note("environ")
    assert seen["key"] is False
    assert {"USER", "AOP_AGENT_PROVIDER", "PYTEST_CURRENT_TEST"} & set(seen["names"]) == set()


def test_nothing_that_an_agent_writes_outside_of_its_tree_is_there_afterwards(ward: Ward) -> None:
    is_enclosed(ward)
    ward.note("outside")
    root = ward.shop.root
    places = (root / "outside.txt", root / ".aop/outside.txt", Path("/usr/outside.txt"))
    assert [place.exists() for place in places] == [False] * 3


def test_an_agent_cannot_write_what_git_reads(ward: Ward) -> None:
    is_enclosed(ward)
    assert ward.note("git") == ["OSError"] * 3


def is_enclosed(ward: Ward) -> None:
    world = World(ward.shop.root)
    level = world.app.gateway.kernel.processes.sandbox_level("auto")
    world.close()
    if level == "none":
        pytest.skip("No sandbox holds on this machine, and without one nothing keeps a program to its folder.")


def command_lines_with(path: str) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(file.read_bytes().decode(errors="replace"))
    return [words for words in found if path in words]
