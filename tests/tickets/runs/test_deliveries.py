"""Deliveries and the pool of runners: full disks, crashes, two servers, order and limit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette

from aop.adapters.storage.run_files import RunFiles
from aop.adapters.tickets.ledger import TicketLedger
from aop.adapters.tickets.loop_thread import BackgroundLoop
from aop.core.errors import WebhookQueueFull
from aop.testing.scripted_model import ScriptedModel
from aop.tickets.ports import Ticket
from aop.tickets.runs.deliveries import AcceptedDelivery, accept_delivery
from aop.tickets.runs.pool import RunnerPool
from aop.tickets.steps import Desk
from aop.tickets.webhook_deliveries import DeliveryRules, IgnoredDelivery, TicketRequest
from aop.web.webhooks import DeliveryRuns, WebhookIntake, webhook_routes
from tests.racing import until
from tests.tickets.local_worlds import plain_ids
from tests.tickets.scaffold.test_pipeline import SETTINGS, Around, desk_of
from tests.tickets.webhook_worlds import SCAFFOLD, SECRET, delivery

KEYS = [f"MANY-{number}" for number in range(1, 7)]
SECONDS = 50.0


class Unreadable(Around):
    """A tracker whose tickets have no block: the shortest run that there is."""

    def __init__(self) -> None:
        super().__init__()
        self.commented: list[str] = []

    async def get_ticket(self, key: str) -> Ticket:
        return Ticket(key=key, summary="Orders", description="Nothing.", status="To Do")

    async def add_comment(self, key: str, text: str, *, marker: str) -> None:
        self.commented.append(key)


def taken(ledger: TicketLedger, key: str, *, sent: int = 0, most: int = 100) -> AcceptedDelivery | IgnoredDelivery:
    name = f"{key} {sent}"
    return accept_delivery(
        ledger, "scaffold", TicketRequest(key=key, sent=sent), [name], at="2026-01-02", most_waiting=most
    )


@contextmanager
def working(ledger: TicketLedger, around: Unreadable, *, at_once: int = 1) -> Iterator[list[str]]:
    """Have a server's workers, and what they say."""
    said: list[str] = []

    @contextmanager
    def desk(_kind: str) -> Iterator[Desk]:
        yield msgspec.structs.replace(desk_of(around, ScriptedModel([]), SETTINGS), ledger=ledger)

    pool = RunnerPool(ledger, RunFiles(ledger.working_folder), desk, BackgroundLoop(), at_once=at_once, log=said.append)
    pool.start()
    try:
        yield said
    finally:
        pool.close()


def posted(ledger: TicketLedger, submitted: list[str], key: str = KEYS[0]) -> tuple[int, Any]:
    """Deliver to a server of this process, whose workers are a list."""
    runs = DeliveryRuns(ledger=ledger, submit=lambda _kind, run_id, _key: submitted.append(run_id), refusals={})
    intake = WebhookIntake(
        secret=SECRET, rules={"scaffold": DeliveryRules(trigger_state="In Progress")}, most_waiting=999,
        runs_of=lambda _key: runs, now=lambda: "2026-01-02",
    )  # fmt: skip
    headers = [(b"content-type", b"application/json"), (b"x-api-key", SECRET.encode())]
    scope = {"type": "http", "method": "POST", "path": SCAFFOLD, "headers": headers, "query_string": b""}
    answers: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": delivery(key), "more_body": False}

    async def send(message: Any) -> None:
        answers.append(message)

    asyncio.run(Starlette(routes=webhook_routes(intake))(scope, receive, send))
    return answers[0]["status"], json.loads(answers[1]["body"])


def test_what_was_accepted_and_never_handed_on_is_handed_on_when_it_is_delivered_again(tmp_path: Path) -> None:
    ledger, lost, submitted = TicketLedger(tmp_path / "ledger.db"), list[str](), list[str]()
    answer = posted(ledger, lost)
    run_id = ledger.active()[0][2]
    assert answer == (202, {"status": "accepted", "run_id": run_id})
    assert posted(ledger, submitted) == (202, {"status": "duplicate", "run_id": run_id})
    ledger.record_end(ledger.active()[0][2], "2026-01-03", "failed")
    assert posted(ledger, submitted) == (202, {"status": "duplicate", "run_id": run_id})
    assert (lost, submitted) == ([run_id], [run_id])


