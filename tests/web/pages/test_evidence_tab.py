"""Evidence on the pages: the chain, its check on request, and the bundle as a download."""

from __future__ import annotations

import hashlib
import io
import sqlite3
import tarfile
from collections.abc import Iterator

import pytest

from tests.mcpserver.clients import Served, served
from tests.web.pages.page_visits import Browser, visit
from tests.world import World

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.fixture
def browser(world: World, server: Served) -> Iterator[Browser]:
    with visit(world.root, server) as inside:
        yield inside


def test_the_chain_is_shown_and_checked_when_a_person_asks(world: World, browser: Browser) -> None:
    world.ready("one")
    page = browser.get("/features/one/evidence")
    assert "gates ran" in page.text
    assert ("intact" in page.text, "data-still" in page.html) == (False, False)
    checked = browser.get("/features/one/evidence?anchor=&verify=now")
    found = world.ok("evidence.verify", feature_id="one")
    anchor = f"{found['head_seq']}:{found['head_hash']}"
    assert f"intact {found['entries']} journal entries, 2 gate runs" in checked.text
    assert (anchor in checked.text, "data-still" in checked.html) == (True, True)
    again = browser.get(f"/features/one/evidence?anchor={anchor}&verify=now")
    assert "intact" in again.text
    assert "This is not an anchor" in browser.get("/features/one/evidence?anchor=7&verify=now").text


def test_a_record_that_another_program_changed_is_named_as_not_proven(world: World, browser: Browser) -> None:
    world.ready("one")
    with sqlite3.connect(world.root / ".aop" / "record.db") as other:
        other.execute("UPDATE journal SET actor = 'person:eve' WHERE seq = 3")
    page = browser.get("/features/one/evidence?verify=now")
    assert page.status == 200
    assert "not proven Entry 3 of the journal was changed after it was written." in page.text
    assert "intact" not in page.text


def test_the_bundle_is_a_download_with_checksums_and_without_secrets(world: World, browser: Browser) -> None:
    world.ready("one", acceptance_criteria=["The file says so", f"never {SECRET}"])
    form = browser.get("/features/one/evidence").form("bundle")
    got = browser.fetch("/do/bundle", form)
    assert (got.status_code, got.headers["content-type"]) == (200, "application/gzip")
    assert got.headers["content-disposition"] == 'attachment; filename="one-evidence.tar.gz"'
    assert "default-src 'none'" in got.headers["content-security-policy"]
    with tarfile.open(fileobj=io.BytesIO(got.content)) as archive:
        files = {each.name: part.read() for each in archive if (part := archive.extractfile(each)) is not None}
    sums = dict(line.split("  ")[::-1] for line in files["one-evidence/SHA256SUMS"].decode().splitlines())
    assert sums == {
        name.removeprefix("one-evidence/"): hashlib.sha256(content).hexdigest()
        for name, content in files.items()
        if not name.endswith("SHA256SUMS")
    }
    assert {"diff.patch", "journal.jsonl", "review.html", "verified.json"} <= sums.keys()
    assert not [name for name, content in files.items() if SECRET.encode() in content]


def test_a_bundle_is_for_a_form_that_was_drawn_for_this_person(world: World, browser: Browser) -> None:
    world.ready("one")
    form = browser.get("/features/one/evidence").form("bundle")
    assert browser.post("/do/bundle", {**form, "form": "x" * 43}).status == 400
    assert browser.post("/do/bundle", form, sec_fetch_site="cross-site").status in (400, 403)
    assert browser.post("/do/bundle", {**form, "feature_id": "no_such"}).status == 400
    assert browser.post("/do/bundle", {**form, "feature_id": ""}).status == 400
    browser.forget()
    assert browser.post("/do/bundle", form).status == 401
