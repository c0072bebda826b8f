"""The forms of the pages: each has an action and a test in a real Chromium that sends it."""

from __future__ import annotations

import ast
from pathlib import Path

from aop.web.pages.actions import ACTIONS, OWN_ACTIONS
from aop.web.pages.page_routes import DOWNLOADS
from tests.web.browser.page_forms import actions_in, all_forms, forms_at

BROWSER_TESTS = Path(__file__).parents[1] / "browser"


def claimed() -> set[str]:
    """Return the forms that browser tests claim to send; the tests themselves are held to it when they run."""
    calls = [
        node
        for path in BROWSER_TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.clicks"
    ]
    return {str(ast.literal_eval(argument)) for call in calls for argument in call.args}


def test_every_form_is_sent_by_a_test_in_a_browser() -> None:
    assert claimed() == all_forms()


def test_every_action_has_a_form_and_every_form_an_action() -> None:
    drawn = {form.split()[1] for form in all_forms()} - {"show"}
    assert drawn == {*ACTIONS, *OWN_ACTIONS, *DOWNLOADS}


def test_forms_are_read_from_templates() -> None:
    text = """{{ button("stop-run", "Stop") }} <form id="x" method="post" action="/do/pause"></form>
    <button formaction="/do/{{ 'resume' if row.paused else 'pause' }}"> <button formaction="/do/stop">
    <form class="find" method="get">"""
    assert actions_in(text) == {"stop-run", "pause", "resume", "stop", "show"}
    assert "feature/comments.html comment" in forms_at("/features/one/plan", "comment")
    assert "feature/comments.html comment" not in forms_at("/board", "comment")
