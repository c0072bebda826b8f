"""Gated workflows, builds, contracts and tickets in a real Chromium; the record says what happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from aop.forge.contracts.types import ContractType
from tests.forge.broker.shelves import edit
from tests.forge.builds.cycles import begun, coder, cycle_of
from tests.forge.sample_contracts import CONTRACTS
from tests.gated.agents import RUN, stepping
from tests.mcpserver.clients import served
from tests.racing import until
from tests.web.browser.windows import Scheme, window
from tests.world import World, make_repository

pytestmark = pytest.mark.browser

FEW = {"hypothesize_max": 1, "instrumentation_max": 1, "unlock_scope_reduction_at": 2, "unlock_escalation_at": 2}
LONG = "a" * 300


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(make_repository(tmp_path / "repo"))
    begun(made)
    with served(made.root):
        yield made
    made.close()


def ask(world: World, question: str) -> None:
    assert world.app.gateway.call(coder("shop-b1"), "forge_ask_clarification", {"question": question}).ok


@pytest.mark.clicks("work/gated.html guide")
def test_guidance_is_given_and_the_picture_moves_on(tmp_path: Path, browser: Browser) -> None:
    agent = stepping(tmp_path / "repo", gated=FEW)
    root = agent.world.root
    with served(root), window(browser, root) as opened:
        page = opened.go("/gated")
        opened.live()
        present = page.locator(".phases .present text")
        expect(present).to_have_text("executing tdd")
        for _ in range(2):
            agent.submit(test_command=RUN, expectation="FAIL")
        agent.call("escalate_for_external_help", markdown_report=f"# Stuck {LONG}")
        expect(present).to_have_text("debugging", timeout=30_000)
        page.get_by_label("Guidance for the agent").fill("Begin with the file.")
        page.get_by_role("button", name="Send guidance").click()
        expect(page.get_by_text("Guidance that the agent has")).to_be_visible(timeout=30_000)
    assert "A person says: Begin with the file." in agent.call("get_task")["task"]


@pytest.mark.clicks("work/build.html answer")
@pytest.mark.req("FORGE-165", "FORGE-167")
def test_a_question_that_comes_gets_the_focus_and_enter_answers_it(world: World, browser: Browser) -> None:
    with window(browser, world.root) as opened:
        page = opened.go("/builds/shop-b1")
        opened.live()
        ask(world, "Which currency?")
        box = page.get_by_label("Your answer")
        expect(box).to_be_focused(timeout=30_000)
        expect(page.get_by_text("awaiting input")).to_be_visible()
        page.keyboard.type("EUR")
        page.keyboard.press("Enter")
        expect(page.get_by_text("↳ You answered: EUR")).to_be_visible(timeout=30_000)
        expect(page.get_by_text("awaiting input")).to_be_hidden()
    assert [each["answer"] for each in world.ok("inbox.list", answered=True)["questions"]] == ["EUR"]


@pytest.mark.clicks("work/build.html note")
@pytest.mark.req("FORGE-218")
def test_a_note_saves_itself_and_what_changes_elsewhere_is_shown(world: World, browser: Browser) -> None:
    with window(browser, world.root) as opened:
        page = opened.go("/builds/shop-b1")
        opened.live()
        note = page.get_by_label("Note", exact=True)
        note.press_sequentially("All times are UTC")
        expect(page.locator("[data-characters]")).to_have_text("17")
        expect(page.locator(".saved")).to_contain_text("saved", timeout=30_000)
        expect(note).to_be_focused()
        note.press_sequentially(".")
        note.blur()
        expect(page.get_by_text("note changed")).to_have_count(0)
        # The page's policy lets no text be evaluated in it, so the test asks again and again.
        until(lambda: bool(note.evaluate("note => note.value === note.defaultValue")), seconds=30.0)
        assert world.ok("forge.note_get", project_id="shop")["content"] == "All times are UTC."
        world.ok("forge.note_put", project_id="shop", content="Prices in cents.")
        expect(note).to_have_value("Prices in cents.", timeout=30_000)
        page.get_by_text("Notepad").click()
        expect(note).to_be_hidden()


@pytest.mark.clicks("work/build.html build-pause", "work/build.html build-resume", "work/build.html interject")
def test_a_build_is_told_something_paused_and_resumed(world: World, browser: Browser) -> None:
    with window(browser, world.root) as opened:
        page = opened.go("/builds/shop-b1")
        opened.live()
        page.get_by_label("Tell the model").fill("Prices in cents")
        page.get_by_role("button", name="Send", exact=True).click()
        expect(page.get_by_label("Tell the model")).to_have_value("", timeout=30_000)
        assert cycle_of(world).interjections[-1].endswith("Prices in cents")
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_text("On hold")).to_be_visible(timeout=30_000)
        assert cycle_of(world).hold == "paused"
        page.get_by_role("button", name="Resume", exact=True).click()
        expect(page.get_by_text("On hold")).to_have_count(0, timeout=30_000)
    assert cycle_of(world).hold == ""


@pytest.mark.clicks("work/build.html answer", "work/build.html dismiss-error")
def test_a_question_is_left_to_the_model_and_an_error_is_dismissed(world: World, browser: Browser) -> None:
    ask(world, "Which currency?")
    world.ok("forge.error_track", build_id="shop-b1", errors=[{"message": "boom", "phase": 0, "source": "test"}])
    with window(browser, world.root) as opened:
        page = opened.go("/builds/shop-b1")
        opened.live()
        page.get_by_role("button", name="Skip — let AI decide").click()
        expect(page.get_by_text("awaiting input")).to_have_count(0, timeout=30_000)
        page.get_by_role("link", name="Errors (1 unresolved)").click()
        page.get_by_role("button", name="✕ Dismiss").click()
        expect(page.get_by_role("link", name="Errors (0 unresolved)")).to_be_visible(timeout=30_000)
    assert [each["answer"] for each in world.ok("inbox.list", answered=True)["questions"]] == ["Let AI decide"]
    (error,) = world.ok("forge.errors_list", build_id="shop-b1")["errors"]
    assert error["resolution_method"] == "dismissed"


@pytest.mark.clicks("work/contract.html show")
def test_two_versions_of_a_contract_are_compared(world: World, browser: Browser) -> None:
    text = CONTRACTS[ContractType.MANIFESTO]
    for number in (2, 3):
        edit(world, "shop", ContractType.MANIFESTO, f"{text}\nSentence {number}.\n")
    with window(browser, world.root) as opened:
        page = opened.go("/contracts/shop/manifesto")
        page.get_by_label("From").fill("2")
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("heading", name="From version 2 to 3")).to_be_visible()
        expect(page.locator("tr.a")).to_contain_text("Sentence 3.")
        expect(page.locator("tr.d")).to_contain_text("Sentence 2.")


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [360, 2560])
def test_no_page_is_wider_than_its_window(world: World, browser: Browser, width: int, scheme: Scheme) -> None:
    ask(world, LONG[:200])
    seen = {"message": LONG, "phase": 0, "file_path": f"src/{LONG}.py", "source": "test"}
    world.ok("forge.error_track", build_id="shop-b1", errors=[seen, seen])
    with window(browser, world.root, width=width, scheme=scheme) as opened:
        builds = ("/builds", "/builds/shop-b1", "/builds/shop-b1/changes", "/builds/shop-b1/errors")
        contracts = ("/contracts", "/contracts/shop/boundaries", "/contracts/shop/drift")
        for path in ("/gated", "/tickets", *builds, *contracts):
            page = opened.go(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
