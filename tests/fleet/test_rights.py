"""Rights: each role of the database can do what its processes need, and the database refuses the rest."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from tests.adapters.storage.postgres_clusters import PASSWORD, running_cluster_at
from tests.fleet.platforms import Platform, platform_in, user_of

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
COMMANDS = (
    ("status",),
    ("ticket", "runs"),
    ("ticket", "scaffold", "SHOP-12"),
    ("workers",),
    ("worker", "drain", "x"),
    ("platform", "status"),
    ("platform", "add", "file:///nowhere"),
    ("web", "--platform", "--print", "--repositories", "shop"),
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


def test_a_user_without_a_role_is_refused_by_name_in_every_command(platform: Platform) -> None:
    if not platform.rows("SELECT 1 FROM pg_roles WHERE rolname = 'nobody'"):
        platform.rows(f"CREATE ROLE nobody LOGIN PASSWORD '{PASSWORD}'")
    own = {"AOP_DATABASE": platform.url.replace("//aop:", "//nobody:")}
    platform.feature("search")
    answers = {words: platform.aop(*words, "--json", env=own) for words in COMMANDS}
    assert {words: ran.json["error"]["code"] for words, ran in answers.items()} == dict.fromkeys(
        COMMANDS, "database_rights"
    )


def test_a_reader_who_asks_workers_for_a_ticket_is_refused_by_name(platform: Platform) -> None:
    platform.rows(
        "INSERT INTO fleet.workers (id, host, queues, places, runs, version, labels)"
        " VALUES ('tickets-1', 'x', '{tickets}', 1, (SELECT runs FROM fleet.shape), 'x', '{}')"
    )
    platform.rows("UPDATE fleet.workers SET beat = clock_timestamp() + interval '1 hour' WHERE id = 'tickets-1'")
    try:
        ran = platform.aop(
            "ticket", "scaffold", "SHOP-12", "--json", env={"AOP_DATABASE": user_of(platform, "aop_reader")}
        )
    finally:
        platform.rows("DELETE FROM fleet.workers WHERE id = 'tickets-1'")
    assert (ran.code, ran.json["error"]["code"]) == (2, "database_rights"), ran.out


def test_a_database_that_is_down_is_named_in_every_command(tmp_path: Path) -> None:
    with running_cluster_at("127.0.0.1") as own, platform_in(tmp_path, own.url) as platform:
        platform.feature("search")
        own.stop()
        answers = {words: platform.aop(*words, "--json") for words in COMMANDS}
        own.start()
    assert {words: ran.json["error"]["code"] for words, ran in answers.items()} == dict.fromkeys(
        COMMANDS, "database_unavailable"
    )
    assert [words for words, ran in answers.items() if PASSWORD in ran.out + ran.err] == []


def test_a_user_who_lacks_one_table_is_refused_by_name_when_a_change_begins(platform: Platform) -> None:
    platform.feature("search")
    for sql in (
        f"CREATE ROLE partial LOGIN PASSWORD '{PASSWORD}'",
        "GRANT USAGE ON SCHEMA aop, fleet, dbos TO partial",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA aop TO partial",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA aop TO partial",
        "REVOKE SELECT ON aop.all_writes FROM partial",
    ):
        platform.rows(sql)
    own = {"AOP_DATABASE": platform.url.replace("//aop:", "//partial:")}
    ran = platform.aop("call", "feature.init", json.dumps({"feature_id": "other"}), env=own)
    assert (ran.code, ran.json["error"]["code"]) == (2, "database_rights"), ran.out
