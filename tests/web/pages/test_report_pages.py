"""Pages of reports: plan, merge, errors, cost, time, journal, doctor and search, and what people do there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from aop.core.roles import Role
from tests.mcpserver.clients import Served, served
from tests.web.pages.page_visits import Browser, visit
from tests.world import World, files, git, make_repository

PATCH_B = "--- a/src/b.txt\n+++ b/src/b.txt\n@@ -1,2 +1,2 @@\n alpha\n-beta\n+BETA\n"
BROKEN = "--- /dev/null\n+++ b/src/broken.txt\n@@ -0,0 +1 @@\n+broken\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(make_repository(tmp_path_factory.mktemp("reports") / "repo"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.fixture(scope="module")
def browser(world: World, server: Served) -> Iterator[Browser]:
    with visit(world.root, server) as inside:
        yield inside


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser at a repository in which nothing has happened."""
    made = World(make_repository(tmp_path_factory.mktemp("bare") / "repo"))
    with served(made.root) as running, visit(made.root, running) as inside:
        yield inside
    made.close()


EMPTY = {
    "/board": "There are no features yet",
    "/plan": "No feature is on its way",
    "/merge": "Nothing is ready to merge",
    "/errors": "No gate has failed",
    "/cost": "No agent has taken a turn",
    "/time": "No feature has begun",
    "/journal?text=nosuchword": "No entry has this",
    "/search": "Write words",
    "/search?q=nosuchword": "Nothing has all of these words",
}


@pytest.mark.parametrize("path", sorted(EMPTY))
def test_an_empty_page_says_what_to_do(bare: Browser, path: str) -> None:
    drawn = bare.get(path)
    assert drawn.status == 200
    assert EMPTY[path] in drawn.text


def shared(browser: Browser, action: str, feature: str) -> int:
    """Press a button of a card; all cards share one form."""
    found = re.search(r'<form id="card-act".*?</form>', browser.get("/board").html, re.DOTALL)
    assert found
    fields = dict(re.findall(r'name="([^"]*)" value="([^"]*)"', found[0]))
    return browser.post(f"/do/{action}", {**fields, "feature_id": feature}).status


def row_of(world: World, feature: str) -> Any:
    return next(row for row in world.ok("report.dashboard")["features"] if row["feature_id"] == feature)


def test_a_spec_is_added_once_and_its_card_has_the_title(world: World, browser: Browser) -> None:
    fields = {**browser.get("/board").form("add-spec"), "text": "# A list of carts\r\n\r\n- it must be short\r\n"}
    assert browser.post("/do/add-spec", {**fields, "name": "carts"}).status == 303
    assert browser.post("/do/add-spec", {**fields, "name": "carts"}).status != 303
    assert (world.root / "agentic/features/carts/spec.md").read_text().startswith("# A list of carts\n")
    with world.app.record.read() as view:
        wanted = [each.event.feature_id for each in view.journal(kinds=("feature_wanted",))]
    assert wanted == ["carts"]
    assert "Waits for a run: carts" in browser.get("/board").text
    world.init("carts")
    board = browser.get("/board").text
    assert ("A list of carts" in board, "Waits for a run" in board) == (True, False)
    for text, why in (("", "lacks text"), ("ghp_" + "Zk3vX9qLmT7rB2wYc8NdF5hJ1sPaG4eUoV6i", "secret")):
        refused = browser.post("/do/add-spec", {**browser.get("/board").form("add-spec"), "text": text})
        assert refused.status == 400
        assert why in refused.text
    bad = {**browser.get("/board").form("add-spec"), "text": "---\ndepends_on: [nothing]\n---\nx", "name": "bad"}
    assert "not a known spec" in browser.post("/do/add-spec", bad).text
    assert not (world.root / "agentic/features/bad").exists()


def test_one_card_is_paused_resumed_stopped_and_retried(world: World, browser: Browser) -> None:
    world.plan("one", files=files(create=("src/one.txt",)))
    world.plan("other", files=files(create=("src/other.txt",)))
    assert shared(browser, "pause", "one") == 303
    assert (row_of(world, "one")["paused"], row_of(world, "other")["paused"]) == (True, False)
    assert shared(browser, "resume", "one") == 303
    assert shared(browser, "stop", "one") == 303
    assert row_of(world, "one")["status"] == "failed"
    assert "A person stopped it" in browser.get("/").text
    assert shared(browser, "retry", "one") == 303
    assert row_of(world, "one")["status"] == "building"


def test_the_last_words_of_a_turn_at_work_are_on_its_card_without_secrets(world: World, browser: Browser) -> None:
    world.plan("talker", files=files(create=("src/talker.txt",)))
    said = {"feature_id": "talker", "worker": "builder", "run": "r", "provider": "codex"}
    turn = world.ok("usage.begin", role=Role.SYSTEM, **said)["turn"]
    log = world.root / ".aop/logs/talker/builder.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    secret = "ghp_" + "Zk3vX9qLmT7rB2wYc8NdF5hJ1sPaG4eUoV6i"
    log.write_text(f'first\n{{"type": "called", "tool": "read_file", "arguments": "<b>x</b> {secret}"}}\n')
    doing = next(card for card in world.ok("report.cards")["cards"] if card["feature_id"] == "talker")["doing"]
    assert doing.startswith("calls read_file <b>x</b>")
    assert secret not in doing
    # No supervisor lives: the turn was killed, and is not shown at work.
    assert "calls read_file" not in browser.get("/board").text
    usage = {"cost_usd": 0.5, "self_reported": True, "estimated": True}
    world.ok("usage.record", role=Role.SYSTEM, **said, turn=turn, usage=usage)
    cost = browser.get("/cost")
    assert "1 turn self-reported 1 turn estimated" in cost.text
    assert "<svg" in cost.html
    assert "style=" not in cost.html


