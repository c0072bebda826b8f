"""The pages of builds: what a build is at, its question, errors, notes and seal, and what people do about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forge.builds.built import Built
from tests.forge.builds.cycles import begun, coder, commit, cycle_of
from tests.mcpserver.clients import served
from tests.web.pages.page_visits import Browser, visit
from tests.world import World, make_repository

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("builds") / "repo"))
    begun(made)
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(world: World) -> Iterator[Browser]:
    with served(world.root) as server, visit(world.root, server) as inside:
        yield inside


def ask(world: World, question: str, **more: Any) -> str:
    answer = world.app.gateway.call(coder("shop-b1"), "forge_ask_clarification", {"question": question, **more})
    assert answer.ok, answer.error
    return str(answer.data["question_id"])


def answers(world: World) -> dict[str, str]:
    return {each["question_id"]: each["answer"] for each in world.ok("inbox.list", answered=True)["questions"]}


@pytest.mark.req("FORGE-166", "FORGE-168")
@pytest.mark.hostile("B05")
def test_a_question_is_a_card_with_chips_and_a_way_to_let_the_model_decide(world: World, browser: Browser) -> None:
    first = ask(world, f"Which currency? {SCRIPT}", context="Prices are shown.", options=["EUR", "USD"])
    page = browser.get("/builds/shop-b1")
    card = page.html[page.html.index('class="panel ask"') :]
    card = card[: card.index("</section>")]
    assert "<b>Which currency? &lt;script&gt;alert(1)&lt;/script&gt;</b>" in card
    assert '<p class="sub said">Prices are shown.</p>' in card
    assert [word for word in ("EUR", "USD") if f'<button class="chip">{word}</button>' in card] == ["EUR", "USD"]
    assert card.count("Let AI decide") == 1, "the option stands there once, as the button that skips"
    assert page.html.index('class="panel ask"') < page.html.index('class="amber"')
    assert browser.post("/do/answer", page.form("answer", 1)).status == 303
    second = ask(world, "Which flour?")
    page = browser.get("/builds/shop-b1")
    assert "Skip — let AI decide" in page.text
    assert browser.post("/do/answer", page.form("answer", 0)).status == 303
    assert answers(world) == {first: "USD", second: "Let AI decide"}


@pytest.mark.req("FORGE-165", "FORGE-167")
def test_a_pending_question_is_said_in_the_header_and_answered_in_words(world: World, browser: Browser) -> None:
    assert "awaiting input" not in browser.get("/builds/shop-b1").text
    question = ask(world, "Which name?")
    page = browser.get("/builds/shop-b1")
    assert "awaiting input" in page.text
    assert 'placeholder="Type your answer or choose an option above…" autofocus' in page.html
    assert "/do/interject" not in page.html
    words = {**page.form("answer", 1), "answer": "Corner shop"}
    for _double_click in range(2):
        assert browser.post("/do/answer", words).status == 303
    assert answers(world)[question] == "Corner shop"
    page = browser.get("/builds/shop-b1")
    assert page.text.count("↳ You answered: Corner shop") == 1
    assert "awaiting input" not in page.text


@pytest.mark.req("FORGE-200")
def test_the_header_has_branch_baseline_commits_and_status(world: World, browser: Browser) -> None:
    assert commit(world).ok
    cycle, page = cycle_of(world), browser.get("/builds/shop-b1")
    header = page.html[page.html.index('<div class="top">') : page.html.index("</div>", page.html.index("<h1>"))]
    assert f">{cycle.branch}</span>" in header
    assert f">{cycle.baseline_sha[:8]}</b>" in header
    assert "<b>1</b> [forge] commit" in header
    assert ">active</span>" in header
    changes = browser.get("/builds/shop-b1/changes")
    assert "made.txt" in changes.text
    assert "[forge] Make it" in changes.text


@pytest.mark.req("FORGE-187", "FORGE-188")
def test_errors_are_counted_in_their_tab_and_dismissed(world: World, browser: Browser) -> None:
    seen = {"message": f"assert 1 == 2 {SCRIPT}", "phase": 0, "file_path": "src/a.py", "source": "test"}
    world.ok("forge.error_track", build_id="shop-b1", errors=[seen, seen, {"message": "boom", "severity": "fatal"}])
    page = browser.get("/builds/shop-b1/errors")
    assert "Errors (2 unresolved)" in page.text
    assert "phase 0 · src/a.py \u00d72" in page.text
    assert SCRIPT not in page.html
    assert page.html.count('action="/do/dismiss-error"') == 1, "one that ended the build cannot be dismissed"
    assert 'aria-label="fatal"' in page.html
    assert browser.post("/do/dismiss-error", page.form("dismiss-error")).status == 303
    page = browser.get("/builds/shop-b1/errors")
    assert "Errors (1 unresolved)" in page.text
    resolved = page.html[page.html.index('<details id="resolved">') :]
    assert "assert 1 == 2" in resolved
    assert ">dismissed</span>" in resolved


@pytest.mark.req("FORGE-218")
def test_the_notepad_is_saved_counted_and_emptied(world: World, browser: Browser) -> None:
    page = browser.get("/builds/shop-b1")
    form = page.form("note")
    for text in ("All times are UTC.\r\nPrices in cents.", "Prices in cents.", ""):
        assert browser.post("/do/note", {**form, "content": text}).status == 303
        assert world.ok("forge.note_get", project_id="shop")["content"] == text.replace("\r", "")
        page = browser.get("/builds/shop-b1")
        assert f"{len(text.replace(chr(13), ''))} characters, saved" in page.text
    assert '<details class="panel" id="notepad" open>' in page.html


def test_a_build_is_told_something_paused_and_resumed(world: World, browser: Browser) -> None:
    page = browser.get("/builds/shop-b1")
    assert browser.post("/do/interject", {**page.form("interject"), "text": "Prices in cents"}).status == 303
    assert cycle_of(world).interjections[-1].endswith("Prices in cents")
    assert browser.post("/do/build-pause", page.form("build-pause")).status == 303
    assert cycle_of(world).hold == "paused"
    page = browser.get("/builds/shop-b1")
    assert "On hold" in page.text
    assert browser.post("/do/build-resume", page.form("build-resume")).status == 303
    assert cycle_of(world).hold == ""


def test_every_build_stands_in_the_list_with_its_command(world: World, browser: Browser) -> None:
    page = browser.get("/builds")
    assert 'href="/builds/shop-b1"' in page.html
    assert "aop forge status shop-b1" in page.text
    assert browser.get("/builds/none-b9").status == 404
    assert browser.get("/builds/shop-b1/none").status == 404


def test_a_sealed_build_shows_its_verdict_and_that_a_seal_is_void(tmp_path: Path) -> None:
    built = Built(tmp_path / "repo")
    built.finish()
    seal = built.world.ok("forge.build_seal", build_id="notes-b1")["seal"]
    with served(built.root) as server, visit(built.root, server) as browser:
        page = browser.get("/builds/notes-b1")
        assert f"Seal: {seal['verdict']} {seal['score']:g} of 100" in page.text
        assert "2 of 2 signed off" in page.text
        assert "/do/build-pause" not in page.html
        built.git("update-ref", "refs/heads/forge/build-notes-b1", "main")
        assert "The seal is void." in browser.get("/builds/notes-b1").text
    built.world.close()
