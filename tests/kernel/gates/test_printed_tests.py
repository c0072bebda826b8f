"""The outcomes of tests in what Go and Cargo print."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
import pytest

from aop.kernel.config import gates
from aop.kernel.gates.reports import measurements
from aop.kernel.gates.reports.listed_tests import listing_difference
from aop.kernel.gates.reports.measurements import ReportedTest
from aop.kernel.gates.reports.named_tests import names_test
from aop.kernel.gates.reports.printed_tests import (
    cases_in_cargo,
    cases_in_go,
    listed_by_cargo,
    listed_by_go,
    report_on,
)


def go(*events: tuple[str, str], output: str = "") -> bytes:
    lines = [
        json.dumps({"Action": action, "Package": "example.org/shop", "Test": test, "Output": output})
        for action, test in events
    ]
    return "\n".join(["# a line of the compiler", *lines, "{not json", ""]).encode()


def outcomes(cases: Iterable[ReportedTest]) -> list[tuple[str, str]]:
    return [(case.name.removeprefix("example.org/"), case.outcome) for case in cases]


GO = {
    "each outcome": (
        [("run", "TestA"), ("pass", "TestA"), ("run", "TestB"), ("fail", "TestB"), ("skip", "TestC"), ("fail", "")],
        [("shop.TestA", "passed"), ("shop.TestB", "failures"), ("shop.TestC", "skipped")],
    ),
    "a subtest": ([("pass", "TestA/one"), ("pass", "TestA")], [("shop.TestA/one", "passed"), ("shop.TestA", "passed")]),
    "twice": ([("pass", "TestA"), ("pass", "TestA")], [("shop.TestA", "passed")] * 2),
    "a test that did not end": ([("run", "TestA"), ("pass", "")], [("shop.TestA", "errors")]),
    "a package that cannot be built": ([("fail", "")], [("shop", "errors")]),
    "a package without tests": ([("skip", "")], []),
    "a benchmark": ([("run", "BenchmarkA"), ("bench", "BenchmarkA")], []),
}


@pytest.mark.parametrize(("events", "expected"), GO.values(), ids=GO)
def test_the_events_of_go_are_its_tests(events: list[tuple[str, str]], expected: list[tuple[str, str]]) -> None:
    assert outcomes(cases_in_go(go(*events))) == expected


CARGO = """\
   Compiling shop v0.1.0
     Running unittests src/lib.rs (target/debug/deps/shop-507999230d6984fa)

running 3 tests
test tests::one ... ok
test tests::two - should panic ... ok
test tests::slow ... ignored, takes long

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/cart.rs (target/debug/deps/cart-c3501987bfd67119)

running 1 test
test total ... FAILED

failures:

---- total stdout ----
test forged ... ok

failures:
    total

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

   Doc-tests shop

running 1 test
test src/lib.rs - total (line 3) - compile ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


def test_the_output_of_cargo_has_its_tests_with_their_binaries_and_files() -> None:
    cases = cases_in_cargo(CARGO.encode())
    assert outcomes(cases) == [
        ("shop.src.lib.tests.one", "passed"),
        ("shop.src.lib.tests.two", "passed"),
        ("shop.src.lib.tests.slow", "skipped"),
        ("cart.tests.cart.total", "failures"),
        ("shop.doc.src/lib.rs - total", "passed"),
    ]
    assert report_on(cases) == measurements.TestReport(tests=5, failures=1, errors=0, skipped=1)


@pytest.mark.parametrize(
    "output",
    [
        CARGO[: CARGO.index("test tests::two")],
        CARGO.replace("running 3", "running 4"),
        CARGO.replace("running 3", "running 2"),
    ],
    ids=["ended in the middle", "fewer than announced", "more than announced"],
)
def test_a_binary_whose_tests_are_not_as_many_as_it_announced_is_an_error(output: str) -> None:
    assert ("shop.src.lib", "errors") in outcomes(cases_in_cargo(output.encode()))


def test_what_both_list_agrees_with_what_they_run() -> None:
    listing = CARGO.partition("running 3")[0] + "tests::one: test\ntests::two: test\ntests::slow: test\n"
    unit = [case for case in cases_in_cargo(CARGO.encode()) if case.name.startswith("shop.src")]
    assert listing_difference(listed_by_cargo(listing.encode()) or (), unit).text == ""
    listed = listed_by_go(go(("output", ""), output="TestA\n") + go(("output", ""), output="ok  \tshop\n"))
    assert listed == ("example.org/shop.TestA",)
    ran = cases_in_go(go(("pass", "TestA/one.half"), ("pass", "TestA")))
    assert listing_difference(listed, ran).text == ""
    assert "leaves out `example.org/shop.TestA`" in listing_difference(listed, ()).text


def test_a_test_of_go_stands_for_its_subtests() -> None:
    for named in ("TestA", "cart_test.go::TestA", "example.org/shop.TestA"):
        assert names_test(named, "example.org/shop.TestA/one.half")
    assert not names_test("cart_test.go::TestB", "example.org/shop.TestA/one")


@pytest.mark.parametrize(
    "parser",
    [{"type": "junit_xml"}, {"type": "cargo_test", "path": "x"}, {"type": "junit_xml", "path": "x", "step": "test"}],
    ids=["no path", "no step", "both"],
)
def test_a_report_is_a_file_or_the_output_of_a_step(parser: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(parser, gates.TestsParser)
