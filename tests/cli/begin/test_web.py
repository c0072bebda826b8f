"""`aop web` as a person first meets it, in real processes."""

from __future__ import annotations

from pathlib import Path

from tests.web.pages.page_visits import entered, link_to
from tests.world import make_repository, run_aop


def test_the_pages_open_in_a_repository_in_which_aop_has_done_nothing_yet(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    assert not (root / ".aop").exists()
    try:
        with entered(link_to(root)) as browser:
            assert "Nothing waits for you." in browser.get("/").text
            assert "There are no features yet." in browser.get("/board").text
        assert link_to(root), "the server that runs is found"
    finally:
        stopped = run_aop(root, "web", "--stop", "--json")
    assert stopped.json["data"]["stopped"] is not None
