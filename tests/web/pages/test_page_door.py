"""The door of the pages, through a real `aop serve`: who gets in, and what another site or an agent can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from aop.core.roles import Role
from tests.mcpserver.clients import Served, served, token_for
from tests.web.pages.page_visits import Browser, browser_at, link_to, visit
from tests.world import World, make_repository, run_aop


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("pages") / "repo"))
    made.ready("one")
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.fixture
def browser(world: World, server: Served) -> Iterator[Browser]:
    with visit(world.root, server) as inside:
        yield inside


def test_without_a_session_a_page_names_the_command_and_shows_nothing(world: World, server: Served) -> None:
    with browser_at(world.root, server) as stranger:
        for path in ("/", "/board", "/features/one", "/journal"):
            drawn = stranger.get(path)
            assert drawn.status == 401
            assert "aop web" in drawn.text
            assert "merge" not in drawn.text


def test_a_link_lets_one_person_in_once(world: World, server: Served) -> None:
    with browser_at(world.root, server) as browser:
        entered = browser.enter()
        assert (entered.status, entered.headers["location"]) == (303, "/")
        cookie = entered.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "max-age=43200" in cookie
        assert "link" not in entered.headers["location"]
        assert browser.get("/").status == 200
        browser.forget()
        assert browser.enter().status == 403
        assert browser.get("/").status == 401


@pytest.mark.parametrize("link", ["", "nonsense", "aop-page.e30.AAAA", "aop-page." + "A" * 5000 + ".x"])
def test_a_link_that_was_not_made_here_lets_nobody_in(world: World, server: Served, link: str) -> None:
    with browser_at(world.root, server) as browser:
        assert browser.get(f"/enter?link={link}").status == 403


def test_a_session_can_be_revoked_and_is_listed(world: World, server: Served, browser: Browser) -> None:
    listed = run_aop(world.root, "token", "list", "--json").json["data"]["tokens"]
    sessions = [each for each in listed if each["page"] == "cookie" and not each["revoked_at"]]
    assert sessions
    for each in sessions:
        assert run_aop(world.root, "token", "revoke", each["token_id"]).code == 0
    assert browser.get("/").status == 401


def test_neither_an_agents_token_nor_a_link_is_a_session_and_a_session_is_no_token(
    world: World, server: Served, browser: Browser
) -> None:
    name, _, session = browser.cookie.partition("=")
    for text in (token_for(world, Role.ORCHESTRATOR), link_to(world.root).partition("link=")[2].partition("&")[0]):
        with browser_at(world.root, server) as stranger:
            assert stranger.get("/", cookie=f"{name}={text}").status == 401
            assert stranger.get("/", authorization=f"Bearer {text}").status == 401
    used_as_token = httpx2.post(server.url, json={}, headers={"authorization": f"Bearer {session}"}, timeout=60)
    assert used_as_token.status_code == 401


def test_a_session_of_another_repository_opens_nothing(
    tmp_path: Path, world: World, server: Served, browser: Browser
) -> None:
    other = World(make_repository(tmp_path / "other"))
    with served(other.root) as others, browser_at(other.root, others) as stranger:
        name = re.match("[^=]*", stranger.enter().headers["set-cookie"])
        assert name
        stranger.forget()
        text = browser.cookie.partition("=")[2]
        assert stranger.get("/", cookie=f"{name[0]}={text}").status == 401
    other.close()


@pytest.mark.parametrize("path", ["/", "/board", "/features/one", "/journal", "/events?after=0", "/static/x/pages.css"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:80"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}, 403),
    ],
    ids=["host", "origin", "null", "cross-site", "another port", "frame"],
)
@pytest.mark.hostile("B01", "B02", "B11", "B15")
def test_another_site_gets_nothing(browser: Browser, path: str, headers: dict[str, str], status: int) -> None:
    assert browser.get(path, **headers).status == status


@pytest.mark.hostile("B03")
def test_a_form_of_another_site_changes_nothing(world: World, browser: Browser) -> None:
    fields = browser.get("/features/one").form("approve")
    before = world.fingerprint()
    assert browser.post("/do/approve", {**fields, "form": "x"}).status == 400
    assert browser.post("/do/approve", {name: value for name, value in fields.items() if name != "form"}).status == 400
    assert browser.post("/do/approve", fields, sec_fetch_site="cross-site").status in (400, 403)
    assert browser.post("/do/approve", fields, origin="http://evil.example").status == 403
    assert browser.post("/do/approve", fields, content_type="text/plain").status == 415
    assert browser.post("/do/approve", {**fields, "operation_id": ""}).status == 400
    assert browser.post("/do/nothing", fields).status == 404
    assert world.fingerprint() == before


@pytest.mark.hostile("B14")
def test_looking_changes_nothing(world: World, browser: Browser) -> None:
    before = world.fingerprint()
    for path in ("/", "/board", "/features/one", "/journal", "/do/approve", "/do/merge?feature_id=one"):
        browser.get(path)
    assert world.fingerprint() == before


def test_every_answer_forbids_scripts_frames_and_requests_elsewhere(browser: Browser) -> None:
    for path in ("/", "/features/one", "/features/none", "/static/x/pages.js"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.hostile("B09")
@pytest.mark.parametrize("name", ["..%2f..%2fpages%2fdoor.py", "%2e%2e", "pages.css%00", "none.css", "__init__.py"])
def test_a_file_of_the_pages_is_found_by_its_name_alone(browser: Browser, name: str) -> None:
    assert browser.get(f"/static/x/{name}").status == 404


def test_a_page_leads_back_only_to_this_server(world: World, server: Served) -> None:
    for to in ("//evil.example", "http://evil.example", "/\\evil.example", "x"):
        link = link_to(world.root, "--to", to)
        with browser_at(world.root, server) as browser:
            browser.link = link
            assert browser.enter().headers["location"] == "/"


def test_the_server_of_an_agent_lets_no_person_decide(tmp_path: Path) -> None:
    world = World(make_repository(tmp_path / "repo"))
    world.ready("one")
    with served(world.root, AOP_TOKEN="x") as server, visit(world.root, server) as browser:
        assert "Comments are for people, and an agent started this server." in browser.get("/features/one").text
        wanted = {"feature_id": "one", "tree": "0" * 40, "base": "0" * 40}
        refused = browser.post("/do/approve", {**browser.get("/board").form("pause"), **wanted})
        assert "`feature.approve` is for a person" in refused.text
    world.close()


def test_an_agent_gets_no_link(world: World, server: Served) -> None:
    refused = run_aop(world.root, "web", "--print", "--json", env={"AOP_TOKEN": "x"})
    assert refused.json["error"]["code"] == "person_required"
