"""Agents that misbehave: each ends in an outcome that has a name, within its time, and the run goes on."""

from __future__ import annotations

import json
import os
import pwd
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.agents.vendors.catalogue import Vendor, row_text, shipped_rows
from tests.cli.run.bad_agents import PYTHON, bad_agent
from tests.cli.shops import Shop
from tests.world import Ran, World, run_aop

POLICY = """\
version: 1
supervisor: {turn_timeout_seconds: 10}
execution: {max_log_bytes: 100000}
"""
FAILING = {
    "nonsense": (
        *("no_usable_answer", 3),
        "The agent ended without a submission or a changed file. Its last lines: I would rather talk about the weather",
    ),
    "endless": ("agent_timed_out", 2, "The agent was stopped: It did not end within 10 seconds."),
    "flood": ("agent_output_too_large", 2, "The agent wrote more than its log may hold, and was stopped"),
    "dies": ("agent_crashed", 2, "The agent crashed: SIGKILL (exit code 137). It printed nothing."),
    "fails": (
        *("agent_failed", 2),
        "The agent exited with code 3. Its last lines: There is no room on this device.",
    ),
    "terminal": (
        *("agent_failed", 2),
        "The agent exited with code 1. Its last lines: May I go on? There is no terminal to answer on.",
    ),
    "stranger": ("agent_failed", 2, "The agent failed. It says: Invalid API key - Please run /login"),
    "forks": ("no_usable_answer", 3, "The agent ended without a submission or a changed file."),
    "ignores": ("no_usable_answer", 3, "The agent ended without a submission or a changed file."),
}
"""The error code of each, how many turns it gets, and what is said of it."""
REPORTING = ("outside", "updates", "git", "environ", "network", "others", "same")

pytestmark = pytest.mark.slow


class Ward:
    """One run with every bad agent in it, and a good one."""

    def __init__(self, folder: Path) -> None:
        self.shop = Shop(folder, POLICY)
        key = f"sk-{uuid.uuid4().hex}"
        self.program = bad_agent(folder / "bin", "mine", key)
        self.own_rows(folder / "config")
        self.shop.wants(*(f"{manner}_one" for manner in (*FAILING, *REPORTING, "good")))
        path = os.pathsep.join([str(self.program), os.path.dirname(PYTHON), os.environ["PATH"]])
        env = {"PATH": path, "ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
        env["XDG_CONFIG_HOME"] = str(folder / "config")
        words = ["run", "-fl", str(self.shop.specs), "--wait", "--json", "--agent-provider", "mine"]
        self.ran: Ran = run_aop(self.shop.root, *words, env=env, seconds=300)
        self.told: Any = json.loads(self.ran.out)["data"]
        world = World(self.shop.root)
        with world.app.record.read() as view:
            self.events = [entry.event for entry in view.journal()]
        world.close()

    def own_rows(self, folder: Path) -> None:
        """Write an agents.yaml of the user: the program is started as Claude Code is, under a name of its own."""
        row = msgspec.structs.replace(shipped_rows()["claude"], command=("mine",))
        (folder / "aop").mkdir(parents=True)
        (folder / "aop/agents.yaml").write_text(row_text(Vendor(provider="mine", row=row)))

    def attempts(self, manner: str) -> list[str]:
        """Return what became of each turn of a feature."""
        return [attempt["outcome"] for attempt in self.question(manner)["detail"]["attempts"]]

    def question(self, manner: str) -> Any:
        return next(question for question in self.told["questions"] if question["feature_id"] == f"{manner}_one")

    def note(self, manner: str) -> Any:
        said = [event for event in self.events if event.kind == "note_added" and event.feature_id == f"{manner}_one"]
        return json.loads(str(said[0].payload["note"]))


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return Ward(tmp_path_factory.mktemp("ward"))


@pytest.mark.parametrize("manner", FAILING)
def test_an_agent_that_brings_nothing_is_called_by_its_fault_and_a_person_may_retry_or_stop(
    ward: Ward, manner: str
) -> None:
    code, turns, message = FAILING[manner]
    said = [line for line in ward.ran.err.splitlines() if re.search(f" {manner}_one: +planner: failed: ", line)]
    assert [message in line for line in said] == [True] * turns, said
    question = ward.question(manner)
    assert (question["choices"], ward.attempts(manner)) == (["retry", "stop"], [code] * turns)
    assert message in question["text"]
    assert "circles" not in question["text"]


def test_with_a_key_an_agent_reaches_no_host_and_is_told_of_no_proxy(ward: Ward) -> None:
    assert ward.note("network") == ["PermissionError", "PermissionError"]


@pytest.mark.parametrize("manner", ["dies", "stranger"])
def test_status_and_inbox_name_the_fault(ward: Ward, manner: str) -> None:
    for command in ("status", "inbox"):
        assert FAILING[manner][2] in run_aop(ward.shop.root, command, "--json").out
        assert ward.question(manner)["question_id"] in run_aop(ward.shop.root, command).out


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


def test_an_agent_cannot_replace_its_program_nor_write_into_the_home_of_the_person(ward: Ward) -> None:
    is_enclosed(ward)
    assert ward.note("updates")[:2] == ["OSError"] * 2
    assert not (Path(pwd.getpwuid(os.getuid()).pw_dir) / "written-by-an-agent").exists()


def test_an_agent_cannot_write_what_git_reads(ward: Ward) -> None:
    is_enclosed(ward)
    # There is no folder of hooks in the git directory that it is shown.
    assert ward.note("git") == ["OSError", "OSError", "FileNotFoundError"]


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
