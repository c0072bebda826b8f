"""The pages of tickets: what a dry run would write, and the steps of the real run; the ledger is the judge."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aop.adapters.tickets.ledger import LEDGER, TicketLedger
from aop.core.errors import Json
from tests.cli.tickets.test_ticket import STEPS, URL, WRITES, Place
from tests.mcpserver.clients import served
from tests.tickets.local_worlds import KEY
from tests.web.pages.page_visits import Browser, visit

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return made_place(tmp_path_factory.mktemp("tickets"))


def made_place(folder: Path) -> Place:
    made = Place(folder)
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    subprocess.run(["git", *identity, "commit", "-qm", "First", "--allow-empty"], cwd=made.repo, check=True)
    subprocess.run(["git", "branch", "-M", "main"], cwd=made.repo, check=True)
    return made


@pytest.fixture(scope="module")
def browser(place: Place) -> Iterator[Browser]:
    with served(place.repo) as server, visit(place.repo, server) as inside:
        yield inside


def test_before_any_run_the_page_says_how_to_begin_and_makes_no_ledger(place: Place, browser: Browser) -> None:
    page = browser.get("/tickets")
    assert "No ticket has been worked on." in page.text
    assert "aop ticket scaffold KEY --dry-run" in page.text
    assert browser.get("/tickets/none").status == 404
    assert not (place.repo / ".aop/tickets/ledger.db").exists()


def test_a_dry_run_shows_the_comments_as_they_will_look_and_then_the_real_command(
    place: Place, browser: Browser
) -> None:
    real = f"For real: aop ticket scaffold {KEY}"
    failed = place.aop("scaffold", KEY, "--dry-run", WORKFLOW_STATE_SUCCESS="Shipped")
    assert failed.code != 0
    page = browser.get("/tickets")
    assert "would fail at move_ticket" in page.text
    assert real not in page.text
    assert place.aop("scaffold", KEY, "--dry-run").code == 0
    page = browser.get("/tickets")
    assert page.html.count('id="dry-') == 1, "the newest dry run takes the place of the one before"
    assert "Scaffolding of `orders` (python-fastapi) started: branch" in page.text
    assert "would work, 7 writes" in page.text
    assert real in page.text
    assert '<summary class="file">src/orders/__init__.py</summary>' in page.html
    assert place.ticket["comments"] == []


def test_a_person_tries_a_ticket_on_the_page_and_nothing_is_written(tmp_path: Path) -> None:
    place = made_place(tmp_path)
    with served(place.repo, **place.env) as server, visit(place.repo, server) as browser:
        form = browser.get("/tickets").form("dry-run")
        wrong = browser.post("/do/dry-run", {**form, "ticket": "--web", "kind": "scaffold"})
        assert "This is not the key of a ticket" in wrong.text
        form = browser.get("/tickets").form("dry-run")
        assert browser.post("/do/dry-run", {**form, "ticket": KEY, "kind": "scaffold"}).status == 303
        assert "would work, 7 writes" in browser.get("/tickets").text
    assert (place.ticket["comments"], place.aop("runs", "--json").json["data"]["runs"]) == ([], [])


def test_a_run_shows_its_steps_and_each_write(place: Place, browser: Browser) -> None:
    run = place.aop("scaffold", KEY, "--json").json["data"]["run"]
    assert f'href="/tickets/{run}"' in browser.get("/tickets").html
    page = browser.get(f"/tickets/{run}")
    assert [name for name in STEPS if f'id="step-{name}"' in page.html] == STEPS
    for name in WRITES:
        section = page.html[page.html.index(f'id="step-{name}"') :]
        assert "wrote" in section[: section.index("</section>")]
    assert URL in page.text
    assert f'href="{URL}"' not in page.html
    assert f"aop ticket show {run}" in page.text


@pytest.mark.hostile("B05", "B06")
def test_texts_of_tickets_and_errors_stay_text(place: Place, browser: Browser) -> None:
    ledger, at = TicketLedger(place.repo / LEDGER), "2026-01-01T00:00:00Z"
    run = ledger.open_run("review", KEY, at)
    ledger.record_ticket(run, {"summary": SCRIPT, "description": f"{SCRIPT} \u202ehidden"})
    ledger.record_step(run, "ask_model", at, {"value": {SCRIPT: [SCRIPT]}})
    wrong: Json = {"code": "remote_rejected", "message": SCRIPT, "details": {"suggested_next_actions": [SCRIPT]}}
    ledger.record_step(run, "publish_review", at, {"error": wrong})
    page = browser.get(f"/tickets/{run}")
    assert page.html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 6
    assert SCRIPT not in page.html
    assert "\u202e" not in page.html
    assert "To fix it:" in page.text
    assert "data-busy" in page.html
    assert f"aop ticket review {KEY}" in page.text
