"""Gates on workers: what a leader orders, another process runs in a clone of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dbos import DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions

from aop.adapters.fleet.connections import engine_address
from aop.adapters.fleet.platform_shape import APPLICATION, VERSION
from tests.adapters.storage.postgres_clusters import PASSWORD
from tests.fleet.platforms import SECONDS, Platform, taker_of
from tests.racing import until
from tests.world import git

pytestmark = pytest.mark.fleet


def test_a_worker_runs_the_gates_and_the_leader_records_them(platform: Platform) -> None:
    worker = platform.worker("one", "--places", "2")
    platform.feature("search")
    ran = platform.gates("search")
    assert ran.json["data"]["verdict"] == "pass"
    [run] = platform.evidence("search")
    assert run["worker"] == worker.id
    assert run["machine"].startswith(run["sandbox_level"])
    assert platform.gates("search").json["data"]["reused"] is True
    assert platform.aop("evidence", "verify").code == 0
    assert f"refs/aop/gates/{platform.env['AOP_REPOSITORY']}/search" in git(platform.folder / "hub.git", "show-ref")
    assert (worker.end(), platform.listed()["one"]["state"]) == (0, "gone")


def test_a_worker_that_has_the_repository_comes_before_one_that_has_not(platform: Platform) -> None:
    features = [f"search_{number}" for number in range(6)]
    for name in features:
        platform.feature(name)
    knows = platform.worker("one")
    assert platform.gates(features[0]).code == 0
    newcomer = platform.worker("two")
    for name in features[1:]:
        assert platform.gates(name).code == 0
    assert [run["worker"] for name in features for run in platform.evidence(name)] == [knows.id] * len(features)
    assert knows.end() == 0
    assert platform.gates(features[0], force=True).code == 0
    assert platform.evidence(features[0])[-1]["worker"] == newcomer.id


def test_gates_that_fail_elsewhere_fail_here_with_their_log(platform: Platform) -> None:
    (platform.root / "check.sh").write_text("echo it is broken; exit 3\n")
    git(platform.root, "commit", "-qam", "Break")
    worker = platform.worker()
    platform.feature("search")
    ran = platform.gates("search")
    assert (ran.code, ran.json["error"]["code"]) == (1, "gate_failed")
    [run] = platform.evidence("search")
    [step] = run["steps"]
    assert (run["worker"], step["exit_code"]) == (worker.id, 3)
    assert (platform.root / step["log_path"]).read_text() == "it is broken\n"
    assert platform.aop("evidence", "verify").code == 0


def test_no_step_sees_the_address_of_the_database(platform: Platform) -> None:
    (platform.root / "check.sh").write_text("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ls /proc\n")
    git(platform.root, "commit", "-qam", "Look around")
    platform.worker()
    platform.feature("search")
    assert platform.gates("search").code == 0
    [run] = platform.evidence("search")
    log = (platform.root / run["steps"][0]["log_path"]).read_text()
    assert "PATH=" in log
    assert (PASSWORD in log, platform.url in log) == (False, False)


def test_gates_that_wait_for_a_worker_leave_the_queue_when_their_feature_is_stopped(platform: Platform) -> None:
    go = platform.folder / "go"
    policy = platform.root / "agentic/orchestrator/policy.yaml"
    policy.write_text('version: 1\nexecution:\n  sandbox: "off"\n')
    (platform.root / "check.sh").write_text(f"until test -e {go}; do sleep 0.1; done\n")
    git(platform.root, "add", "-A")
    git(platform.root, "commit", "-qm", "Wait")
    worker = platform.worker()
    for name in ("first", "second"):
        platform.feature(name)
    first = platform.started_gates("first", "op-first")
    taker_of(platform, [worker])
    second = platform.started_gates("second", "op-second")
    until(lambda: platform.waiting() != [], seconds=60)
    assert platform.aop("stop", "second").code == 0
    out, err = second.communicate(timeout=SECONDS)
    assert (second.returncode, json.loads(out)["error"]["code"]) == (1, "invalid_status_transition"), out + err
    assert platform.waiting() == []
    go.touch()
    out, err = first.communicate(timeout=SECONDS)
    assert (first.returncode, platform.evidence("second")) == (0, []), out + err


def test_gates_stay_here_where_files_of_the_checkout_are_needed(platform: Platform) -> None:
    policy = platform.root / "agentic/orchestrator/policy.yaml"
    policy.write_text("version: 1\nworktree:\n  copy: [secret.env]\n")
    git(platform.root, "add", "-A")
    git(platform.root, "commit", "-qm", "Copy")
    platform.worker()
    platform.feature("search")
    ran = platform.gates("search")
    assert ran.code == 0
    assert "run on this machine: `worktree.copy` needs this checkout" in ran.err
    [run] = platform.evidence("search")
    assert "worker" not in run


def test_a_worker_links_what_its_own_folder_of_the_repository_has_and_else_the_gates_run_here(
    platform: Platform,
) -> None:
    policy = platform.root / "agentic/orchestrator/policy.yaml"
    policy.write_text("version: 1\nworktree:\n  link: [tools]\n")
    (platform.root / "check.sh").write_text("cat tools/name\n")
    git(platform.root, "add", "-A")
    git(platform.root, "commit", "-qm", "Link")
    _write_tool(platform.root, "of the leader")
    cache = platform.folder / "cache"
    worker = platform.worker("one", "--cache", str(cache))
    platform.feature("search")
    ran = platform.gates("search")
    assert ran.code == 0
    assert f"run on this machine: the worker `{worker.id}` has no `tools`, which `worktree.link` names" in ran.err
    _write_tool(cache / platform.env["AOP_REPOSITORY"], "of the worker")
    assert platform.gates("search", force=True).code == 0
    here, there = platform.evidence("search")
    assert ("worker" in here, there["worker"]) == (False, worker.id)
    logs = [(platform.root / run["steps"][0]["log_path"]).read_text() for run in (here, there)]
    assert logs == ["of the leader\n", "of the worker\n"]


def _write_tool(folder: Path, content: str) -> None:
    (folder / "tools").mkdir()
    (folder / "tools" / "name").write_text(content)


def test_gates_run_here_while_no_worker_lives_or_the_hub_is_out_of_reach(platform: Platform) -> None:
    platform.feature("search")
    ran = platform.gates("search")
    assert (ran.code, "run on this machine: no worker for gates is live" in ran.err) == (0, True)
    platform.worker()
    words = ("call", "gates.run", json.dumps({"feature_id": "search", "mode": "full"}))
    ran = platform.aop(*words, env={"AOP_HUB": f"file://{platform.folder}/nowhere.git"})
    assert (ran.code, "run on this machine: The hub cannot be written" in ran.err) == (0, True)
    assert all("worker" not in run for run in platform.evidence("search"))


def test_without_a_hub_or_a_database_nothing_of_the_fleet_is_asked(platform: Platform) -> None:
    platform.worker()
    platform.feature("search")
    ran = platform.aop("call", "gates.run", json.dumps({"feature_id": "search", "mode": "fast"}), env={"AOP_HUB": ""})
    assert (ran.code, ran.err) == (0, "search: fast gates, step 1 of 1: check\n")


def test_a_hub_that_cannot_be_used_is_refused_by_name(platform: Platform) -> None:
    hubs = {
        "https://ada:secret@git.example.org/x.git": "holds a password",
        "ext::sh -c id": "is not an address of git",
        "--upload-pack=id": "is not an address of git",
    }
    for hub, why in hubs.items():
        ran = platform.aop("call", "feature.init", '{"feature_id": "search"}', env={"AOP_HUB": hub})
        assert (ran.json["error"]["code"], why in ran.json["error"]["message"]) == ("hub_unavailable", True), hub
        assert "secret" not in ran.out + ran.err


def test_a_worker_drains_when_told_and_others_are_listed(platform: Platform) -> None:
    one, two = platform.worker("one"), platform.worker("two", "--places", "3", "--label", "zone=a")
    assert platform.aop("worker", "drain", one.id).code == 0
    assert one.process.wait(60) == 0
    listed = platform.listed()
    assert (listed["one"]["state"], listed["two"]["state"]) == ("gone", "live")
    assert (listed["two"]["id"], listed["two"]["places"], listed["two"]["labels"]["zone"]) == (two.id, 3, "a")
    unknown = platform.aop("worker", "drain", "nobody", "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (1, "unknown_worker")


def test_a_worker_of_another_shape_of_runs_ends_with_2_and_runs_that_nobody_serves_are_counted(
    platform: Platform,
) -> None:
    worker = platform.worker()
    platform.rows("UPDATE fleet.shape SET runs = 99")
    try:
        assert worker.process.wait(60) == 2
        late = platform.aop("worker", "--json")
        assert (late.code, late.json["error"]["code"]) == (2, "worker_version")
    finally:
        platform.rows("UPDATE fleet.shape SET runs = 1")
    platform.rows(
        "INSERT INTO dbos.workflow_status (workflow_uuid, status, name, queue_name, application_name,"
        " application_version) VALUES ('old', 'ENQUEUED', 'gate', 'gates', 'aop-fleet', 'runs-0')"
    )
    assert platform.aop("workers", "--json").json["data"]["stranded"] == 1
    platform.rows("DELETE FROM dbos.workflow_status WHERE workflow_uuid = 'old'")


def test_a_database_without_a_platform_is_refused_by_name(cluster: str, platform: Platform) -> None:
    platform.rows("CREATE DATABASE bare")
    env = {"AOP_DATABASE": cluster.replace("/postgres", "/bare")}
    for words in (("worker",), ("workers",), ("platform", "status")):
        ran = platform.aop(*words, "--json", env=env)
        assert (ran.code, ran.json["error"]["code"]) == (2, "platform_missing"), words
    wrong = platform.aop("worker", "--json", env={"AOP_DATABASE": cluster.replace(PASSWORD, "wrong")})
    assert (wrong.code, wrong.json["error"]["code"]) == (6, "database_unavailable")
    assert "wrong" not in wrong.out


def test_an_order_that_is_none_ends_with_an_error_and_the_worker_goes_on(platform: Platform) -> None:
    worker = platform.worker()
    client = DBOSClient(
        system_database_url=engine_address(platform.url),
        serializer=DBOSPortableJSONSerializer(),
        application_name=APPLICATION,
    )
    try:
        options: EnqueueOptions = {
            "queue_name": "gates",
            "workflow_name": "gate",
            "workflow_id": "stranger",
            "app_version": VERSION,
        }
        client.enqueue(options, {"order": "rm -rf /", "repository": "../../etc"})
        until(lambda: client.retrieve_workflow("stranger").get_status().status == "ERROR", seconds=60)
        client.delete_workflow("stranger")
    finally:
        client.destroy()
    platform.feature("search")
    assert platform.gates("search").code == 0
    [run] = platform.evidence("search")
    assert run["worker"] == worker.id
