"""The pages of contracts: text, outline, versions, differences, and drift of the code."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from html import unescape

import pytest

from aop.forge.contracts.outline import outline_of
from aop.forge.contracts.types import CONTRACT_TYPES, ContractType
from tests.forge.broker.shelves import edit, shelve
from tests.forge.sample_contracts import CONTRACTS
from tests.mcpserver.clients import served
from tests.web.pages.page_visits import Browser, visit
from tests.world import World, make_repository

HOSTILE = "\n\n<script>alert(1)</script> [go](javascript:alert(1)) \u202ehidden\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("contracts") / "repo"))
    made.ok("forge.project_new", name="Empty")
    shelve(made, "shop")
    edit(made, "shop", ContractType.MANIFESTO, CONTRACTS[ContractType.MANIFESTO] + HOSTILE)
    odd = CONTRACTS[ContractType.PHYSICS].replace("/members:", "/members;id:")
    shelve(made, "barn", {**CONTRACTS, ContractType.PHYSICS: odd})
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(world: World) -> Iterator[Browser]:
    with served(world.root) as server, visit(world.root, server) as inside:
        yield inside


def test_every_project_has_its_nine_contracts_or_the_next_command(browser: Browser) -> None:
    page = browser.get("/contracts")
    for name in CONTRACT_TYPES:
        assert f'href="/contracts/shop/{name}"' in page.html
    assert "aop forge check shop" in page.text
    assert "aop forge ask empty" in page.text
    assert "aop forge check empty" not in page.text
    one = browser.get("/contracts/shop")
    assert "aop forge ask empty" not in one.text
    assert browser.get("/contracts/none").status == 404


@pytest.mark.parametrize("name", CONTRACT_TYPES)
def test_a_contract_is_shown_as_text_with_each_section_of_its_outline(browser: Browser, name: ContractType) -> None:
    text = CONTRACTS[name]
    page = browser.get(f"/contracts/shop/{name}")
    assert text.strip() in unescape(page.html)
    for row in outline_of(name, text):
        assert f">{row.section}</a>" in unescape(page.html)
    wanted = outline_of(name, text)[-1].section
    section = browser.get(f"/contracts/shop/{name}?section={wanted.replace('#', '%23')}")
    assert section.status == 200
    assert "the whole contract" in section.text
    assert browser.get(f"/contracts/shop/{name}?section=no-such-section").status == 400


@pytest.mark.hostile("B05", "B06")
def test_versions_are_compared_and_foreign_text_stays_text(browser: Browser) -> None:
    page = browser.get("/contracts/shop/manifesto")
    for query in ("", "?before=1&after=2"):
        page = browser.get(f"/contracts/shop/manifesto{query}")
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.html
        assert "\u202e" not in page.html
        assert 'href="javascript' not in page.html
    assert '<tr class="a">' in page.html
    assert "aop forge diff shop manifesto 1 2" in page.text
    first = browser.get("/contracts/shop/manifesto?version=1")
    assert "version 1 of 2" in first.text
    assert "alert(1)" not in first.text
    assert browser.get("/contracts/shop/manifesto?version=9").status == 400
    assert browser.get("/contracts/shop/manifesto?version=x").status == 400
    assert browser.get("/contracts/shop/none").status == 404


def test_drift_is_what_the_check_says_of_the_newest_commit(world: World, browser: Browser) -> None:
    report = world.ok("forge.check", project_id="barn")
    page = browser.get("/contracts/barn/drift")
    assert report["commit"][:12] in page.text
    assert f"{report['violated']} violated" in page.text
    open_clauses = [each["clause"] for each in report["clauses"] if each["verdict"] in ("violated", "unknown")]
    assert "physics.post./members;id" in open_clauses
    for each in open_clauses:
        assert f"aop forge check barn --accept {shlex.quote(each)}" in page.text
    assert "data-still" in page.html
    assert browser.get("/contracts/empty/drift").status in (400, 404, 409)
