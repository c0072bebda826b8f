"""What may be added to a frozen test file, and which failures are red: the pure rules, as tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest

from aop.gated.machine.red_tests import red_problem, red_tests
from aop.gated.machine.test_sources import change_problem
from aop.kernel.gates.reports.measurements import ReportedTest

Outcome = Literal["passed", "failures", "errors"]

OLD = """\
import shop

LIMIT = 3


def test_adds():
    assert shop.add(1, 2) == LIMIT


class TestCart:
    def test_is_empty(self):
        assert shop.cart() == []
"""

ADDED = {
    "a test": "\n\ndef test_more():\n    assert shop.add(2, 2) == 4\n",
    "a constant": "\n\nMORE = [1, 2]\n",
    "a class of tests": "\n\nclass TestMore:\n    def test_it(self):\n        assert shop.add(0, 0) == 0\n",
    "an import": "\n\nfrom shop import total\n",
}
WEAKENED = {
    "an early return": OLD.replace("    assert shop.add", "    return\n    assert shop.add"),
    "another assertion": OLD.replace("== LIMIT", "!= None"),
    "another constant": OLD.replace("LIMIT = 3", "LIMIT = 4"),
    "the last tests are gone": OLD.partition("\n\nclass")[0] + "\n",
    "a test that is gone": OLD.replace("def test_adds():\n    assert shop.add(1, 2) == LIMIT\n", ""),
    "a method that is gone": OLD.replace(
        "    def test_is_empty(self):\n        assert shop.cart() == []\n", "    pass\n"
    ),
    "a test of the same name": f"{OLD}\n\ndef test_adds():\n    pass\n",
    "a name that a test uses": f"{OLD}\n\ndef add(a, b):\n    return 3\n",
    "a hook": f"{OLD}\n\ndef pytest_runtest_call(item):\n    pass\n",
    "a mark of the module": f"{OLD}\n\npytestmark = 'skip'\n",
    "a set-up of the class": OLD.replace(
        "class TestCart:\n", "class TestCart:\n    def setup_method(self):\n        pass\n\n"
    ),
    "a test that is skipped": f"{OLD}\n\n@pytest.mark.skip\ndef test_more():\n    assert False\n",
    "a fixture for all": f"{OLD}\n\n@pytest.fixture(autouse=True)\ndef calm():\n    pass\n",
    "a statement": f"{OLD}\n\nshop.add = lambda a, b: 3\n",
    "an import of everything": f"{OLD}\n\nfrom shop import *\n",
    "no Python": f"{OLD}\n\ndef\n",
}


@pytest.mark.parametrize("what", ADDED)
def test_tests_and_constants_may_be_added(what: str) -> None:
    assert change_problem("tests/test_shop.py", OLD.encode(), (OLD + ADDED[what]).encode()) == ""


@pytest.mark.parametrize("what", WEAKENED)
def test_nothing_else_may_be_changed(what: str) -> None:
    assert change_problem("tests/test_shop.py", OLD.encode(), WEAKENED[what].encode()) != ""


def test_to_a_file_of_another_language_tests_are_added_at_the_end_and_none_is_switched_off() -> None:
    old = b"test('adds', () => {});\n"
    changes = (old + b"test('more', () => {});\n", b"// first\n" + old, old + b"test.skip('more', () => {});\n")
    assert [change_problem("a.test.js", old, new) == "" for new in changes] == [True, False, False]
    assert change_problem("data.json", b"{}\n", b"{}\n{}\n") != ""


@pytest.mark.parametrize(
    ("outcome", "reason", "is_red"),
    [
        ("failures", "AssertionError: assert 1 == 2", True),
        ("failures", "assert 1 == 2", True),
        ("failures", "ModuleNotFoundError: No module named 'shop'", False),
        ("failures", "ValueError: no", False),
        ("failures", "TypeError: total is not a function", False),
        ("failures", "cannot find symbol", False),
        ("errors", "AssertionError: in a fixture", False),
        ("passed", "", False),
    ],
)
def test_red_is_a_test_that_failed_by_its_own_assertion(outcome: Outcome, reason: str, *, is_red: bool) -> None:
    tried = ReportedTest(name="t::test_it", passed=outcome == "passed", outcome=outcome, reason=reason)
    assert (red_tests([tried]) == ("t::test_it",), red_problem([tried]) == "") == (is_red, is_red)


@pytest.mark.parametrize("deep", ["-" * 20_000 + "1", "1" + "+1" * 20_000], ids=["signs", "sum"])
def test_a_test_file_that_is_too_deep_to_be_read_is_refused_and_breaks_nothing(deep: str) -> None:
    changed = OLD.encode() + f"\n\ndef test_deep():\n    assert {deep}\n".encode()
    assert change_problem("tests/test_shop.py", OLD.encode(), changed).startswith("it cannot be read as Python: ")


def test_many_threads_read_test_files_at_once() -> None:
    grown = OLD.encode() + b"\n\ndef test_more():\n    assert True\n"
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: change_problem("tests/test_shop.py", OLD.encode(), grown), range(64)))
    assert found == [""] * 64
