"""`aop run --web`: the board opens in the browser, and notifications link to their rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.adapters.reporting.web_hooks import listening
from tests.cli.shops import Shop, error_of
from tests.mcpserver.clients import served
from tests.racing import until
from tests.web.pages.page_visits import entered, visit

POLICY = """\
version: 1
notifications:
  targets:
    hook: {type: webhook, url_env: HOOK_URL, secret_env: HOOK_KEY}
"""


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """Make a browser that writes down what it is to open."""
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {tmp_path / "opened"}\n')
    program.chmod(0o755)
    return tmp_path / "opened"


def test_a_run_opens_its_board_and_its_questions_link_to_their_rows(tmp_path: Path, opened: Path) -> None:
    shop = Shop(tmp_path, policy=POLICY)
    shop.wants("asks_me")
    with listening() as listener:
        env = {**shop.env, "BROWSER": f"{tmp_path / 'browser'} %s", "HOOK_URL": listener.url, "HOOK_KEY": "k"}
        ran = shop.run("-fl", str(shop.specs), "--web", "--wait", env=env)
        listener.await_heard(1)
    try:
        link = opened.read_text()
        with entered(link) as browser:
            assert link.endswith("&to=%2Fboard")
            assert "asks_me" in browser.get("/board").text
            [told] = [json.loads(each.body) for each in listener.heard]
            address, _, row = told["url"].partition("#")
            assert address == f"{browser.origin}/"
            assert f'id="{row}"' in browser.get("/").html
            assert "link" not in told["url"]
        assert ran.code == 4, ran.err
    finally:
        assert shop.aop("web", "--stop").code == 0


def test_a_run_of_an_agent_opens_no_pages_and_changes_nothing(tmp_path: Path, opened: Path) -> None:
    shop = Shop(tmp_path)
    shop.wants("one")
    env = {**shop.env, "BROWSER": f"{tmp_path / 'browser'} %s", "AOP_TOKEN": "x"}
    ran = shop.run("-fl", str(shop.specs), "--web", "--wait", "--json", env=env)
    assert error_of(ran)["code"] == "person_required"
    assert not opened.exists()
    assert not (shop.root / "agentic/features").exists()


def test_changes_that_are_asked_for_after_a_run_are_made_by_a_run_that_the_page_starts(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.wants("one")
    assert shop.all_at_once().code == 0
    patches = shop.events()["patch_applied", "one"]
    with served(shop.root, **shop.env) as server, visit(shop.root, server) as browser:
        asked = browser.get("/features/one").form("request-changes")
        assert browser.post("/do/request-changes", {**asked, "text": "Say it louder."}).status == 303
        page = browser.get("/features/one")
        assert "No run is going on, so no agent works on it." in page.text
        assert browser.post("/do/start-run", {**page.form("start-run"), "form": "x"}).status == 400
        assert not shop.is_supervised()
        assert browser.post("/do/start-run", page.form("start-run")).status == 303
        until(lambda: shop.events()["patch_applied", "one"] > patches)
        shop.until_supervisor_ended()
    assert shop.statuses() == {"one": "ready_to_merge"}
    assert shop.events()["run_began", "None"] == 2


def test_a_run_that_cannot_start_is_refused_on_the_page_with_the_reason_of_the_command(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.wants("one")
    assert shop.all_at_once().code == 0
    with served(shop.root) as server, visit(shop.root, server) as browser:
        form = browser.get("/board").form("start-run")
        refused = browser.post("/do/start-run", form)
        assert refused.status != 303
        assert "AOP_CUSTOM_AGENT" in refused.text
    with served(shop.root, AOP_TOKEN="x") as server, visit(shop.root, server) as browser:
        page = browser.get("/board")
        assert ('action="/do/start-run"' in page.html, "aop resume" in page.text) == (False, True)
        drawn = {**form, "form": page.form("add-spec")["form"]}
        assert "is for a person" in browser.post("/do/start-run", drawn).text
    assert not shop.is_supervised()
