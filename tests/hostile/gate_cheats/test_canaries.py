"""Code that turns a red run of pytest green from inside: AOP's own tests in the report show it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.gate_cheats.cases import PASSES, Case, apply, outcome
from tests.kernel.tools.worlds import configured, gates_of
from tests.world import World

TESTS = """\
from cart import total

def test_nothing():
    assert total([]) == 0

def test_two():
    assert total([2, 3]) == 5
"""
SOURCE = "def total(prices):\n    return sum(prices)\n"
BROKEN = "def total(prices):\n    return 7\n"
FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "src/cart.py": SOURCE,
    "tests/test_cart.py": TESTS,
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
}
PYTEST = [sys.executable, "-m", "pytest", "-q", "--junitxml=junit.xml"]
ENV = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
POLICY = {"patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False}, "gates": {"base_tests": "off"}}
REPORT = {"tests": {"type": "junit_xml", "path": "junit.xml"}}
PROVES_NOTHING = "AOP's own tests, one that must pass and one that must fail, are not in the report as they ran"

SWALLOWED = """\
import _pytest.python
run = _pytest.python.Function.runtest
def quiet(self):
    try:
        run(self)
    except BaseException:
        pass
_pytest.python.Function.runtest = quiet
"""
FLIPPED = """\
import _pytest.reports
make = _pytest.reports.TestReport.from_item_and_call.__func__
def passed(cls, item, call):
    report = make(cls, item, call)
    report.outcome, report.longrepr = "passed", None
    return report
_pytest.reports.TestReport.from_item_and_call = classmethod(passed)
"""
UNWRITTEN = """\
import _pytest.junitxml, _pytest.main
_pytest.junitxml._NodeReporter.append_failure = lambda self, report: None
_pytest.main.Session.testsfailed = property(lambda self: 0, lambda self, value: None)
"""
LEFT_OUT = """\
import _pytest.junitxml
log = _pytest.junitxml.LogXML.pytest_runtest_logreport
def only_what_passes(self, report):
    if report.passed:
        log(self, report)
_pytest.junitxml.LogXML.pytest_runtest_logreport = only_what_passes
"""
EXPECTED_TO_FAIL = """\
import _pytest.skipping
_pytest.skipping.evaluate_skip_marks = lambda item: _pytest.skipping.Skip("no")
"""
FORGED = """\
import atexit, os
def forge():
    cases = "".join(f'<testcase classname="tests.test_cart" name="{name}"/>' for name in ("test_nothing", "test_two"))
    with open("junit.xml", "w") as report:
        report.write(f'<testsuites><testsuite tests="2">{cases}</testsuite></testsuites>')
    os._exit(0)
atexit.register(forge)
"""
CHEATS = (
    Case(name="failures are swallowed", files={"src/cart.py": SWALLOWED + BROKEN}, expected=PROVES_NOTHING),
    Case(name="outcomes are turned", files={"src/cart.py": FLIPPED + BROKEN}, expected=PROVES_NOTHING),
    Case(name="the report is forged at the end", files={"src/cart.py": FORGED + BROKEN}, expected=PROVES_NOTHING),
    Case(name="failures are not written", files={"src/cart.py": UNWRITTEN + BROKEN}, expected="gate_failed"),
    Case(name="failed tests are left out", files={"src/cart.py": LEFT_OUT + BROKEN}, expected="gate_failed"),
    Case(name="all tests are skipped", files={"src/cart.py": EXPECTED_TO_FAIL + BROKEN}, expected="gate_failed"),
    Case(name="no trick", files={"src/cart.py": BROKEN}, expected="gate_failed"),
)
IN_A_CLASS = """\
import unittest
from cart import total

class Test(unittest.TestCase):
    def test_two(self):
        self.assertEqual(total([1, 1]), 2)
