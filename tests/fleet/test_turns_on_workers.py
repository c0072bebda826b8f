"""Turns on workers: agents of other machines plan, build and test, and the leader decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.adapters.agents.vendors.catalogue import Vendor, row_text, shipped_rows
from tests.adapters.agents.scripted_provider import providing, whole
from tests.cli.run.bad_agents import PYTHON, bad_agent
from tests.cli.scripted_agents import agent_command
from tests.fleet.platforms import SECONDS, Platform, taker_of, user_of
from tests.racing import until

pytestmark = pytest.mark.fleet
UNABLE = {"AOP_CUSTOM_AGENT": "/bin/false", "AOP_AGENT_PROVIDER": "custom"}
ANSWERED = {
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Hello"}],
    "usage": {"input_tokens": 1000, "output_tokens": 100},
}
LOUD = """\
import runpy, sys

print("at work", file=sys.stderr, flush=True)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0])
"""


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
    ran = platform.aop("run", "-fl", specs_of(platform, "plain_one"), "--wait", "--json", env=UNABLE)
    assert ran.code == 0, ran.out + ran.err + worker.errors.read_text()
    [row] = platform.aop("status", "--json").json["data"]["features"]
    assert row["status"] == "ready_to_merge"
    assert f"planner: its turn runs on the worker {worker.id}" in ran.err
    assert {turn["on_worker"] for turn in events(platform, "turn_taken", "plain_one")} == {worker.id}
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
        # It has no right on the record.
        url, own = user_of(platform, "aop_worker"), program_of(worker_place, key, model.url)
        worker = platform.worker("one", "--queues", "agents", url=url, env=own)
        # The leader's own key opens no model: no turn was taken there.
        unable = program_of(leader_place, "sk-none", "http://127.0.0.1:9")
        specs = specs_of(platform, "metered_one", "others_one", "environ_one", "tells_one")
        ran = platform.aop("run", "-fl", specs, "--wait", "--json", env=unable)
        assert {heard.headers["x-api-key"] for heard in model.heard} == {key}
    rows = {row["feature_id"]: row for row in platform.aop("status", "--json").json["data"]["features"]}
    assert rows["metered_one"]["status"] == "ready_to_merge", ran.err + worker.errors.read_text()
    # What its role may not do is refused there, and what it may read is answered here.
    [said] = events(platform, "note_added", "others_one")
    assert json.loads(said["note"]) == ["forbidden_tool_for_role"] * 5 + ["ok"]
    [seen] = events(platform, "note_added", "environ_one")
    assert json.loads(seen["note"])["key"] is False
    # A call is a row of the database before the leader answers it.
    [told] = events(platform, "note_added", "tells_one")
    assert json.loads(told["note"]) == ["secret_detected", "ok", "[redacted:known-value]"]
    taken = events(platform, "turn_taken", "metered_one")
    assert [turn["usage"]["input_tokens"] for turn in taken if turn["worker"] == "planner"] == [1000]
    dumped = platform.rows("SELECT inputs, output FROM dbos.workflow_status")
    assert key not in str(dumped) + str(platform.rows("SELECT * FROM fleet.logs")) + ran.out + ran.err
    assert platform.rows("SELECT * FROM fleet.attempts") == platform.rows("SELECT * FROM fleet.calls") == []
    assert worker.end() == 0


def loud_agent_of(folder: Path) -> dict[str, str]:
    """Return an agent that says on its error output when it begins."""
    python, words = agent_command(folder).split(" ", 1)
    (folder / "loud.py").write_text(LOUD)
    return {"AOP_CUSTOM_AGENT": f"{python} {folder / 'loud.py'} {words}", "AOP_AGENT_PROVIDER": "custom"}


@contextmanager
def started_run(
    platform: Platform, *names: str, words: Sequence[str] = (), env: Mapping[str, str] = UNABLE
) -> Iterator[subprocess.Popen[str]]:
    """Start a run that a test disturbs; its own agent could do nothing."""
    words = words or ["run", "-fl", specs_of(platform, *names), "--wait"]
    process = subprocess.Popen(
        [sys.executable, "-m", "aop.cli.main", *words],
        cwd=platform.root,
        env={**os.environ, "USER": "ada", **platform.env, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def is_at_work(platform: Platform, name: str) -> bool:
    return "at work" in platform.aop("logs", "--agent", name).out


def agents_left(platform: Platform) -> list[str]:
    """Return the processes of agents on any machine of the platform."""
    found = subprocess.run(["pgrep", "-af", str(platform.folder)], capture_output=True, text=True, check=False).stdout
    return [line for line in found.splitlines() if "loud.py" in line]


def test_a_turn_of_a_killed_worker_is_taken_by_another_and_both_are_counted(platform: Platform) -> None:
    agent = loud_agent_of(platform.folder / "agent")
    workers = [platform.worker(name, "--queues", "agents", env=agent) for name in ("one", "two")]
    with started_run(platform, "held_one") as run:
        lost = taker_of(platform, workers)
        until(lambda: is_at_work(platform, "held_one"), seconds=SECONDS)
        until(lambda: platform.rows("SELECT 1 FROM fleet.judge WHERE until > clock_timestamp()") != [], seconds=60)
        lost.process.kill()
        taker = taker_of(platform, [worker for worker in workers if worker is not lost])
        (platform.folder / "agent/go").touch()
        _out, err = run.communicate(timeout=SECONDS)
    assert run.returncode == 0, err + taker.errors.read_text()
    assert f"planner: the worker {lost.id} was lost in its turn; its cost counts" in err
    turns = [turn for turn in events(platform, "turn_taken", "held_one") if turn["worker"] == "planner"]
    assert [(turn["answered"], turn["on_worker"]) for turn in turns] == [(False, lost.id), (True, taker.id)]
    until(lambda: agents_left(platform) == [], seconds=60)
    assert platform.rows("SELECT * FROM fleet.attempts") == []


def test_a_feature_that_is_stopped_ends_its_turn_on_the_worker_which_goes_on(platform: Platform) -> None:
    worker = platform.worker("one", "--queues", "agents", env=loud_agent_of(platform.folder / "agent"))
    with started_run(platform, "held_one") as run:
        # The log is here while the turn goes on there.
        until(lambda: is_at_work(platform, "held_one"), seconds=SECONDS)
        [row] = platform.aop("status", "--json").json["data"]["features"]
        assert row["at_work"]["on_worker"] == worker.id
        assert platform.aop("stop", "held_one").code == 0
        _out, err = run.communicate(timeout=SECONDS)
    until(lambda: agents_left(platform) == [], seconds=60)
    assert "stopped" in err
    [row] = platform.aop("status", "--json").json["data"]["features"]
    assert row["status"] == "failed"
    assert [turn["answered"] for turn in events(platform, "turn_taken", "held_one")] == [False]
    assert (worker.end(), platform.rows("SELECT * FROM fleet.stops")) == (0, [])


def test_a_turn_that_waits_for_a_worker_leaves_the_queue_when_its_feature_is_stopped(platform: Platform) -> None:
    worker = platform.worker("one", "--queues", "agents", env=loud_agent_of(platform.folder / "agent"))
    with started_run(platform, "held_one", "held_two") as run:
        taker_of(platform, [worker])
        until(lambda: platform.waiting() != [], seconds=SECONDS)
        stopped = platform.waiting()[0].split(".")[1]
        [other] = {"held_one", "held_two"} - {stopped}
        until(lambda: is_at_work(platform, other), seconds=SECONDS)
        assert platform.aop("stop", stopped).code == 0
        until(lambda: events(platform, "turn_taken", stopped) != [], seconds=60)
        assert platform.waiting() == []
        assert agents_left(platform) != []
        (platform.folder / "agent/go").touch()
        _out, err = run.communicate(timeout=SECONDS)
    assert "turns run on this machine" not in err
    rows = {row["feature_id"]: row["status"] for row in platform.aop("status", "--json").json["data"]["features"]}
    assert rows == {stopped: "failed", other: "ready_to_merge"}, err + worker.errors.read_text()
    [turn] = events(platform, "turn_taken", stopped)
    assert (turn["answered"], turn["usage"]["cost_usd"]) == (False, 0)


@contextmanager
def without_stops(platform: Platform) -> Iterator[None]:
    """Have no turn hear that it was stopped."""
    platform.rows(
        "CREATE FUNCTION fleet.ignore() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER ignore BEFORE INSERT ON fleet.stops FOR EACH ROW EXECUTE FUNCTION fleet.ignore()"
    )
    try:
        yield
    finally:
        # A turn that nobody waits for is removed much later, and the next test shares the database.
        platform.rows("DROP FUNCTION fleet.ignore CASCADE; DELETE FROM fleet.attempts")


def counted(platform: Platform) -> dict[str, int]:
    """Return the tokens that each turn has counted so far."""
    own = f"{platform.env['AOP_REPOSITORY']}/%"
    found = platform.rows("SELECT run, usage FROM fleet.attempts WHERE usage <> 'null' AND run LIKE %s", own)
    return {run: json.loads(usage)["input_tokens"] for run, usage in found}


def has_counted(platform: Platform, run: str, tokens: int) -> bool:
    return counted(platform)[run] == tokens


def test_two_turns_of_a_role_on_one_worker_have_counts_and_logs_of_their_own(platform: Platform) -> None:
    worker_place, leader_place = places(platform)
    with providing(whole(ANSWERED)) as model, without_stops(platform):
        own = program_of(worker_place, f"sk-{uuid.uuid4().hex}", model.url)
        platform.worker("one", "--queues", "agents", "--places", "2", env=own)
        unable = program_of(leader_place, "sk-none", "http://127.0.0.1:9")
        with started_run(platform, "lingers_one", env=unable):
            until(lambda: len(counted(platform)) == 1, seconds=SECONDS)
        [first] = counted(platform)
        # The turn of the killed leader goes on while that of the next one begins.
        with started_run(platform, words=("resume", "--standby", "--wait"), env=unable) as run:
            until(lambda: len(counted(platform)) == 2, seconds=SECONDS)
            [second] = set(counted(platform)) - {first}
            names = {run: name_in_log(platform, run) for run in (first, second)}
            # Twice, so that the other one has looked at its count in between.
            for asked in (1, 2):
                (worker_place / "bin" / f"{names[first]}.{asked}").touch()
                wanted = 1000 * (asked + 1)
                until(partial(has_counted, platform, first, wanted), seconds=SECONDS)
            assert counted(platform)[second] == 1000
            logs = {run: log_of(platform, run) for run in (first, second)}
            assert (names[first] in logs[second], names[second] in logs[first]) == (False, False)
            (worker_place / "bin/go").touch()
            _out, err = run.communicate(timeout=SECONDS)
    assert run.returncode == 0, err


def log_of(platform: Platform, run: str) -> str:
    rows = platform.rows("SELECT content FROM fleet.logs WHERE run = %s ORDER BY number", run)
    return b"".join(content for (content,) in rows).decode()


def name_in_log(platform: Platform, run: str) -> str:
    until(lambda: "begun as " in log_of(platform, run), seconds=SECONDS)
    return log_of(platform, run).partition("begun as ")[2].split()[0]


def test_turns_run_here_while_no_worker_can_take_them_and_the_output_says_so_once(platform: Platform) -> None:
    agent = agent_of(platform.folder / "agent")
    ran = platform.aop("run", "-fl", specs_of(platform, "plain_one"), "--wait", env=agent)
    assert (ran.code, ran.err.count("turns run on this machine: no worker for agents is live")) == (0, 1), ran.err
    worker = platform.worker("one", "--queues", "agents")
    (platform.folder / "specs/plain_one.md").unlink()
    ran = platform.aop("run", "-fl", specs_of(platform, "plain_two"), "--wait", env=agent)
    assert ran.code == 0, ran.err
    assert ran.err.count(f"turns run on this machine: the worker {worker.id} cannot: ") == 1
    taken = [*events(platform, "turn_taken", "plain_one"), *events(platform, "turn_taken", "plain_two")]
    assert [turn for turn in taken if "on_worker" in turn] == []
