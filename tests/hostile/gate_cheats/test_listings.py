"""Reports that leave out new tests, or have some of their own: the runner lists its tests once more for AOP."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.gate_cheats.cases import PASSES, Case, apply, outcome
from tests.hostile.gate_cheats.test_canaries import FILES, PYTEST, SOURCE, world_of
from tests.world import World

NOT_LISTED = "The report does not have the tests that the runner lists, so it proves nothing: "
RED = "from cart import mean\n\ndef test_mean():\n    assert mean([1, 3]) == 2\n"
BROKEN = SOURCE + "\ndef mean(prices):\n    return 0\n"
LEFT_OUT = """\
import _pytest.runner
run = _pytest.runner.runtestprotocol
def quiet(item, log=True, nextitem=None):
    return run(item, log="test_mean" not in item.nodeid, nextitem=nextitem)
_pytest.runner.runtestprotocol = quiet
"""
UNCOLLECTED = """\
import sys
if "--collect-only" not in sys.argv:
    import _pytest.python
    collect = _pytest.python.Module.collect
    _pytest.python.Module.collect = lambda self: [] if "test_more" in self.nodeid else collect(self)
"""
ONLY_LISTED = UNCOLLECTED.replace("not in sys", "in sys")
ENDS_THE_LISTING = "import os, sys\nif '--collect-only' in sys.argv:\n    os._exit(0)\n"
BESIDE = """\
import atexit, pathlib
def more():
    report = pathlib.Path("junit.xml")
    case = '<testcase classname="tests.test_more" name="test_of_nothing"/></testsuite>'
    report.write_text(report.read_text().replace("</testsuite>", case))
atexit.register(more)
"""
CHEATS = (
    Case(
        name="a new test that fails is left out of the report",
        files={"src/cart.py": LEFT_OUT + BROKEN, "tests/test_more.py": RED},
        expected=f"{NOT_LISTED}the report leaves out `tests.test_more.test_mean`",
    ),
    Case(
        name="a new file is collected in the listing alone",
        files={"src/cart.py": UNCOLLECTED + BROKEN, "tests/test_more.py": RED},
        expected=f"{NOT_LISTED}the report leaves out `tests.test_more.test_mean`",
    ),
    Case(
        name="a file is collected in the run alone",
        files={"src/cart.py": ONLY_LISTED + SOURCE, "tests/test_more.py": "def test_more(): pass\n"},
        expected=f"{NOT_LISTED}it has `tests.test_more.test_more`, which the runner does not list",
    ),
    Case(
        name="a test that does not exist",
        files={"src/cart.py": BESIDE + SOURCE},
        expected=f"{NOT_LISTED}it has `tests.test_more.test_of_nothing`, which the runner does not list",
    ),
    Case(
        name="the listing is ended",
        files={"src/cart.py": ENDS_THE_LISTING + SOURCE},
        expected="The runner lists its tests on the base, but not here",
    ),
)
HONEST = {
    "tests/test_random_ids.py": "import uuid, pytest\n@pytest.mark.parametrize('x', [uuid.uuid4().hex])\n"
    "def test_x(x): pass\n",
    "tests/test_skips_itself.py": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
    "tests/test_subtests.py": "import unittest\nclass Test(unittest.TestCase):\n    def test_x(self):\n"
    "        for n in range(3):\n            with self.subTest(n=n): pass\n",
    "tests/test_skipped.py": "import pytest\n@pytest.mark.skip\ndef test_x(): pass\n",
    "tests/unit/test_deep.py": "class TestCart:\n    class TestMore:\n        def test_x(self): pass\n",
}
"""Tests whose names a report and a listing may have in different ways."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("listings") / "repo"
    world = world_of(root, PYTEST)
    assert "listed" not in world.ok("gates.run", feature_id="one", mode="fast")["tests"]
    assert world.ok("gates.run", feature_id="one", mode="full")["tests"]["listed"]
    world.close()
    return root


@pytest.mark.parametrize("case", CHEATS, ids=lambda case: case.name)
def test_a_report_has_just_the_tests_that_the_runner_lists(world: World, case: Case) -> None:
    assert outcome(apply(world, case.files)) == PASSES
    assert case.expected in outcome(world.call("gates.run", feature_id="one", mode="full"))


def test_an_honest_report_is_believed(world: World) -> None:
    assert outcome(apply(world, HONEST)) == PASSES
    ran = world.call("gates.run", feature_id="one", mode="full")
    assert (outcome(ran), ran.data["tests"].get("listed")) == (PASSES, True)


WAYS = {
    "options of the project deselect": (PYTEST, {"pyproject.toml": FILES["pyproject.toml"] + 'addopts = "-k two"\n'}),
    "several processes": (
        [*PYTEST, "-p", "xdist.plugin", "-n", "2", "--dist", "loadgroup"],
        {"tests/test_group.py": "import pytest\n@pytest.mark.xdist_group('a')\ndef test_g(): pass\n"},
    ),
    "quiet by its options": ([*PYTEST, "-qq"], {}),
}


@pytest.mark.parametrize(("command", "files"), WAYS.values(), ids=WAYS)
def test_the_listing_agrees_with_every_way_of_running_pytest(
    tmp_path: Path, command: list[str], files: dict[str, str]
) -> None:
    world = world_of(tmp_path / "repo", command, {**FILES, **files})
    try:
        ran = world.call("gates.run", feature_id="one", mode="full")
        assert (outcome(ran), ran.data["tests"].get("listed")) == (PASSES, True)
        assert ran.data["steps"][0]["left"] in ([], [".pytest_cache/"])
    finally:
        world.close()


def test_where_the_listing_differs_on_the_base_none_is_demanded(tmp_path: Path) -> None:
    world = world_of(tmp_path / "repo", [*PYTEST, "--junit-prefix=shop"])
    try:
        ran = world.call("gates.run", feature_id="one", mode="full")
        assert (outcome(ran), ran.data["tests"]["listed"]) == (PASSES, False)
    finally:
        world.close()
