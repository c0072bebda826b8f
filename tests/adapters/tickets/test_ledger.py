"""The ledger of runs: cleanup, and old versions of the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aop.adapters.tickets.ledger import TicketLedger
from aop.core.errors import TicketRunNotFound
from tests.cli.tickets.test_ticket import Place
from tests.tickets.local_worlds import KEY, plain_ids
from tests.world import make_repository, run_aop

OLD, NEW = "2020-01-02T03:04:05.678Z", "2999-01-02T03:04:05.678Z"
FIRST_SHAPE = """
CREATE TABLE runs (
    number INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, ticket TEXT NOT NULL,
    payload TEXT NOT NULL, began TEXT NOT NULL, ended TEXT, state TEXT NOT NULL);
CREATE TABLE steps (
    run_id TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (run_id, name));
INSERT INTO runs VALUES
    (1, 'scaffold-SHOP-12-1', 'scaffold', 'SHOP-12', '{"description": "a secret"}', 'then', 'then', 'failed');
"""


def ended(ledger: TicketLedger, at: str) -> str:
    run_id = ledger.open_run("scaffold", KEY, at)
    ledger.record_step(run_id, "parse", at, {"value": 1})
    ledger.record_end(run_id, at, "scaffolded")
    return run_id


def test_runs_that_ended_long_ago_go_with_gc_and_their_numbers_are_not_used_again(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    ledger = TicketLedger(root / ".aop" / "tickets" / "ledger.db")
    old, new = ended(ledger, OLD), ended(ledger, NEW)
    waiting = ledger.open_run("review", KEY, OLD)
    shown = run_aop(root, "gc")
    assert (shown.code, shown.out) == (3, f"ticket_run  {old}\n")
    assert len(ledger.runs()) == 3
    assert run_aop(root, "gc", "--apply").code == 0
    assert [run["run_id"] for run in ledger.runs()] == [waiting, new]
    with pytest.raises(TicketRunNotFound):
        ledger.run(old)
    assert plain_ids(ledger.open_run("scaffold", KEY, NEW)) == "scaffold-SHOP-12-3"


def test_a_repository_without_tickets_gets_no_ledger_from_gc(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    assert run_aop(root, "gc").code == 0
    assert not (root / ".aop" / "tickets").exists()


def test_a_ledger_of_the_first_shape_forgets_the_tickets_and_counts_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST_SHAPE)
    ledger = TicketLedger(path)
    assert ledger.run("scaffold-SHOP-12-1")["payload"] is None
    opened = ledger.open_run("scaffold", KEY, OLD)
    assert (plain_ids(opened), opened != "scaffold-SHOP-12-2") == ("scaffold-SHOP-12-2", True)


def test_what_was_kept_of_a_run_that_ended_goes_when_the_next_one_begins(tmp_path: Path) -> None:
    place = Place(tmp_path)
    ledger = TicketLedger(place.repo / ".aop" / "tickets" / "ledger.db")
    left = ledger.working_folder / f"{ended(ledger, OLD)}.steps"
    left.parent.mkdir()
    left.write_text("{}\n")
    assert place.aop("scaffold", KEY).code == 0
    assert list(ledger.working_folder.iterdir()) == []


@pytest.mark.hostile("K10")
def test_no_secret_of_a_ticket_or_of_the_environment_is_kept_or_shown(tmp_path: Path) -> None:
    token = "glpat-" + "x1Y2z3A4b5C6d7E8f9G0"
    place = Place(tmp_path, f"The key is {token}, and the word is open-sesame-42.")
    place.aop("scaffold", KEY, GITLAB_TOKEN="open-sesame-42")
    (run,) = place.aop("runs", "--json").json["data"]["runs"]
    shown = place.aop("show", run["run_id"], "--json", GITLAB_TOKEN="open-sesame-42")
    folder = place.repo / ".aop" / "tickets"
    kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for secret in (token, "open-sesame-42"):
        assert (secret in shown.out, secret.encode() in kept) == (False, False)
    assert shown.json["data"]["payload"]["key"] == KEY
    shown = place.aop("show", run["run_id"])
    lines = [line.split("Z  ", 1)[-1] for line in shown.out.splitlines()]
    assert (plain_ids(lines[0]), token in shown.out) == (
        "scaffold-SHOP-12-1: failed (see the comment on the ticket)",
        False,
    )
    assert lines[2:8] == [
        "  ticket: Orders",
        "",
        "parse                   reading the ticket: FAILED: The description has no block `scaffolding`.",
        "                            To fix it: Add one fenced `yaml` block to the ticket's description;"
        " `aop demo tickets --keep` makes an example.",
        "report_failure          commenting on the failure: done",
        "",
    ]
