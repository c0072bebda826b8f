"""Tests of the base that a feature changes, as the person who approves sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.gate_cheats.arena import Row, prove_row
from tests.hostile.gate_cheats.test_tests_of_the_base import PYTHON, TESTS
from tests.mcpserver.clients import served
from tests.web.pages.page_visits import visit
from tests.world import World, run_aop

ROW = Row(
    files={
        "src/cart.py": "def total(prices):\n    return 0 if prices == [2] else sum(prices)\n",
        "tests/test_cart.py": TESTS.replace("total([2]) == 2", "total([2]) == 0").replace("test_nothing", "test_empty"),
        "tests/test_count.py": None,
    },
    changes={
        "tests/test_cart.py::test_one": "A single dear thing is free now",
        "tests/test_cart.py::test_nothing": "A clearer name",
        "tests/test_count.py": "Nothing counts prices any more",
        "tests/test_gone.py::test_other": "Perhaps in the merge",
    },
    ends="",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feature that changes one test, renames one and removes one, proven and not yet approved."""
    made = PYTHON.made(tmp_path_factory.mktemp("python") / "repo")
    world = World(made)
    refused = prove_row(world, ROW)
    world.close()
    assert refused == ""
    return made


def test_a_review_shows_each_with_old_and_new_text_side_by_side(root: Path) -> None:
    lines = [" ".join(line.split()) for line in run_aop(root, "review", "one").out.splitlines()]
    for line in (
        "Tests of the base that this feature changes",
        "tests.test_cart.test_one: does not pass as the base has it",
        "Reason of the plan: A single dear thing is free now",
        "assert total([2]) == 2 | assert total([2]) == 0",
        "tests.test_cart.test_nothing: renamed to tests.test_cart.test_empty",
        "def test_nothing(): | def test_empty():",
        "tests.test_count.test_count: does not run and pass any more",
        "assert count([1, 1]) == 2 |",
        "tests/test_gone.py::test_other: named in the plan; no run shows a change of it",
    ):
        assert line in lines


def test_the_page_of_a_review_shows_them_too(root: Path, tmp_path: Path) -> None:
    run_aop(root, "review", "one", "--html", str(tmp_path / "review.html"))
    page = (tmp_path / "review.html").read_text()
    assert '<td class="t d">    assert total([2]) == 2</td><td class="t a">    assert total([2]) == 0</td>' in page
    assert "renamed to tests.test_cart.test_empty" in page
    assert page.index("Nothing counts prices any more") < page.index("Blocking the merge")


def test_they_stand_above_the_question_for_approval(root: Path) -> None:
    asked = run_aop(root, "approve", "one", "--yes")
    told = asked.err
    assert asked.code == 0, asked.err
    assert told.index("tests.test_cart.test_one: does not pass as the base has it") < told.index("Approved.")
    assert "Reason of the plan: Nothing counts prices any more" in told


def test_the_page_of_the_feature_shows_them_above_the_diff(root: Path) -> None:
    with served(root) as server, visit(root, server) as browser:
        html = browser.get("/features/one").html
    above = html[: html.index('class="panel file"')]
    assert "does not run and pass any more" in above
    assert "does not pass as the base has it" in above
