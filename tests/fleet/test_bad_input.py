"""Bad input for leaders and workers: full disks, wrong clocks, strangers' rows, and hubs that have something else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from dbos import DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions

from aop.adapters.fleet.connections import engine_address
from aop.adapters.fleet.liveness import Liveness, WorkerIdentity
from aop.adapters.fleet.platform_shape import APPLICATION, RUNS, VERSION
from aop.core.errors import WorkerIdTaken
from tests.adapters.storage.postgres_clusters import PASSWORD
from tests.fleet.platforms import Platform, platform_in
from tests.racing import until
from tests.world import files, git, plan_for

pytestmark = pytest.mark.fleet
SECONDS = 120.0
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
_ERRORS = "SELECT count(*) FROM dbos.workflow_status WHERE workflow_uuid LIKE 'stranger-%%' AND status = 'ERROR'"
_LEFT = "SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid LIKE %s AND status IN ('ENQUEUED', 'PENDING')"
_FAILED = "run on this machine: A worker could not carry out a run of `gates`: "
_WAITING = "SELECT workflow_uuid FROM dbos.workflow_status WHERE status = 'ENQUEUED' AND workflow_uuid LIKE %s"


@pytest.fixture(scope="module")
def shared(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with platform_in(tmp_path_factory.mktemp("shared"), cluster) as made:
        yield made


@pytest.fixture
def platform(shared: Platform) -> Iterator[Platform]:
    """The platform of this module, with its first gates and without workers."""
    write_gate(shared, "cat src/*.new || true\n")
    yield shared
    shared.end_workers()


def write_gate(platform: Platform, script: str) -> None:
    """Have the features that begin from now on run a script as their gate."""
    (platform.root / "check.sh").write_text(script)
    git(platform.root, "commit", "-qam", "Another gate", "--allow-empty")


def changed_feature(platform: Platform, name: str) -> None:
    """Have a feature whose tree is not that of the base branch."""
    platform.feature(name)
    path = f"src/{name}.new"
    platform.call("plan.submit", feature_id=name, plan_json=plan_for(name, files=files(create=(path,))))
    diff = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+of {name}\n"
    patch = json.dumps({"feature_id": name, "unified_diff": diff})
    assert platform.aop("call", "repo.apply_patch", patch, "--role", "builder").code == 0


def log_of(platform: Platform, run: Mapping[str, Any]) -> str:
    path: str = run["steps"][0]["log_path"]
    return (platform.root / path).read_text()


# --- hubs ------------------------------------------------------------------------------------------


def see_another_hub(platform: Platform, name: str, hub: Path) -> None:
    """Have the git of a worker find another repository where the hub should be, or none."""
    home = platform.folder / name
    home.mkdir()
    (home / ".gitconfig").write_text(f'[url "file://{hub}"]\n\tinsteadOf = {platform.env["AOP_HUB"]}\n')


@pytest.mark.parametrize("hub", ["out_of_reach", "without_the_commit"])
def test_a_worker_whose_hub_is_away_or_lacks_the_commit_says_so_and_the_leader_runs_the_gates(
    platform: Platform, hub: str
) -> None:
    name = f"hub_{hub}"
    if hub == "without_the_commit":
        git(platform.folder, "init", "-q", "--bare", f"{hub}.git")
    see_another_hub(platform, name, platform.folder / f"{hub}.git")
    worker = platform.worker(name)
    platform.feature(name)
    ran = platform.gates(name)
    assert (ran.code, _FAILED in ran.err) == (0, True), ran.err
    assert "The hub cannot be read" in ran.err
    [run] = platform.evidence(name)
    assert ("worker" in run, worker.process.poll(), worker.errors.read_text().count("step 1 of")) == (False, None, 0)


FORCED = """\
#!/bin/sh
while read old new ref; do
    case "$ref" in refs/aop/gates/*) git update-ref "$ref" refs/heads/main;; esac
done
"""
PRUNED = """\
git for-each-ref --format='delete %(refname)' refs/aop/trees | git update-ref --stdin
git prune --expire=now
"""


@pytest.mark.parametrize("left", ["the_commit", "nothing"])
def test_a_worker_never_judges_another_tree_when_the_ref_at_the_hub_was_forced(platform: Platform, left: str) -> None:
    name, hook = f"forced_{left}", platform.folder / "hub.git/hooks/post-receive"
    worker = platform.worker(name)
    changed_feature(platform, name)
    hook.write_text(FORCED + (PRUNED if left == "nothing" else ""))
    hook.chmod(0o755)
    try:
        ran = platform.gates(name)
    finally:
        hook.unlink()
    assert ran.code == 0, ran.out + ran.err
    [run] = platform.evidence(name)
    assert log_of(platform, run) == f"of {name}\n"
    if left == "the_commit":
        assert run["worker"] == worker.id
    else:
        assert ("worker" in run, "The hub cannot be read" in ran.err) == (False, True), ran.err


# --- machines --------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_worker_whose_disk_is_full_hands_the_gate_back_and_takes_the_next_when_there_is_space(
    platform: Platform,
) -> None:
    cache = platform.folder / "small"
    with small_disk(cache):
        worker = platform.worker("full", "--cache", str(cache))
        platform.feature("full")
        ran = platform.gates("full")
        assert (ran.code, _FAILED in ran.err) == (0, True), ran.err
        assert worker.process.poll() is None
        subprocess.run(["mount", "-o", "remount,size=64m", str(cache)], check=True)
        again = platform.gates("full", mode="full")
        runs = platform.evidence("full")
        assert [run.get("worker") for run in runs] == [None, worker.id], again.err
        platform.end_workers()


@pytest.mark.skipif(not FAKETIME, reason="faketime is not installed on this machine")
@pytest.mark.parametrize("offset", ["+1h", "-1h"])
def test_a_worker_whose_clock_is_an_hour_off_lives_and_its_times_are_those_of_the_leader(
    platform: Platform, offset: str
) -> None:
    name = f"clock{'ahead' if offset[0] == '+' else 'behind'}"
    worker = platform.worker(
        name, prefix=["env", f"FAKETIME={offset}", f"LD_PRELOAD={FAKETIME[0]}", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
    )
    assert "libfaketime" in Path(f"/proc/{worker.process.pid}/maps").read_text()
    platform.feature(name)
    before = datetime.now(UTC)
    assert platform.gates(name).code == 0
    after = datetime.now(UTC)
    [run] = platform.evidence(name)
    assert run["worker"] == worker.id
    times = [datetime.fromisoformat(run[key]) for key in ("started_at", "finished_at")]
    assert before - timedelta(seconds=1) <= times[0] <= times[1] <= after
    listed = platform.listed()[name]
    assert (listed["state"], listed["seen_seconds"] < 60) == ("live", True)


def test_a_second_worker_with_the_id_of_a_living_one_is_refused_and_the_first_goes_on(platform: Platform) -> None:
    worker = platform.worker("twin")
    twin = WorkerIdentity(id=worker.id, host="elsewhere", queues=("gates",), places=1, labels={})
    with pytest.raises(WorkerIdTaken):
        Liveness(platform.url, twin)
    platform.feature("twin")
    assert platform.gates("twin").code == 0
    assert [run["worker"] for run in platform.evidence("twin")] == [worker.id]
    assert platform.listed()["twin"]["host"] != "elsewhere"


# --- sizes and strangers ---------------------------------------------------------------------------


def test_a_step_that_prints_300_mb_is_judged_and_its_log_is_cut(platform: Platform) -> None:
    write_gate(platform, "yes 'one of many lines' | head -c 300000000; echo the end; exit 4\n")
    worker = platform.worker("loud")
    platform.feature("loud")
    assert platform.gates("loud").json["error"]["code"] == "gate_failed"
    [run] = platform.evidence("loud")
    assert (run["worker"], run["steps"][0]["exit_code"]) == (worker.id, 4)
    log = platform.root / run["steps"][0]["log_path"]
    assert 0 < log.stat().st_size <= 11 << 20
    assert platform.aop("evidence", "verify").code == 0


def stranger(platform: Platform, labels: str = "{}") -> None:
    """Put a row among the workers that no worker has written, and that lives for an hour."""
    platform.rows(
        "INSERT INTO fleet.workers (id, host, queues, places, runs, version, labels, beat)"
        " VALUES ('stranger', 'nowhere', '{gates}', 9, %s, '0', %s, clock_timestamp() + interval '1 hour')"
        " ON CONFLICT (id) DO UPDATE SET gone = NULL, labels = excluded.labels",
        RUNS,
        labels,
    )


def forged_answer(platform: Platform, kind: str) -> str:
    """Return the text of an answer that is no gate run, or not that of the gates."""
    if kind == "50 MB":
        return json.dumps({"worker": "stranger", "executed": None, "more": "x" * 50_000_000})
    if kind == "not an answer":
        return json.dumps([1, 2, 3])
    return json.dumps({"worker": "stranger", "executed": {"run": {}, "names": None}})


@pytest.mark.parametrize("kind", ["50 MB", "not an answer", "half an answer"])
def test_an_answer_that_is_too_large_or_is_not_one_is_refused_and_the_leader_runs_the_gates(
    platform: Platform, kind: str
) -> None:
    name = f"forged_{kind[0]}{len(kind)}"
    platform.feature(name)
    stranger(platform)
    gate = platform.started_gates(name, f"op-{name}")
    waiting = f"{platform.env['AOP_REPOSITORY']}/op-{name}%"
    until(lambda: gate.poll() is not None or platform.rows(_WAITING, waiting) != [], seconds=SECONDS)
    platform.rows(
        "UPDATE dbos.workflow_status SET status = 'SUCCESS', output = %s WHERE workflow_uuid LIKE %s",
        forged_answer(platform, kind),
        waiting,
    )
    out, err = gate.communicate(timeout=SECONDS)
    assert (gate.returncode, "run on this machine: " in err) == (0, True), out + err
    assert ("larger than 16 MiB" if kind == "50 MB" else "answer is not a gate run") in err
    assert ["worker" in run for run in platform.evidence(name)] == [False]


def test_rows_of_strangers_stop_neither_the_worker_nor_the_lists(platform: Platform) -> None:
    stranger(platform, labels="these are no labels")
    worker = platform.worker("steady")
    client = DBOSClient(
        system_database_url=engine_address(platform.url),
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
    )
    payloads: dict[str, tuple[str, Any]] = {
        "stranger-1": ("gate", ["not", "a", "plan"]),
        "stranger-2": ("gate", {"order": {"plan": {}}, "hub": "x", "ref": "x", "commit": "x", "repository": "x"}),
        "stranger-3": ("no-such-kind", {}),
    }
    try:
        for run, (kind, payload) in payloads.items():
            options: EnqueueOptions = {
                "queue_name": "gates",
                "workflow_name": kind,
                "workflow_id": run,
                "app_version": VERSION,
            }
            client.enqueue(options, payload)
        until(lambda: platform.rows(_ERRORS) == [(2,)], seconds=SECONDS)
        platform.rows("UPDATE fleet.workers SET gone = clock_timestamp() WHERE id = 'stranger'")
        platform.feature("steady")
        assert platform.gates("steady").code == 0
    finally:
        for run in payloads:
            client.delete_workflow(run)
        client.destroy()
    assert [run["worker"] for run in platform.evidence("steady")] == [worker.id]
    assert platform.listed()["stranger"]["labels"] == {}
    assert platform.aop("platform", "status", "--json").code == 0


# --- databases -------------------------------------------------------------------------------------

COMMANDS = (("platform", "init"), ("worker",), ("workers",), ("platform", "status"), ("status",))


def test_a_wrong_password_is_refused_by_every_command_and_not_shown(platform: Platform) -> None:
    env = {"AOP_DATABASE": platform.url.replace(PASSWORD, "a-wrong-one")}
    for words in (*COMMANDS, ("resume", "--wait"), ("record", "adopt")):
        ran = platform.aop(*words, "--json", env=env)
        assert (ran.code, ran.json["error"]["code"]) == (6, "database_unavailable"), words
        assert "a-wrong-one" not in ran.out + ran.err


@pytest.mark.parametrize("schema", ["fleet", "aop"])
def test_a_database_that_is_not_aops_is_refused_by_name_and_not_touched(platform: Platform, schema: str) -> None:
    platform.rows(f"CREATE DATABASE other_{schema}")
    url = platform.url.replace("/postgres", f"/other_{schema}")

    def theirs(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    theirs(
        f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.shape (size text); INSERT INTO {schema}.shape VALUES ('big')"
    )
    commands = COMMANDS[:4] if schema == "fleet" else COMMANDS[4:]
    for words in commands:
        ran = platform.aop(*words, "--json", env={"AOP_DATABASE": url, "AOP_HUB": ""})
        assert (ran.code, ran.json["error"]["code"]) == (2, "database_not_aop"), words
    assert theirs(f"SELECT size FROM {schema}.shape") == [("big",)]
    assert theirs("SELECT count(*) FROM pg_tables WHERE schemaname IN ('aop', 'fleet')") == [(1,)]


# --- features --------------------------------------------------------------------------------------


def test_a_feature_that_is_deleted_while_its_gate_runs_leaves_nothing_behind(platform: Platform) -> None:
    write_gate(platform, "echo begun; sleep 3; echo done\n")
    worker = platform.worker("late")
    platform.feature("doomed")
    gate = platform.started_gates("doomed", "op-doomed")
    until(lambda: gate.poll() is not None or "step 1 of 1" in worker.errors.read_text(), seconds=SECONDS)
    deleted = platform.aop("delete", "doomed", "--yes", "--worktree", "--branch", "--force", "--json")
    out, err = gate.communicate(timeout=SECONDS)
    assert deleted.code == 0, deleted.out
    assert (platform.root / ".worktrees/doomed").exists() is False, out + err
    assert platform.aop("status", "doomed", "--json").json["error"]["code"] == "unknown_feature"
    assert platform.rows(_LEFT, f"{platform.env['AOP_REPOSITORY']}/op-doomed%") == []
    assert worker.process.poll() is None
    assert platform.aop("evidence", "verify").code == 0