def test_a_delivery_that_a_full_disk_does_not_take_is_not_accepted_and_is_taken_later(tmp_path: Path) -> None:
    ledger, submitted = TicketLedger(tmp_path / "ledger.db"), list[str]()
    with ledger.held_open():
        held: Any = ledger._held
        pages = held.execute("PRAGMA page_count").fetchone()[0]
        held.execute(f"PRAGMA max_page_count = {pages}").fetchone()
        answers = [posted(ledger, submitted, "MANY-1")]
        while answers[-1][0] == 202:
            answers.append(posted(ledger, submitted, f"MANY-{len(answers) + 1}"))
        assert (answers[-1][0], answers[-1][1]["error"]["code"]) == (503, "webhook_not_kept")
        assert len(ledger.runs()) == len(submitted) == len(answers) - 1
        held.execute("PRAGMA max_page_count = 100000").fetchone()
        assert posted(ledger, submitted, f"MANY-{len(answers)}")[1]["status"] == "accepted"


def test_two_servers_of_one_repository_work_on_each_run_once(tmp_path: Path) -> None:
    path, around = tmp_path / "ledger.db", Unreadable()
    ledger = TicketLedger(path)
    for key in KEYS:
        taken(ledger, key)
    with working(ledger, around, at_once=2), working(TicketLedger(path), around, at_once=2):
        until(lambda: not ledger.active(), seconds=SECONDS)
    assert sorted(around.commented) == KEYS


def test_runs_are_worked_on_in_the_order_in_which_they_were_accepted(tmp_path: Path) -> None:
    ledger, around = TicketLedger(tmp_path / "ledger.db"), Unreadable()
    for key in reversed(KEYS):
        taken(ledger, key)
    with working(ledger, around):
        until(lambda: not ledger.active(), seconds=SECONDS)
    assert around.commented == KEYS[::-1]


def test_a_run_that_cannot_be_kept_stays_for_later_and_does_not_stop_the_others(tmp_path: Path) -> None:
    ledger, around = TicketLedger(tmp_path / "ledger.db"), Unreadable()
    for key in KEYS[:3]:
        taken(ledger, key)
    # Where the first run is to be kept, there is no place.
    place = ledger.working_folder / f"{ledger.active()[0][2]}.steps"
    place.mkdir(parents=True)
    with working(ledger, around) as said:
        until(lambda: len(ledger.active()) == 1 and len(said) == 3, seconds=SECONDS)
    assert (around.commented, ledger.active()[0][1]) == (KEYS[1:3], KEYS[0])
    place.rmdir()
    with working(ledger, around):
        until(lambda: not ledger.active(), seconds=SECONDS)
    assert around.commented[-1] == KEYS[0]


@pytest.mark.hostile("W10", "W11")
def test_the_limit_counts_runs_and_an_older_delivery_opens_none(tmp_path: Path) -> None:
    ledger = TicketLedger(tmp_path / "ledger.db")
    assert taken(ledger, "SHOP-1", sent=10, most=1) == AcceptedDelivery(status="accepted", run_id=ledger.active()[0][2])
    with pytest.raises(WebhookQueueFull):
        taken(ledger, "SHOP-2", sent=10, most=1)
    # Another delivery of a ticket that waits already asks for nothing more; an older one says nothing new.
    assert taken(ledger, "SHOP-1", sent=11, most=1) == AcceptedDelivery(status="running", run_id=ledger.active()[0][2])
    assert isinstance(taken(ledger, "SHOP-1", sent=9, most=1), IgnoredDelivery)
    ledger.record_end(ledger.active()[0][2], "2026-01-03", "failed")
    assert isinstance(taken(ledger, "SHOP-1", sent=9, most=1), IgnoredDelivery)
    assert taken(ledger, "SHOP-2", sent=10, most=1) == AcceptedDelivery(status="accepted", run_id=ledger.active()[0][2])
    assert [plain_ids(run["run_id"]) for run in ledger.runs()] == ["scaffold-SHOP-2-1", "scaffold-SHOP-1-1"]
