"""Rights: each role of the database can do what its processes need, and the database refuses the rest."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.fleet.platforms import Platform, user_of

pytestmark = pytest.mark.fleet
WRITES = (
    "INSERT INTO aop.repositories (name, home, state) VALUES ('x', 'x', 'active')",
    "DELETE FROM aop.all_documents",
    "UPDATE aop.leaders SET stop = true",
    "DELETE FROM fleet.workers",
    "DELETE FROM fleet.repositories",
    "DELETE FROM dbos.workflow_status",
    "CREATE TABLE aop.more (x integer)",
)


def refused(url: str, *statements: str) -> None:
    for sql in statements:
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(sql)


def test_a_worker_with_the_role_of_workers_runs_gates_and_cannot_read_the_record(platform: Platform) -> None:
    url = user_of(platform, "aop_worker")
    worker = platform.worker(url=url)
    platform.feature("search")
    assert platform.gates("search").code == 0
    [run] = platform.evidence("search")
    assert run["worker"] == worker.id
    refused(url, "SELECT * FROM aop.journals", "DELETE FROM aop.all_documents", "UPDATE fleet.shape SET runs = 2")
    refused(url, "INSERT INTO fleet.repositories (name, hub) VALUES ('x', 'file:///x')")
    for words in (("status",), ("platform", "status"), ("platform", "add", platform.env["AOP_HUB"])):
        ran = platform.aop(*words, "--json", env={"AOP_DATABASE": url})
        assert (ran.code, ran.json["error"]["code"]) == (2, "database_rights"), (words, ran.out)


def test_a_reader_reads_everything_and_every_change_is_refused_by_name(platform: Platform) -> None:
    platform.feature("search")
    platform.gates("search")
    url = user_of(platform, "aop_reader")
    before = platform.rows("SELECT count(*) FROM aop.journals")
    reads: tuple[tuple[str, ...], ...] = (
        ("status",),
        ("status", "search"),
        ("inbox",),
        ("logs",),
        ("report", "journal"),
        ("evidence", "verify"),
        ("review", "search"),
        ("call", "report.dashboard"),
        ("workers",),
        ("platform", "status"),
    )
    for words in reads:
        ran = platform.aop(*words, env={"AOP_DATABASE": url})
        assert ran.code == 0, (words, ran.out, ran.err)
    changes: tuple[tuple[str, ...], ...] = (
        ("call", "feature.init", json.dumps({"feature_id": "other"})),
        ("pause", "search"),
        ("delete", "search", "--yes"),
        ("platform", "init"),
        ("platform", "add", platform.env["AOP_HUB"]),
    )
    for words in changes:
        ran = platform.aop(*words, "--json", env={"AOP_DATABASE": url})
        assert (ran.code, ran.json["error"]["code"]) == (2, "database_rights"), (words, ran.out, ran.err)
    refused(url, *WRITES)
    assert platform.rows("SELECT count(*) FROM aop.journals") == before
    assert platform.aop("status").code == 0


def test_a_leader_without_ownership_works_on_the_record_and_asks_workers(platform: Platform) -> None:
    url = user_of(platform, "aop_leader")
    worker = platform.worker(url=user_of(platform, "aop_worker"))
    own = {"AOP_DATABASE": url}
    made = platform.aop("call", "feature.init", json.dumps({"feature_id": "search"}), env=own)
    assert made.code == 0, made.out
    ran = platform.aop("call", "gates.run", json.dumps({"feature_id": "search", "mode": "fast"}), env=own)
    assert ran.code == 0, ran.out
    [run] = platform.evidence("search")
    assert run["worker"] == worker.id
    assert platform.aop("platform", "add", platform.env["AOP_HUB"], "--name", "shop", env=own).code == 0
    assert platform.aop("platform", "remove", "shop", env=own).code == 0
    assert platform.aop("evidence", "verify", env=own).code == 0
    refused(url, "CREATE TABLE aop.more (x integer)", "DROP TABLE aop.leaders", "UPDATE fleet.shape SET runs = 2")
