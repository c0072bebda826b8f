"""What the pages show: what is, and every foreign text as text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aop.core.roles import Role
from aop.web.pages.feature.feature import TABS
from tests.mcpserver.clients import served
from tests.web.pages.page_visits import Browser, visit
from tests.world import World, make_repository

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' autofocus onfocus=alert(1) x='",
    "</textarea><script>alert(1)</script>",
    "{{ 1337 * 7331 }} {% raw %}",
    "javascript:alert(1)",
    "\u202egnp.exe \u200bhidden \x1b[31mred",
)

REPORTS = ("/plan", "/merge", "/errors", "/cost", "/time", "/journal", "/journal/board", "/search?q=alert", "/doctor")
PATHS = ("/", "/board", *REPORTS, "/features/one", *(f"/features/one/{tab}" for tab in TABS[1:]))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("contents") / "repo"))
    made.plan("one", summary=" ".join(PAYLOADS), acceptance_criteria=list(PAYLOADS), risk=list(PAYLOADS))
    made.ok(
        "inbox.ask",
        feature_id="one",
        gate="question",
        text=" ".join(PAYLOADS),
        choices=["yes", '"><script>alert(1)</script>'],
    )
    made.ok("feature.log_append", role=Role.BUILDER, feature_id="one", note=" ".join(PAYLOADS))
    made.init("two")
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(world: World) -> Iterator[Browser]:
    with served(world.root) as server, visit(world.root, server) as inside:
        yield inside


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.hostile("B05", "B06", "B17")
def test_foreign_text_stays_text(browser: Browser, path: str) -> None:
    html = browser.get(path).html
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "onerror=alert(1)>" not in html
    assert "\u202e" not in html
    assert "\u200b" not in html
    assert "\x1b" not in html
    assert str(1337 * 7331) not in html


def test_nothing_is_shown_at_work_without_a_living_process(world: World, browser: Browser) -> None:
    board = browser.get("/board")
    assert "idle" in board.text
    assert "data-busy" not in board.html
    assert "no supervisor" in board.text


def test_an_unknown_feature_or_page_is_named(browser: Browser) -> None:
    assert "There is no feature" in browser.get("/features/none").text
    assert browser.get("/features/one/none").status == 404


def test_a_part_has_no_frame_and_a_page_all_of_it(browser: Browser) -> None:
    part, page = browser.get("/board", aop_part="main"), browser.get("/board")
    assert "<main" in part.html
    assert "<script" not in part.html
    assert page.html.count("<script") == 1


def test_the_journal_is_paged_and_masks_secrets(world: World, browser: Browser) -> None:
    secret = "ghp_" + "Zk3vX9qLmT7rB2wYc8NdF5hJ1sPaG4eUoV6i"
    for number in range(120):
        world.ok("feature.log_append", role=Role.BUILDER, feature_id="two", note=f"{number} {secret}")
    first = browser.get("/journal")
    assert secret not in first.html
    assert 'href="/journal?before=' in first.html
    older = browser.get("/journal?before=20")
    assert 'id="e19"' in older.html
    assert 'id="e20"' not in older.html
    assert browser.get("/journal?before=x").status == 200
