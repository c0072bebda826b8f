"""Turns on workers: agents of other machines plan, build and test, and the leader decides."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.agents.vendors.catalogue import Vendor, row_text, shipped_rows
from tests.adapters.agents.scripted_provider import providing, whole
from tests.cli.run.bad_agents import PYTHON, bad_agent
from tests.cli.scripted_agents import agent_command
from tests.fleet.platforms import Platform

pytestmark = pytest.mark.fleet
ANSWERED = {
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Hello"}],
    "usage": {"input_tokens": 1000, "output_tokens": 100},
}


def specs_of(platform: Platform, *names: str) -> str:
    """Write a spec for each feature, and return their folder."""
    specs = platform.folder / "specs"
    specs.mkdir(exist_ok=True)
    for name in names:
        (specs / f"{name}.md").write_text(f"Write {name}.\n")
    return str(specs)


def agent_of(folder: Path) -> dict[str, str]:
    return {"AOP_CUSTOM_AGENT": agent_command(folder), "AOP_AGENT_PROVIDER": "custom"}


def events(platform: Platform, kind: str, feature_id: str) -> list[Any]:
    """Return what the journal has of a feature's events of one kind."""
    rows = [
        json.loads(line)["data"] for line in platform.aop("logs", "--feature", feature_id, "--json").out.splitlines()
    ]
    found = [row["event"] for row in rows if row["type"] == "event"]
    return [event["payload"] for event in found if event["kind"] == kind]


def test_turns_are_taken_by_an_agent_of_the_workers_machine(platform: Platform) -> None:
    worker = platform.worker("one", "--queues", "gates,agents", env=agent_of(platform.folder / "agent"))
    # The leader's own agent could not do it.
    unable = {"AOP_CUSTOM_AGENT": "/bin/false", "AOP_AGENT_PROVIDER": "custom"}
    ran = platform.aop("run", "-fl", specs_of(platform, "plain_one"), "--wait", "--json", env=unable)
    assert ran.code == 0, ran.out + ran.err + worker.errors.read_text()
    [row] = platform.aop("status", "--json").json["data"]["features"]
    assert row["status"] == "ready_to_merge"
    assert f"planner: its turn runs on the worker {worker.id}" in ran.err
    assert platform.aop("evidence", "verify").code == 0
    assert worker.end() == 0


def program_of(folder: Path, key: str, model_url: str) -> dict[str, str]:
    """Install a vendor's program with its row, and return the environment in which AOP finds it and its key."""
    program = bad_agent(folder / "bin", "mine", key)
    row = msgspec.structs.replace(shipped_rows()["claude"], command=("mine",))
    (folder / "config/aop").mkdir(parents=True)
    (folder / "config/aop/agents.yaml").write_text(row_text(Vendor(provider="mine", row=row)))
    return {
        "PATH": os.pathsep.join([str(program), os.path.dirname(PYTHON), os.environ["PATH"]]),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "ANTHROPIC_API_KEY": key,
        "ANTHROPIC_BASE_URL": model_url,
        "AOP_AGENT_PROVIDER": "mine",
    }


def places(platform: Platform) -> tuple[Path, Path]:
    """Return the folders of the programs of the worker's machine and of the leader's."""
    made = platform.folder / "on-worker", platform.folder / "on-leader"
    for folder in made:
        folder.mkdir()
    return made


def test_a_program_with_tools_and_a_meter_works_beside_them_and_its_key_stays_there(platform: Platform) -> None:
    worker_place, leader_place = places(platform)
    key = f"sk-{uuid.uuid4().hex}"
    with providing(whole(ANSWERED)) as model:
        worker = platform.worker("one", "--queues", "agents", env=program_of(worker_place, key, model.url))
        # The leader's own key opens no model: no turn was taken there.
        unable = program_of(leader_place, "sk-none", "http://127.0.0.1:9")
        specs = specs_of(platform, "metered_one", "others_one", "environ_one")
        ran = platform.aop("run", "-fl", specs, "--wait", "--json", env=unable)
        assert {heard.headers["x-api-key"] for heard in model.heard} == {key}
    rows = {row["feature_id"]: row for row in platform.aop("status", "--json").json["data"]["features"]}
    assert rows["metered_one"]["status"] == "ready_to_merge", ran.err + worker.errors.read_text()
    # What its role may not do is refused there, and what it may read is answered here.
    [said] = events(platform, "note_added", "others_one")
    assert json.loads(said["note"]) == ["forbidden_tool_for_role"] * 5 + ["ok"]
    [seen] = events(platform, "note_added", "environ_one")
    assert json.loads(seen["note"])["key"] is False
    taken = events(platform, "turn_taken", "metered_one")
    assert [turn["usage"]["input_tokens"] for turn in taken if turn["worker"] == "planner"] == [1000]
    dumped = platform.rows("SELECT inputs, output FROM dbos.workflow_status")
    assert key not in str(dumped) + str(platform.rows("SELECT * FROM fleet.logs")) + ran.out + ran.err
    assert platform.rows("SELECT * FROM fleet.attempts") == platform.rows("SELECT * FROM fleet.calls") == []
    assert worker.end() == 0