def test_a_turn_on_another_machine_names_its_worker_on_its_card_and_in_the_timeline(
    world: World, browser: Browser
) -> None:
    world.plan("traveller", files=files(create=("src/traveller.txt",)))
    # A person's own agent: its turn is shown at work without a supervisor.
    said = {"feature_id": "traveller", "worker": "swe", "run": "r", "provider": "codex"}
    turn = world.ok("usage.begin", role=Role.SYSTEM, **said)["turn"]
    assert "swe: codex," in browser.get("/board").text
    world.ok("usage.assign", role=Role.SYSTEM, feature_id="traveller", turn=turn, on_worker="build-7-1f00c2ab")
    assert "swe: codex on build-7-1f00c2ab," in browser.get("/board").text
    world.ok("usage.record", role=Role.SYSTEM, **said, turn=turn)
    assert "turn taken by the swe on build-7-1f00c2ab" in browser.get("/features/traveller/timeline").text


def test_a_failure_is_marked_and_sent_to_its_builder(world: World, browser: Browser) -> None:
    world.plan("wrong", files=files(create=("src/broken.txt",)))
    world.patch("wrong", BROKEN)
    assert world.call("gates.run", feature_id="wrong", mode="fast").error
    page = browser.get("/errors")
    assert browser.post("/do/mark-failure", {**page.form("mark-failure"), "note": "flaky on Mondays"}).status == 303
    page = browser.get("/errors")
    assert "flaky on Mondays" in page.text
    assert "known, still a failure" in page.text
    assert row_of(world, "wrong")["gates"]["fast"] == "fail"
    assert browser.post("/do/request-changes", page.form("request-changes")).status == 303
    asked = world.ok("report.feature_summary", feature_id="wrong")["requests"]
    assert "check" in asked[0]["text"]
    assert browser.post("/do/mark-failure", browser.get("/errors").form("mark-failure")).status == 303
    assert "flaky on Mondays" not in browser.get("/errors").text


def test_merges_follow_each_other_and_each_is_judged_on_the_new_base(world: World, browser: Browser) -> None:
    world.ready("first")
    world.ready("second", PATCH_B, files=files(modify=("src/b.txt",)))
    world.approval("first")
    world.approval("second")
    page = browser.get("/merge")
    assert page.html.index("merge-first") < page.html.index("merge-second")
    assert browser.post("/do/merge", page.form("merge")).status == 303
    page = browser.get("/merge")
    assert "Approve it again: the base branch moved after it." in page.text
    assert "/do/merge" not in page.html
    assert "Merged last" in page.text
    assert "merge pass" in page.text
    world.approval("second")
    assert browser.post("/do/merge", browser.get("/merge").form("merge")).status == 303
    assert git(world.root, "show", "main:src/b.txt") == "alpha\nBETA\n"


def test_the_past_is_shown_as_the_past_and_without_actions(world: World, browser: Browser) -> None:
    world.init("early")
    begun = world.ok("report.journal", limit=1)["newest"]
    world.init("later")
    newest = world.ok("report.journal", limit=1)["newest"]
    then = browser.get(f"/journal/board?at={begun}")
    assert "This is the past" in then.text
    assert ">early<" in then.html
    assert ">later<" not in then.html
    assert "/do/" not in then.html
    for odd in ("0", "-1", "x", "9" * 30, str(newest + 50)):
        assert browser.get(f"/journal/board?at={odd}").status == 200


def test_the_journal_is_searched_and_its_search_can_be_sent(world: World, browser: Browser) -> None:
    world.plan("sought", files=files(create=("src/sought.txt",)))
    page = browser.get("/journal?kind=plan+accepted&feature=sought&text=CHANGE")
    assert page.html.count("<tr id=") == 1
    assert 'value="sought"' in page.html


def test_everything_is_found_by_its_words(world: World, browser: Browser) -> None:
    world.plan("zebra", summary="Paint the stripes", files=files(create=("src/stripes.txt",)))
    world.patch("zebra", BROKEN.replace("broken", "stripes"))
    assert "Paint the stripes" in browser.get("/search?q=PAINT+stripes").text
    assert "src/stripes.txt" in browser.get("/search?q=stripes.txt").text
    hostile = browser.get("/search?q=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in hostile.html


def test_plan_time_and_doctor_show_what_the_commands_show(world: World, browser: Browser) -> None:
    world.plan("timed", files=files(create=("src/timed.txt",)))
    world.ok("gates.run", feature_id="timed", mode="fast")
    plan = browser.get("/plan")
    assert "Can go on now" in plan.text
    times = browser.get("/time")
    assert "fast check" in times.text
    assert times.html.count("<svg") >= 3
    doctor = browser.get("/doctor")
    assert "aop doctor" in doctor.text
    assert "sqlite" in doctor.text.lower()


def test_every_page_of_the_menu_names_a_command_and_leads_on_by_keys(browser: Browser) -> None:
    menu = re.findall(r'<a href="([^"]*)"[^>]*data-key', browser.get("/").html)
    assert {"/", "/board", "/plan", "/merge", "/errors", "/cost", "/time", "/journal", "/doctor"} <= set(menu)
    for path in menu:
        assert "aop " in browser.get(path).text, path
