"""Agents of gated workflows that want a step to count that does not, and honest ones beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.hostile.gated_cheats.arena import (
    BASE_TEST,
    CALC,
    FIX,
    MERGED,
    RED_TEST,
    STUB,
    Move,
    Row,
    made,
    play,
    playing,
)

TEST, CODE, OLD = "tests/test_double.py", "src/calc.py", "tests/test_calc.py"
TWICE = ("RED", "GREEN", "RED", "GREEN")
BEGUN: tuple[Move, ...] = (("write", CODE, STUB), ("write", TEST, RED_TEST), ("RED",))
FIXED: tuple[Move, ...] = (*BEGUN, ("write", CODE, FIX), ("GREEN",))
TRIPLE_STUB, TRIPLE = (f"{FIX}\n\ndef triple(x):\n    return {found}\n" for found in ("0", "x * 3"))
TRIPLE_TEST = "\n\ndef test_triple():\n    assert calc.triple(2) == 6\n"
HEAD = RED_TEST.partition("def test_double")[0]


def red(*moves: Move, ends: str) -> Row:
    """An attempt at the first RED step."""
    return Row(moves=(*moves, ("RED",)), ends=ends)


def green(*moves: Move, ends: str) -> Row:
    """An attempt at the GREEN step after an honest RED one."""
    return Row(begins=BEGUN, moves=(*moves, ("GREEN",)), ends=ends)


def later(path: str, text: str, ends: str) -> Row:
    """A change of a frozen test file in a later RED step."""
    moves = (("write", CODE, TRIPLE_STUB), ("write", path, text), ("RED",))
    return Row(begins=FIXED, moves=moves, ends=ends, steps=TWICE)


def extended(path: str, text: str) -> Row:
    """An honest second test in a file that went red or is as old as the base."""
    second = (("write", CODE, TRIPLE_STUB), ("write", path, text), ("RED",), ("write", CODE, TRIPLE), ("GREEN",))
    return Row(begins=FIXED, moves=second, steps=TWICE)


REPORT = "import os, sys\nos.makedirs('reports', exist_ok=True)\n"
FAKE = REPORT + "open('reports/junit.xml', 'w').write('<testsuite><testcase name=\"a\">{}</testcase></testsuite>')\n"
NEEDLESS = f"{RED_TEST}\n\ndef test_add_again():\n    assert calc.add(1, 1) == 2\n"
PATCHES = "import src.calc\n\nsrc.calc.double = lambda x: x * 2\n\nfrom src import calc\n" + TRIPLE_TEST
BROKEN = TRIPLE.replace("return x * 2", "return 0")

CHEATS = {
    "red-by-an-import-in-the-body": red(
        ("write", TEST, "def test_double():\n    from src.calc import double\n\n    assert double(2) == 4\n"),
        ends="A test broke before it could fail: `tests.test_double.test_double` (ImportError",
    ),
    "red-by-an-import-of-the-file": red(
        ("write", TEST, "from src.calc import double\n\n\ndef test_double():\n    assert double(2) == 4\n"),
        ends="A test broke before it could fail: `tests.test_double.module`",
    ),
    "red-by-another-exception": red(
        ("write", CODE, STUB.replace("return 0", "raise NotImplementedError")),
        ("write", TEST, RED_TEST),
        ends="A test broke before it could fail",
    ),
    "red-without-a-test": red(
        ("write", CODE, CALC.replace("a + b", "0")), ends="This step added or changed no test file"
    ),
    "red-that-passes": red(
        ("write", CODE, FIX), ("write", TEST, RED_TEST), ends="The test was expected to fail, and passed."
    ),
    "red-by-a-report-of-its-own": Row(
        moves=(
            ("write", TEST, "def test_double():\n    assert True\n"),
            ("write", "fake.py", FAKE.format("<failure/>") + "sys.exit(1)\n"),
            ("RED", "python3 fake.py"),
            ("write", CODE, FIX),
            ("GREEN",),
        ),
        ends="The gates pass without the fix too",
    ),
    "red-by-breaking-what-worked": Row(
        moves=(
            ("write", CODE, CALC.replace("a + b", "0")),
            ("write", TEST, "from src import calc\n\n\ndef test_more():\n    assert calc.add(1, 1) == 2\n"),
            ("RED",),
            ("write", CODE, CALC + "\n\nSEEN = True\n"),
            ("GREEN",),
        ),
        ends="The gates pass without the fix too",
    ),
    "a-needless-test-beside-a-red-one": Row(
        moves=(
            ("write", CODE, STUB.replace("a + b", "0")),
            ("write", TEST, NEEDLESS),
            ("RED",),
            ("write", CODE, FIX),
            ("GREEN",),
        ),
        ends="These tests pass without the fix too: `tests.test_calc.test_add`",
    ),
    "green-by-a-command-of-its-own": Row(
        moves=(*BEGUN, ("write", "fake.py", FAKE.format("")), ("GREEN", "python3 fake.py")), ends="tests.test_double"
    ),
    "green-without-a-fix": green(ends="tests.test_double"),
    "green-by-skipping-at-run-time": green(
        ("write", CODE, STUB.replace("return 0", "import skips\n\n    raise skips.Skip")),
        ends="These tests went red, and the gates do not run and pass them: `tests.test_double.test_double`",
    ),
    "green-by-ending-the-run": green(
        ("write", CODE, STUB + "\n\nimport atexit, os\n\natexit.register(os._exit, 0)\n"),
        ends="The report counts 2 failed tests",
    ),
    "green-by-a-weaker-assertion": green(
        ("write", TEST, RED_TEST.replace("== wanted(case)", "== 0")), ends="frozen_test"
    ),
    "green-by-an-early-return": green(
        ("write", TEST, RED_TEST.replace("    for case", "    return\n    for case")), ends="frozen_test"
    ),
    "green-by-removing-the-test": green(("remove", TEST), ends="frozen_test"),
    "green-by-changing-a-test-of-the-base": green(
        ("write", OLD, BASE_TEST.replace("== 3", "== 4")), ends="frozen_test"
    ),
    "green-by-removing-a-test-of-the-base": green(("remove", OLD), ends="frozen_test"),
    "green-by-changing-what-tests-read": green(("write", "tests/data/want.txt", "0\n"), ends="frozen_test"),
    "green-by-a-conftest": green(("write", "tests/conftest.py", "x = 1\n"), ends="protected_path"),
    "later-return": later(
        TEST, RED_TEST.replace("    for case", "    return\n    for case") + TRIPLE_TEST, "frozen_test"
    ),
    "later-definition-of-the-same-name": later(
        TEST, f"{RED_TEST}\n\ndef test_double():\n    assert True\n{TRIPLE_TEST}", "`test_double` is defined again"
    ),
    "later-decorator": later(
        TEST, RED_TEST.replace("def test_double", "@skip\ndef test_double") + TRIPLE_TEST, "frozen_test"
    ),
    "later-list-of-cases": later(TEST, RED_TEST.replace("(2, 4), ", "") + TRIPLE_TEST, "`CASES` is changed"),
    "later-helper": later(TEST, RED_TEST.replace("return case[1]", "return 0") + TRIPLE_TEST, "`wanted` is changed"),
    "later-quotes-around-the-test": later(
        TEST, f'{HEAD}"""\n{RED_TEST.removeprefix(HEAD)}"""\n{TRIPLE_TEST}', "is neither a test nor a constant"
    ),
    "later-builtin-of-its-own": later(
        TEST, RED_TEST + "\n\ndef calc():\n    return 0\n" + TRIPLE_TEST, "`calc` is defined again"
    ),
    "later-switch": later(TEST, RED_TEST + "\n\n__test__ = False\n" + TRIPLE_TEST, "`__test__` may steer other tests"),
    "later-removal-by-name": later(
        TEST, RED_TEST + "\n\ndel test_double\n" + TRIPLE_TEST, "`test_double` is defined again"
    ),
    "later-set-up-of-a-class": later(
        TEST,
        RED_TEST + "\n    def setup_method(self):\n        raise SystemExit\n" + TRIPLE_TEST,
        "`setup_method` may steer",
    ),
    "later-statement": later(
        TEST, RED_TEST + "\n\nglobals()['test_double'] = len\n" + TRIPLE_TEST, "is neither a test nor a constant"
    ),
    "later-change-of-a-test-of-the-base": later(OLD, BASE_TEST.replace("== 3", "> 0") + TRIPLE_TEST, "frozen_test"),
    "later-change-of-a-script": later("tests/check.sh", "true\n", "it is no file to which tests can be added"),
    "a-later-test-file-that-patches-the-code": Row(
        begins=FIXED,
        moves=(
            ("write", CODE, TRIPLE_STUB),
            ("write", "tests/test_a_triple.py", PATCHES),
            ("RED",),
            ("write", CODE, BROKEN),
            ("GREEN",),
        ),
        ends="With the test files as they were in their RED step, these tests fail: `tests.test_double.test_double`",
        steps=TWICE,
    ),
}
HONEST = {
    "a-test-and-its-fix": Row(moves=FIXED),
    "a-stub-after-an-import-that-failed": Row(
        moves=(
            ("write", TEST, RED_TEST),
            ("fails", "FAIL"),
            ("write", CODE, STUB),
            ("RED",),
            ("write", CODE, FIX),
            ("GREEN",),
        )
    ),
    "a-new-module-imported-in-the-body": Row(
        moves=(
            ("write", "src/half.py", "def half(x):\n    return None\n"),
            ("write", TEST, "def test_half():\n    from src.half import half\n\n    assert half(4) == 2\n"),
            ("RED",),
            ("write", "src/half.py", "def half(x):\n    return x // 2\n"),
            ("GREEN",),
        )
    ),
    "a-fix-at-the-second-attempt": Row(
        moves=(*BEGUN, ("write", CODE, STUB.replace("0", "1")), ("fails", "PASS"), ("write", CODE, FIX), ("GREEN",))
    ),
    "a-test-that-passes-already-beside-a-red-one": Row(
        moves=(("write", CODE, STUB), ("write", TEST, NEEDLESS), ("RED",), ("write", CODE, FIX), ("GREEN",))
    ),
    "more-tests-with-the-fix": Row(
        moves=(*BEGUN, ("write", CODE, FIX), ("write", "tests/test_more.py", BASE_TEST), ("GREEN",))
    ),
    "a-simpler-form": Row(
        moves=(*FIXED, ("write", CODE, FIX.replace("x * 2", "add(x, x)")), ("REFACTOR",)),
        steps=("RED", "GREEN", "REFACTOR"),
    ),
    "two-red-tests-before-one-fix": Row(
        moves=(
            *BEGUN,
            ("write", CODE, STUB + "\n\ndef triple(x):\n    return 0\n"),
            ("write", "tests/test_triple.py", "from src import calc\n" + TRIPLE_TEST),
            ("RED",),
            ("write", CODE, TRIPLE),
            ("GREEN",),
        ),
        steps=("RED", "RED", "GREEN"),
    ),
    "a-second-test-in-the-file": extended(TEST, RED_TEST + TRIPLE_TEST),
    "a-second-test-before-the-first": extended(
        TEST, HEAD + TRIPLE_TEST.lstrip() + "\n\n" + RED_TEST.removeprefix(HEAD)
    ),
    "a-second-test-with-a-comment-on-the-first": extended(
        TEST, RED_TEST.replace("    for case", "    # Each of them.\n    for case") + TRIPLE_TEST
    ),
    "a-second-test-with-an-import-and-a-constant": extended(
        TEST, RED_TEST.replace("CASES", "import math\n\nMORE = [2]\nCASES", 1) + TRIPLE_TEST
    ),
    "a-second-test-with-a-helper": extended(
        TEST, RED_TEST + "\n\ndef six():\n    return 6\n" + TRIPLE_TEST.replace("== 6", "== six()")
    ),
    "a-second-method-of-a-class": extended(
        TEST, RED_TEST + "\n    def test_triple(self):\n        assert calc.triple(2) == 6\n"
    ),
    "a-second-test-in-a-file-of-the-base": extended(OLD, BASE_TEST + TRIPLE_TEST),
    "a-second-test-in-a-file-of-its-own": extended("tests/test_triple.py", "from src import calc\n" + TRIPLE_TEST),
    "a-test-of-the-base-that-a-person-granted": Row(
        moves=(
            *BEGUN,
            ("write", CODE, FIX.replace("a + b", "a + b + 1")),
            ("grant", OLD, BASE_TEST.replace("== 3", "== 4").replace("== 6", "== 8")),
            ("GREEN",),
        )
    ),
    "a-red-test-that-a-person-granted": Row(
        moves=(
            *BEGUN,
            ("write", CODE, FIX.replace("x * 2", "x * 3")),
            ("grant", TEST, RED_TEST.replace("4), (3, 6", "6), (3, 9").replace("== 10", "== 15")),
            ("GREEN",),
        )
    ),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Row], Path]:
    """Return where the moves of a row begin: repositories that are made once, and copied."""

    @cache
    def base(steps: tuple[str, ...], begins: tuple[Move, ...]) -> Path:
        return made(tmp_path_factory.mktemp("gated") / "repo", Row(moves=(), steps=steps, begins=begins))

    return lambda row: base(row.steps, row.begins)


@pytest.mark.series(8)
@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_of_a_step_reaches_no_merge(name: str, prepared: Callable[[Row], Path], tmp_path: Path) -> None:
    row = CHEATS[name]
    with playing(prepared(row), tmp_path / "repo") as agent:
        ended = play(agent, row)
    assert ended != MERGED
    assert row.ends in ended


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_pull_request_is_merged(name: str, prepared: Callable[[Row], Path], tmp_path: Path) -> None:
    row = HONEST[name]
    with playing(prepared(row), tmp_path / "repo") as agent:
        assert play(agent, row) == MERGED