"""
SKIPPED = "import pytest\n\n@pytest.mark.skip\ndef test_later():\n    pass\n"
HONEST = (
    Case(name="another way to add", files={"src/cart.py": "from functools import reduce\ntotal = sum\n"}),
    Case(name="a test in a class", files={"tests/test_more.py": IN_A_CLASS}),
    Case(
        name="a test that is skipped",
        files={"tests/test_more.py": "import pytest\n@pytest.mark.skip\ndef test_x(): 1\n"},
    ),
    Case(name="a test that prints", files={"tests/test_more.py": "def test_x():\n    print('failed')\n"}),
)


def world_of(root: Path, command: list[str], files: Mapping[str, str] = FILES, **env: str) -> World:
    steps: list[dict[str, Any]] = [{"name": "test", "cmd": command, "env": {**ENV, **env}}]
    gates = gates_of(fast=steps, full=steps, merge=steps, parsers=REPORT)
    world = configured(root, policy=POLICY, gates=gates, files=files)
    world.init()
    return world


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("canaries") / "repo"
    world = world_of(root, PYTEST)
    assert world.ok("gates.run", feature_id="one", mode="full")["tests"]["canaries"]
    world.close()
    return root


@pytest.mark.parametrize("case", CHEATS, ids=lambda case: case.name)
def test_a_red_run_stays_red(world: World, case: Case) -> None:
    assert outcome(apply(world, case.files)) == PASSES
    assert case.expected in outcome(world.call("gates.run", feature_id="one", mode="full"))


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_an_honest_run_is_counted_without_the_canaries(world: World, case: Case) -> None:
    assert outcome(apply(world, case.files)) == PASSES
    ran = world.call("gates.run", feature_id="one", mode="full")
    assert outcome(ran) == PASSES
    assert ran.data["tests"]["canaries"]
    assert ran.data["tests"]["failures"] == 0
    assert not any(
        "test_cart" not in name and "test_more" not in name for name in ran.data["tests"]["comparison"]["added"]
    )


AUTOUSE = """\
import pytest

@pytest.fixture(autouse=True)
def prices(request):
    assert request.function and request.module and request.node.fixturenames
    yield

def pytest_runtest_setup(item):
    assert item.function and item.originalname is not None
"""
WAYS: Mapping[str, tuple[list[str], Mapping[str, str], Mapping[str, str]]] = {
    "stop at the first failure": ([*PYTEST, "-x"], {}, {}),
    "several processes, and stop": ([*PYTEST, "-p", "xdist.plugin", "-n", "2", "-x"], {}, {}),
    "options in a variable": (PYTEST, {}, {"PYTEST_ADDOPTS": "--maxfail=1 --strict-markers"}),
    "fixtures for every test": (PYTEST, {"tests/conftest.py": AUTOUSE, "conftest.py": AUTOUSE}, {}),
    "modules by their files": ([*PYTEST, "--import-mode=importlib"], {}, {}),
    "one file alone": ([*PYTEST, "tests/test_cart.py"], {}, {}),
}


@pytest.mark.parametrize(("command", "files", "env"), WAYS.values(), ids=WAYS)
def test_the_canaries_disturb_no_way_of_running_pytest(
    tmp_path: Path, command: list[str], files: Mapping[str, str], env: Mapping[str, str]
) -> None:
    world = world_of(tmp_path / "repo", command, {**FILES, **files}, **env)
    try:
        ran = world.call("gates.run", feature_id="one", mode="full")
        assert outcome(ran) == PASSES
        assert (ran.data["tests"]["canaries"], ran.data["tests"]["tests"]) == (True, 2)
        assert ran.data["steps"][0]["left"] in ([], [".pytest_cache/"])
    finally:
        world.close()


def test_where_the_runner_cannot_carry_them_none_are_demanded(tmp_path: Path) -> None:
    world = world_of(tmp_path / "repo", [sys.executable, "-E", *PYTEST[1:]])
    try:
        ran = world.call("gates.run", feature_id="one", mode="full")
        assert (outcome(ran), ran.data["tests"]["canaries"]) == (PASSES, False)
    finally:
        world.close()
