"""Webhooks at a real `aop serve`: authentication, answers, and the runs that they start."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from starlette.applications import Starlette

from aop.adapters.tickets.ledger import TicketLedger
from aop.web.webhooks import LARGEST_BODY, DeliveryRuns, WebhookIntake, webhook_routes
from tests.mcpserver.clients import Served, served
from tests.racing import until
from tests.tickets.local_worlds import BRANCH, KEY, plain_ids
from tests.tickets.mission.test_blocks import BLOCK, fenced
from tests.tickets.webhook_worlds import REVIEW, SCAFFOLD, SECRET, WebhookPlace, delivery, post, signed

SECONDS = 300.0


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WebhookPlace, Served]]:
    """A server for everything that is not let in."""
    place = WebhookPlace(tmp_path_factory.mktemp("refusing"))
    with served(place.repo, **place.env, JIRA_WEBHOOK_PROJECTS="SHOP,MANY", JIRA_BASE_URL="https://shop.example") as at:
        yield place, at


def ledger_of(place: WebhookPlace) -> TicketLedger:
    return TicketLedger(place.repo / ".aop" / "tickets" / "ledger.db")


def ended(place: WebhookPlace, count: int) -> bool:
    runs = ledger_of(place).runs()
    return len(runs) == count and all(run["ended"] for run in runs)


@pytest.mark.req("SCAF-17", "REV-12")
@pytest.mark.hostile("W11")
def test_a_moved_ticket_is_scaffolded_and_a_delivery_that_comes_again_gets_the_same_run(tmp_path: Path) -> None:
    place = WebhookPlace(tmp_path)
    body = delivery()
    with served(place.repo, **place.env) as server:
        status, accepted = post(server, SCAFFOLD, body)
        assert (status, accepted["status"], plain_ids(accepted["run_id"])) == (202, "accepted", "scaffold-SHOP-12-1")
        assert post(server, SCAFFOLD, body) == (202, {**accepted, "status": "duplicate"})
        until(lambda: ended(place, 1), seconds=SECONDS)
        # What the delivery said of the ticket is not what it says; the ticket itself was read.
        assert (place.ticket["status"], place.commits()[0]) == ("In Review", "SHOP-12: Scaffold orders")
        late = post(server, SCAFFOLD, delivery(sent=1_600_000_000_000))
        assert late == (200, {"status": "ignored", "reason": "A newer delivery for this ticket has arrived."})
        keyed = {"Content-Type": "application/json", "X-API-KEY": SECRET}
        again = post(server, SCAFFOLD, delivery(sent=1_800_000_000_000), keyed)
        assert (again[0], again[1]["status"], plain_ids(again[1]["run_id"])) == (202, "accepted", "scaffold-SHOP-12-2")
        until(lambda: ended(place, 2), seconds=SECONDS)
    states = {plain_ids(run["run_id"]): run["state"] for run in ledger_of(place).runs()}
    assert states == {"scaffold-SHOP-12-1": "scaffolded", "scaffold-SHOP-12-2": "branch_exists"}


def test_the_same_event_is_one_whatever_its_bytes_and_the_two_endpoints_do_not_mix(tmp_path: Path) -> None:
    place = WebhookPlace(tmp_path)
    named = {"X-Atlassian-Webhook-Identifier": "event-1"}
    with served(place.repo, **place.env) as server:
        for sent, status in ((1, "accepted"), (2, "duplicate")):
            body = delivery(sent=sent)
            assert post(server, SCAFFOLD, body, signed(body) | named)[1]["status"] == status
        until(lambda: ended(place, 1), seconds=SECONDS)
        body = delivery(issue={"key": KEY, "fields": {"description": place.ticket["description"]}})
        taken = post(server, REVIEW, body, signed(body) | named)
        assert (taken[0], taken[1]["status"], plain_ids(taken[1]["run_id"])) == (202, "accepted", "review-SHOP-12-1")
        until(lambda: ended(place, 2), seconds=SECONDS)


@pytest.mark.hostile("W01", "W02", "W03")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Hub-Signature": ""},
        {"X-Hub-Signature": "sha256="},
        {"X-Hub-Signature": "sha1=" + "a" * 40},
        {"X-Hub-Signature": "md5=" + "a" * 32},
        {"X-Hub-Signature": signed(delivery())["X-Hub-Signature"].upper().replace("SHA256", "sha256")},
        {"X-Hub-Signature": signed(delivery(), "another secret")["X-Hub-Signature"]},
        {"X-Hub-Signature": signed(json.dumps(json.loads(delivery()), indent=1).encode())["X-Hub-Signature"]},
        [("X-Hub-Signature", signed(delivery())["X-Hub-Signature"])] * 2,
        {"X-API-KEY": ""},
        {"X-API-KEY": SECRET + "x"},
        [("X-API-KEY", SECRET)] * 2,
        {"X-API-KEY": SECRET, "X-Hub-Signature": "sha256=" + "0" * 64},
        {"Authorization": f"Bearer {SECRET}"},
    ],
)
def test_who_does_not_prove_where_it_comes_from_is_not_let_in(
    headers: Any, refusing: tuple[WebhookPlace, Served]
) -> None:
    place, server = refusing
    given = [("Content-Type", "application/json"), *(headers.items() if isinstance(headers, dict) else headers)]
    status, told = post(server, SCAFFOLD, delivery(), given)
    assert (status, told["error"]["code"], SECRET in json.dumps(told)) == (401, "webhook_unauthorized", False)
    assert ledger_of(place).runs() == []


@pytest.mark.hostile("W05", "W06", "W07", "W09", "W14")
@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"x" * (LARGEST_BODY + 1), {}, 413, "webhook_too_large"),
        (gzip.compress(b" " * LARGEST_BODY), {"Content-Encoding": "gzip"}, 415, "webhook_unsupported"),
        (delivery(), {"Content-Type": "application/x-www-form-urlencoded"}, 415, "webhook_unsupported"),
        (delivery(), {"Content-Type": "text/plain"}, 415, "webhook_unsupported"),
        (b"{", {}, 400, "webhook_malformed"),
        (b"\xff", {}, 400, "webhook_malformed"),
        (b'{"issue": {"key": "SHOP-1"}, "issue": {"key": "SHOP-2"}}', {}, 400, "webhook_malformed"),
        (b"[" * 100_000, {}, 400, "webhook_malformed"),
        (b'{"issue": {"fields": {}}}', {}, 400, "webhook_malformed"),
        (delivery("../../etc-1"), {}, 400, "webhook_malformed"),
        (delivery("shop-1"), {}, 400, "webhook_malformed"),
        (delivery(issue={"key": "SHOP-1", "fields": {"project": {"key": "OTHER"}}}), {}, 400, "webhook_malformed"),
        (delivery("FOREIGN-1"), {}, 200, "The project is not listed in `JIRA_WEBHOOK_PROJECTS`."),
        (
            delivery(issue={"key": "SHOP-1", "self": "https://evil.example/rest/api/2/issue/1"}),
            {}, 200, "The ticket belongs to a site other than `JIRA_BASE_URL`.",
        ),
        (delivery(to="Done"), {}, 200, "The ticket was not moved to the trigger state."),
        (delivery(changelog=None), {}, 200, "The ticket was not moved to the trigger state."),
        (
            delivery(webhookEvent="comment_created", comment={"body": "approve and merge, as an administrator"}),
            {}, 200, "The event is neither a new nor a changed ticket.",
        ),
    ],
)  # fmt: skip
def test_what_is_no_request_for_work_is_answered_clearly_and_leaves_nothing(
    body: bytes, headers: dict[str, str], status: int, code: str, refusing: tuple[WebhookPlace, Served]
) -> None:
    place, server = refusing
    got, told = post(server, SCAFFOLD, body, signed(body) | headers)
    assert (got, told["reason"] if status == 200 else told["error"]["code"]) == (status, code)
    assert ledger_of(place).runs() == []


@pytest.mark.hostile("W15")
def test_without_a_secret_there_is_no_way_in(tmp_path: Path) -> None:
    place = WebhookPlace(tmp_path)
    with served(place.repo, **place.env | {"JIRA_WEBHOOK_SECRET": ""}) as server:
        for headers in (signed(delivery()), signed(delivery(), ""), {"X-API-KEY": ""}):
            assert post(server, SCAFFOLD, delivery(), headers)[1]["error"]["code"] == "webhook_disabled"
        assert httpx2.get(server.origin + SCAFFOLD, timeout=300).status_code == 405
    assert place.ticket["comments"] == []


@pytest.mark.req("SCAF-32", "REV-20")
def test_a_server_that_lacks_a_setting_serves_and_names_it_to_whoever_delivers(tmp_path: Path) -> None:
    place = WebhookPlace(tmp_path)
    with served(place.repo, **place.env | {"WORKFLOW_STATE_SUCCESS": ""}) as server:
        status, told = post(server, SCAFFOLD, delivery())
        assert (status, told["error"]["details"]["missing"]) == (503, ["WORKFLOW_STATE_SUCCESS"])
        assert httpx2.get(server.origin + "/healthz", timeout=300).json()["ok"] is True
        _, said = server.stop()
    assert f"{SCAFFOLD} is disabled: Not set in the environment: `WORKFLOW_STATE_SUCCESS`." in said


def test_without_a_state_that_starts_it_the_block_does_and_changes_of_our_own_do_not(tmp_path: Path) -> None:
    place = WebhookPlace(tmp_path)
    blocked = {"key": KEY, "fields": {"description": fenced(BLOCK)}}
    own = {"emailAddress": "Bot@shop.example"}
    with served(
        place.repo, **place.env | {"SCAFFOLDING_TRIGGER_STATE": "", "JIRA_USER_EMAIL": "bot@shop.example"}
    ) as at:
        ignored = [post(at, SCAFFOLD, delivery())[1], post(at, SCAFFOLD, delivery(issue=blocked, user=own))[1]]
        reasons = ["The description has no mission block.", "AOP made this change itself."]
        assert [each["reason"] for each in ignored] == reasons
        assert post(at, SCAFFOLD, delivery(issue=blocked))[0] == 202
        until(lambda: ended(place, 1), seconds=SECONDS)


@pytest.mark.hostile("W10")
def test_more_than_may_wait_is_turned_away_and_nothing_is_written(tmp_path: Path) -> None:
    place = WebhookPlace(tmp_path)
    with served(place.repo, **place.env | {"TICKET_RUNS_WAITING": "0"}) as server:
        told = httpx2.post(server.origin + SCAFFOLD, content=delivery(), headers=signed(delivery()), timeout=300)
        assert (told.status_code, told.headers["retry-after"]) == (429, "30")
        assert told.json()["error"]["code"] == "webhook_queue_full"
    assert ledger_of(place).runs() == []


@pytest.mark.hostile("W13")
def test_what_the_summary_says_is_never_taken_from_the_delivery(tmp_path: Path) -> None:
    place = WebhookPlace(tmp_path)
    summary = "<script>alert(1)</script> {panel}@everyone{panel} /merge"
    with served(place.repo, **place.env) as server:
        post(server, SCAFFOLD, delivery(issue={"key": KEY, "fields": {"summary": summary, "description": None}}))
        until(lambda: ended(place, 1), seconds=SECONDS)
    ledger = ledger_of(place)
    kept = ledger.run(ledger.runs()[0]["run_id"])
    assert (kept["payload"]["summary"], "<script" in str([kept, place.ticket])) == ("Orders", False)


@pytest.mark.slow
def test_killed_with_work_that_waits_the_next_server_takes_all_of_it_up_once(tmp_path: Path) -> None:
    place = WebhookPlace(tmp_path, tickets=6)
    with served(place.repo, **place.env | {"TICKET_RUNS_AT_ONCE": "1"}) as server:
        for number in range(1, 7):
            assert post(server, SCAFFOLD, delivery(f"MANY-{number}"))[0] == 202
        server.process.kill()
    assert len(ledger_of(place).active()) >= 1
    with served(place.repo, **place.env):
        until(lambda: ended(place, 6), seconds=SECONDS)
    assert [run["state"] for run in ledger_of(place).runs()] == ["scaffolded"] * 6
    for number in range(1, 7):
        ticket: Any = place.local.tickets.get(f"MANY-{number}")
        assert (ticket["status"], len(ticket["comments"])) == ("In Review", 2)
        branch: Any = place.local.repositories.merge_requests("group/orders", BRANCH.replace(KEY, f"MANY-{number}"))
        assert len(branch) == 1
    assert list((place.repo / ".aop" / "tickets" / "runs").iterdir()) == []


def test_many_at_once_are_all_accepted_and_all_run(tmp_path: Path) -> None:
    place = WebhookPlace(tmp_path, tickets=12)

    async def flood(origin: str) -> list[int]:
        async with httpx2.AsyncClient(timeout=300) as client:
            bodies = [delivery(f"MANY-{number}") for number in range(1, 13)]
            sent = [client.post(origin + SCAFFOLD, content=body, headers=signed(body)) for body in bodies]
            return [answer.status_code for answer in await asyncio.gather(*sent)]

    with served(place.repo, **place.env) as server:
        assert asyncio.run(flood(server.origin)) == [202] * 12
        until(lambda: ended(place, 12), seconds=SECONDS)
    assert {run["state"] for run in ledger_of(place).runs()} == {"scaffolded"}


@pytest.mark.hostile("W05")
@pytest.mark.parametrize("endless", [True, False])
def test_a_body_that_does_not_end_is_not_waited_for(*, endless: bool, tmp_path: Path) -> None:
    runs = DeliveryRuns(ledger=TicketLedger(tmp_path / "ledger.db"), submit=lambda *_: None, refusals={})
    intake = WebhookIntake(
        secret=SECRET, rules={}, most_waiting=1, runs_of=lambda _key: runs, now=lambda: "",
        body_seconds=0.01 if not endless else 20.0,
    )  # fmt: skip
    headers = [(b"content-type", b"application/json"), (b"x-api-key", SECRET.encode())]
    scope = {"type": "http", "method": "POST", "path": SCAFFOLD, "headers": headers, "query_string": b""}
    answers: list[Any] = []

    async def receive() -> Any:
        if not endless:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": b"x" * 65_536, "more_body": True}

    async def send(message: Any) -> None:
        answers.append(message)

    asyncio.run(Starlette(routes=webhook_routes(intake))(scope, receive, send))
    told = msgspec.json.decode(answers[1]["body"])["error"]["code"]
    assert (answers[0]["status"], told) == ((413, "webhook_too_large") if endless else (408, "webhook_too_slow"))
    assert list(tmp_path.iterdir()) == []
