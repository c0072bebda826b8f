"""Names of tests: which of them a plan means, and which are the same test in two runs."""

from __future__ import annotations

from uuid import UUID

import pytest

from aop.kernel.gates.reports.named_tests import names_test
from aop.kernel.gates.reports.test_comparison import absent_names

FILES = ("tests.py", "tests/test_cart.py", "tests/unit/test_cart.py", "test/cart.test.js")
NAMED = {
    "tests/test_cart.py": ["tests.test_cart.test_one", "test_cart.test_one", "tests.test_cart.TestCart.test_one[2]"],
    "tests/test_cart.py::test_one": ["tests.test_cart.test_one", "tests.test_cart.test_one[2]"],
    "tests.py": ["tests.test_one", "tests.TestCart.test_one"],
    "tests.py::TestCart": ["tests.TestCart.test_one"],
    "test/cart.test.js": ["test.cart.test.one"],
}
NOT_NAMED = {
    "tests.py": ["tests.test_cart.test_one", "tests.unit.test_cart.test_one"],
    "tests.py::test_one": ["tests.test_cart.test_one"],
    "test_cart.py": ["tests.unit.test_cart.test_one"],
    "tests/test_cart.py": ["tests.unit.test_cart.test_one", "tests.test_cart_more.test_one"],
}


@pytest.mark.parametrize(("named", "tests"), NAMED.items(), ids=NAMED)
def test_a_name_in_a_plan_means_the_tests_of_its_file(named: str, tests: list[str]) -> None:
    assert [test for test in tests if not names_test(named, test, FILES)] == []


@pytest.mark.parametrize(("named", "tests"), NOT_NAMED.items(), ids=NOT_NAMED)
def test_a_name_in_a_plan_does_not_mean_the_tests_of_another_file(named: str, tests: list[str]) -> None:
    assert [test for test in tests if names_test(named, test, FILES)] == []


CHANCE = {
    "a UUID": (str(UUID(int=1)), str(UUID(int=2**127))),
    "a hash": ("a" * 40, "0b" * 20),
    "a time": ("2026-01-02T03:04:05.678", "2027-01-02T03:04:06.1"),
    "a share": ("0.4170220044", "0.7203244934"),
    "a large number": ("1794933048360", "1794934819991"),
}


@pytest.mark.parametrize(("one", "other"), CHANCE.values(), ids=CHANCE)
def test_parameters_that_chance_makes_are_the_same_test(one: str, other: str) -> None:
    assert absent_names([f"tests.test_x[{one}-a]"], [f"tests.test_x[{other}-a]"]) == ()
    assert absent_names([f"tests.test_x[{one}]"] * 2, [f"tests.test_x[{other}]"]) == (f"tests.test_x[{one}]",)


@pytest.mark.parametrize(("one", "other"), [("1", "2"), ("one", "two"), ("12345678", "87654321"), ("1.5", "2.5")])
def test_other_parameters_are_other_tests(one: str, other: str) -> None:
    assert absent_names([f"tests.test_x[{one}]"], [f"tests.test_x[{other}]"]) == (f"tests.test_x[{one}]",)
    assert absent_names([f"tests.test_{'a' * 16}"], [f"tests.test_{'b' * 16}"]) != ()
