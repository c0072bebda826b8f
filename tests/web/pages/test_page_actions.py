"""What people decide on the pages, with the record and git as the judges."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.mcpserver.clients import Served, served
from tests.web.pages.page_visits import Browser, visit
from tests.world import FILES, PATCH, World, files, git


@pytest.fixture
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.fixture
def browser(world: World, server: Served) -> Iterator[Browser]:
    with visit(world.root, server) as inside:
        yield inside


def test_a_tree_is_approved_and_merged_once_and_the_checkout_stays(world: World, browser: Browser) -> None:
    world.ready("one")
    assert "Review tree" in browser.get("/").html
    approve = browser.get("/features/one").form("approve")
    assert approve["tree"] == world.ok("feature.state_get", feature_id="one")["front_matter"]["tree"]
    for _double_click in range(2):
        assert browser.post("/do/approve", approve).status == 303
    merge = browser.get("/features/one").form("merge")
    for _double_click in range(2):
        assert browser.post("/do/merge", {**merge, "commit_message": "As I said"}).status == 303
    with world.app.record.read() as view:
        kinds = [entry.event.kind for entry in view.journal()]
    assert (kinds.count("approval_granted"), kinds.count("feature_merged")) == (1, 1)
    assert "As I said" in git(world.root, "log", "-1", "--format=%B", "main")
    assert (world.root / "src" / "a.txt").read_text() == FILES["src/a.txt"]
    assert "aop sync" in browser.get("/features/one").text


def test_a_tree_that_moved_since_the_page_was_drawn_is_not_approved(world: World, browser: Browser) -> None:
    world.ready("one")
    shown = browser.get("/features/one").form("approve")
    (world.root / "more.txt").write_text("more\n")
    git(world.root, "add", "more.txt")
    git(world.root, "commit", "-q", "-m", "More")
    refused = browser.post("/do/approve", shown)
    assert refused.status == 400
    assert "changed since it was shown" in refused.text


def test_a_question_is_answered_with_a_choice_or_in_words(world: World, browser: Browser) -> None:
    world.plan("one")
    world.ok("inbox.ask", feature_id="one", gate="question", text="Keep the old route?", choices=["yes", "no"])
    world.ok("inbox.ask", feature_id="one", gate="question", text="Which name?")
    drawn = browser.get("/")
    assert "Keep the old route?" in drawn.text
    assert browser.post("/do/answer", drawn.form("answer", 1)).status == 303
    words = {**drawn.form("answer", 2), "answer": "two\r\nlines"}
    assert browser.post("/do/answer", words).status == 303
    answers = [each["answer"] for each in world.ok("inbox.list", answered=True)["questions"]]
    assert answers == ["no", "two\nlines"]
    late = browser.post("/do/answer", {**drawn.form("answer", 0), "operation_id": "op-1-0000000000000000"})
    assert late.status in (400, 404)
    assert "answered" in late.text


def test_changes_are_requested_and_void_the_approval(world: World, browser: Browser) -> None:
    world.ready("one")
    world.approval("one")
    fields = {**browser.get("/features/one").form("request-changes"), "text": "Say it in <b>bold</b>"}
    assert browser.post("/do/request-changes", fields).status == 303
    page = browser.get("/features/one")
    assert "Say it in &lt;b&gt;bold&lt;/b&gt;" in page.html
    assert world.ok("feature.state_get", feature_id="one")["front_matter"]["status"] == "building"
    assert "/do/approve" not in page.html


def test_all_is_paused_and_resumed_from_the_board(world: World, browser: Browser) -> None:
    world.plan("one")
    assert browser.post("/do/pause", browser.get("/board").form("pause")).status == 303
    board = browser.get("/board")
    assert "paused" in board.text
    assert browser.post("/do/resume", board.form("resume")).status == 303
    assert not world.ok("report.dashboard")["features"][0]["paused"]


def test_going_back_to_a_tree(world: World, browser: Browser) -> None:
    world.ready("one")
    back = browser.get("/features/one/attempts").form("undo", 0)
    assert browser.post("/do/undo", back).status == 303
    assert world.ok("feature.state_get", feature_id="one")["front_matter"]["tree"] == back["to"]


def test_a_file_is_marked_as_viewed_until_it_changes(world: World, browser: Browser) -> None:
    world.ready("one")
    page = browser.get("/features/one")
    assert "0 of 1 file viewed" in page.text
    assert browser.post("/do/viewed", page.form("viewed")).status == 303
    marked = browser.get("/features/one")
    assert "1 of 1 file viewed" in marked.text
    assert "viewed by person:ada" in marked.text
    assert browser.post("/do/not-viewed", marked.form("not-viewed")).status == 303
    assert "0 of 1 file viewed" in browser.get("/features/one").text


def test_two_trees_of_a_feature_are_compared(world: World, browser: Browser) -> None:
    world.plan("one")
    world.patch("one")
    world.patch("one", PATCH.replace("-two\n+TWO", "-TWO\n+2"))
    page = browser.get("/features/one/attempts")
    first, second, third = (each["tree"] for each in world.ok("feature.trees", feature_id="one")["trees"])
    assert f'href="/features/one/attempts?from={second}&amp;to={third}"' in page.html
    between = browser.get(f"/features/one/attempts?from={second}&to={third}")
    assert [
        re.sub("<[^>]*>", "", each)
        for each in re.findall(r'class="[ad]"><td.*?</td>.*?<td class="t">(.*?)</td>', between.html)
    ] == ["TWO", "2"]
    back = browser.get(f"/features/one/attempts?from={third}&to={first}&diff=split")
    assert "2" in back.text
    assert "The two trees are the same" in browser.get(f"/features/one/attempts?from={first}&to={first}").text
    world.plan("two", files=files(modify=("src/b.txt",)))
    world.patch("two", "--- a/src/b.txt\n+++ b/src/b.txt\n@@ -1,2 +1,2 @@\n alpha\n-beta\n+BETA\n")
    foreign = world.ok("repo.status", feature_id="two")["tree"]
    refused = browser.get(f"/features/one/attempts?from={first}&to={foreign}")
    assert refused.status == 400
    assert "names no tree of this feature" in refused.text
    assert browser.get("/features/one/attempts?from=--output=x").status == 400
