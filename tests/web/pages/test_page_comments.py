"""Comments on the pages, over HTTP and without a script; the record is the judge."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from aop.core.roles import Role
from aop.web.pages.feature.diff.diff_files import anchor_of
from tests.mcpserver.clients import Served, served
from tests.web.pages.page_visits import Browser, visit
from tests.world import PATCH, World, plan_for

SECOND = PATCH.replace("-two", "-TWO").replace("+TWO", "+2")
ROW = f"{anchor_of('src/a.txt')}-n2"


@pytest.fixture
def server(world: World) -> Iterator[Served]:
    with served(world.root) as running:
        yield running


@pytest.fixture
def browser(world: World, server: Served) -> Iterator[Browser]:
    with visit(world.root, server) as inside:
        yield inside


def drafts(world: World) -> list[dict[str, Any]]:
    return [each["comment"] for each in world.ok("feature.comments", feature_id="one")["drafts"]]


@pytest.mark.parametrize("layout", ["", "diff=split&"])
def test_the_number_of_a_line_leads_to_a_form_below_it(world: World, browser: Browser, layout: str) -> None:
    world.ready("one")
    page = browser.get(f"/features/one?{layout}")
    assert f"comment={ROW}" in page.html
    opened = browser.get(f"/features/one?{layout}comment={ROW}")
    assert opened.html.index(f'id="talk-{ROW}"') < opened.html.index('action="/do/comment"')
    fields = opened.form("comment")
    assert (fields["file"], fields["lines"], fields["side"]) == ("src/a.txt", "2", "new")
    assert browser.post("/do/comment", {**fields, "text": "Say <b>why</b>"}).status == 303
    (made,) = drafts(world)
    assert (made["text"], made["quoted"], made["lines"]) == ("Say <b>why</b>", "TWO", "2")
    again = browser.get(f"/features/one?{layout}")
    assert again.html.count("Say &lt;b&gt;why&lt;/b&gt;") >= 2
    assert again.html.index(f'id="talk-{ROW}"') < again.html.index('id="drafts"')


def test_a_range_the_old_side_and_a_whole_file_have_forms(world: World, browser: Browser) -> None:
    world.ready("one")
    anchor = anchor_of("src/a.txt")
    for wish, lines, side in ((f"{anchor}-n1-3", "1-3", "new"), (f"{anchor}-o2", "2", "old"), (anchor, "", "new")):
        fields = browser.get(f"/features/one?comment={wish}").form("comment")
        assert (fields["lines"], fields["side"]) == (lines, side)
    for wish in ("", "x", "00000000-n1", f"{anchor}-n0", f"{anchor}-n99999999999", f"{anchor}-q1", "<script>"):
        page = browser.get(f"/features/one?comment={wish}")
        assert (page.status, 'action="/do/comment"' in page.html) == (200, False)


def test_a_draft_is_edited_deleted_and_sent_with_the_others(world: World, browser: Browser) -> None:
    world.ready("one")
    world.approval("one")
    for text in ("First.", "Second.", "Third."):
        world.ok("feature.comment", feature_id="one", text=text)
    page = browser.get("/features/one")
    assert "Ask for changes and send 3 comments" in page.text
    edit = page.form("comment-edit", 0)
    assert browser.post("/do/comment-edit", {**edit, "text": "Primo."}).status == 303
    late = browser.post("/do/comment-edit", {**edit, "operation_id": "op_late_0000000000000001", "text": "Mine."})
    assert "is at version 2, not 1" in late.text
    assert browser.post("/do/comment-edit", {**edit, "number": "x", "text": "Mine."}).status == 400
    assert browser.post("/do/comment-delete", page.form("comment-delete", 1)).status == 303
    send = browser.get("/features/one").form("request-changes")
    for _double_click in range(2):
        assert browser.post("/do/request-changes", send).status == 303
    sent = world.ok("feature.comments", feature_id="one")["sent"]
    assert [(each["comment"]["text"], each["comment"]["batch"]) for each in sent] == [("Primo.", 1), ("Third.", 1)]
    page = browser.get("/features/one")
    assert "/do/approve" not in page.html
    assert page.text.count("the agent has not answered yet") == 2


def test_the_workers_word_and_what_aop_sees_stand_with_each_comment(world: World, browser: Browser) -> None:
    world.ready("one")
    for text, lines in (("Number it.", "2"), ("Drop it.", "3")):
        world.ok("feature.comment", feature_id="one", text=text, file="src/a.txt", lines=lines)
    world.ok("feature.request_changes", feature_id="one")
    world.patch("one", SECOND)
    said = [{"number": 1, "word": "done"}, {"number": 2, "word": "declined", "reason": "It <i>is</i> needed."}]
    world.ok("feature.answer_comments", role=Role.BUILDER, feature_id="one", comments=said)
    page = browser.get("/features/one")
    text = page.text
    assert "the worker says: done AOP sees: changed, outdated" in text
    assert "the worker declines: It <i>is</i> needed. AOP sees: unchanged" in text
    # The outdated one is not lost, and shows what stood there and what stands there now.
    outdated = unescape(page.html[page.html.index('id="elsewhere"') :])
    assert outdated.index("TWO") < outdated.index("In its place") < outdated.index('<pre class="quote">2</pre>')
    # The other one stands below its line.
    below = page.html[page.html.index(f'id="talk-{anchor_of("src/a.txt")}-n3"') :]
    assert below.index("Drop it.") < below.index("</table>")


def test_a_clause_of_the_plan_is_commented_on_and_goes_to_the_planner(world: World, browser: Browser) -> None:
    world.ready("one")
    assert "comment=criterion-1" in browser.get("/features/one/plan").html
    fields = browser.get("/features/one/plan?comment=criterion-1").form("comment")
    assert browser.post("/do/comment", {**fields, "text": "Which file?"}).status == 303
    assert [(each["clause"], each["kind"]) for each in drafts(world)] == [("criterion-1", "plan")]
    send = browser.get("/features/one/plan").form("request-changes")
    assert browser.post("/do/request-changes", send).status == 303
    assert world.ok("feature.state_get", feature_id="one")["front_matter"]["status"] == "planning"
    revised = plan_for("one", plan_version=2, revision_of=1, acceptance_criteria=["src/a.txt says so"])
    world.ok("plan.update", feature_id="one", plan_json=revised, expected_plan_version=1)
    page = browser.get("/features/one/plan").text
    assert "Which file?" in page
    assert "AOP sees: changed, outdated" in page


def test_hostile_text_of_a_comment_is_shown_as_text(world: World, browser: Browser) -> None:
    world.ready("one")
    hostile = "</textarea><script>alert(1)</script> \x1b[2J\u202e {{ 7 * 7 }}"
    world.ok("feature.comment", feature_id="one", text=hostile, file="src/a.txt", lines="2")
    html = browser.get("/features/one").html
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "\\u{202e} {{ 7 * 7 }}" in unescape(html)


def test_what_is_merged_takes_no_comment(world: World, browser: Browser) -> None:
    world.ready("one")
    world.ok("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval("one"))
    page = browser.get(f"/features/one?comment={ROW}")
    assert "comment=" not in page.html
    assert 'action="/do/comment"' not in page.html


def test_the_versions_of_a_plan_are_compared_and_comments_stay_with_their_clauses(
    world: World, browser: Browser
) -> None:
    world.plan("one", acceptance_criteria=["The file says so", "Nothing else <b>changes</b>"])
    for clause, text in (("criterion-1", "Louder, please."), ("criterion-2", "Good.")):
        world.ok("feature.comment", feature_id="one", clause=clause, text=text)
    world.ok("feature.request_changes", feature_id="one")
    revised = plan_for(
        "one",
        plan_version=2,
        revision_of=1,
        revision_reason="A person wants it louder",
        acceptance_criteria=["Nothing else <b>changes</b>", "The file says so loudly"],
    )
    args = {"feature_id": "one", "plan_json": revised, "expected_plan_version": 1}
    world.ok("plan.update", role=Role.PLANNER, **args)
    page = browser.get("/features/one/plan")
    assert page.status == 200
    assert "A person wants it louder" in page.text
    assert "Changes from version 1 to version 2 Criterion 1, now criterion 2, is reworded" in page.text
    changes = page.html[page.html.index('id="changes"') :]
    assert "The file says so<mark> loudly</mark>" in changes
    assert "Louder, please." in changes
    moved = page.html[page.html.index('id="clause-criterion-1"') : page.html.index('id="clause-criterion-2"')]
    assert "Good." in moved
    back = browser.get("/features/one/plan?old=2&new=1")
    assert "Changes from version 2 to version 1" in back.text
    for odd in ("old=9&new=1", "old=x&new=1", "old=1", "old=%3Cscript%3E&new=2"):
        assert "Changes from version 1 to version 2" in browser.get(f"/features/one/plan?{odd}").text


def test_a_server_that_an_agent_started_shows_the_feature_without_its_comments(world: World) -> None:
    world.ready("one")
    world.ok("feature.comment", feature_id="one", text="For people.")
    with served(world.root, AOP_TOKEN="x") as running, visit(world.root, running) as browser:
        for path in ("/features/one", "/features/one/plan"):
            page = browser.get(path)
            assert (page.status, "For people." in page.text) == (200, False)
            assert "Comments are for people, and an agent started this server." in page.text
