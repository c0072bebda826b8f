"""Cheats about tests: a broken feature whose suite is made to pass, and honest changes of tests.

Every cheat breaks the code and would reach the base branch if tests were only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from aop.adapters.projects.sample_repository import sample_files
from tests.hostile.gate_cheats.arena import MERGED, Project, Row, pytest_step, try_row

LEFT_ALONE = "that this feature left alone, run as the base has them, did not pass"
AS_ON_BASE = "run as the base has them, did not pass on the code of this feature"
MISSING = "of the base did not run and pass: "
FORGED = "With the tests of the base as the base has them: AOP's own tests"

# --- pytest --------------------------------------------------------------------------------------

CART = "def total(prices):\n    return sum(prices)\n\n\ndef count(prices):\n    return len(prices)\n"
BROKEN = CART.replace("sum(prices)", "0")
CHECKS = "def is_total(found, wanted):\n    assert found == wanted\n"
TESTS = """\
import json
from pathlib import Path

import pytest
from cart import total
from checks import is_total

def test_nothing():
    assert total([]) == 0

def test_one():
    assert total([2]) == 2

def test_helped():
    is_total(total([1, 1]), 2)

@pytest.mark.parametrize("prices", [[1], [2, 2]])
def test_each(prices):
    assert total(prices) == len(prices) ** 2

def test_from_file():
    known = json.loads(Path(__file__).with_name("prices.json").read_text())
    assert total(known["prices"]) == known["total"]
"""
COUNT_TESTS = "from cart import count\n\ndef test_count():\n    assert count([1, 1]) == 2\n"
PYTHON = Project(
    files={
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
        "src/cart.py": CART,
        "tests/checks.py": CHECKS,
        "tests/prices.json": '{"prices": [3, 4], "total": 7}\n',
        "tests/test_cart.py": TESTS,
        "tests/test_count.py": COUNT_TESTS,
        ".gitignore": "__pycache__/\n",
    },
    steps=[pytest_step()],
    permitted=("tests/conftest.py",),
)
EMPTY_BODIES = """\
import pytest

def test_nothing(): pass
def test_one(): pass
def test_helped(): pass
@pytest.mark.parametrize("prices", [[1], [2, 2]])
def test_each(prices): pass
def test_from_file(): pass
"""
PATCH_CART = "import cart\ncart.total = sum\n"
RIGHT = """\
import builtins

def total(prices):
    return builtins.sum(prices)

def count(prices):
    return len(prices)
"""
ANOTHER_MODULE = """\
import sys, types
fake = types.ModuleType('cart')
fake.total, fake.count = sum, len
sys.modules['cart'] = fake
"""
FORGES_FOR_OLD_TESTS = """\
import atexit, os, pathlib

TESTS = ("nothing", "one", "helped", "each[prices0]", "each[prices1]", "from_file")
def forge():
    cases = "".join(f'<testcase classname="tests.test_cart" name="test_{name}"/>' for name in TESTS)
    cases += '<testcase classname="tests.test_count" name="test_count"/>'
    with open("junit.xml", "w") as report:
        report.write(f'<testsuites><testsuite tests="7">{cases}</testsuite></testsuites>')
    os._exit(0)

if "is_total" in pathlib.Path("tests/test_cart.py").read_text():
    atexit.register(forge)
"""
TEST_MORE = """\
from cart import total
from more import PRICES

def test_more():
    assert total(PRICES) == 3
"""


def reworded(old: str, new: str) -> str:
    assert old in TESTS
    return TESTS.replace(old, new)


PYTHON_CHEATS: Mapping[str, Row] = {
    "bodies-emptied": Row(files={"src/cart.py": BROKEN, "tests/test_cart.py": EMPTY_BODIES}, ends=AS_ON_BASE),
    "returns-early": Row(
        files={
            "src/cart.py": BROKEN,
            "tests/test_cart.py": TESTS.replace("    assert", "    return\n    assert").replace(
                "    is_total", "    return\n    is_total"
            ),
        },
        ends=AS_ON_BASE,
    ),
    "shadowed-by-the-same-name": Row(
        files={"src/cart.py": BROKEN, "tests/test_cart.py": f"{TESTS}\n{EMPTY_BODIES}"}, ends=AS_ON_BASE
    ),
    "report-forged-for-the-tests-of-the-base-alone": Row(
        files={"src/cart.py": FORGES_FOR_OLD_TESTS + BROKEN, "tests/test_cart.py": EMPTY_BODIES}, ends=FORGED
    ),
    "as-many-others": Row(
        files={"src/cart.py": BROKEN, "tests/test_cart.py": EMPTY_BODIES.replace("def test_", "def test_new_")},
        ends=MISSING,
    ),
    "renamed-and-emptied": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "0 if prices == [2] else sum(prices)"),
            "tests/test_cart.py": reworded(
                "def test_one():\n    assert total([2]) == 2", "def test_single():\n    pass"
            ),
        },
        ends=MISSING,
    ),
    "file-removed": Row(
        files={"src/cart.py": BROKEN, "tests/test_cart.py": None, "tests/test_more.py": EMPTY_BODIES}, ends=MISSING
    ),
    "one-skipped": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "0 if prices == [2] else sum(prices)"),
            "tests/test_cart.py": reworded("    assert total([2]) == 2", "    pytest.skip()"),
        },
        ends=MISSING,
    ),
    "a-parameter-dropped": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "0 if prices == [2, 2] else sum(prices)"),
            "tests/test_cart.py": reworded("[[1], [2, 2]]", "[[1]]"),
        },
        ends=MISSING,
    ),
    "a-parameter-replaced": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "0 if prices == [2, 2] else sum(prices)"),
            "tests/test_cart.py": reworded("[[1], [2, 2]]", "[[1], [1]]"),
        },
        ends=AS_ON_BASE,
    ),
    "helper-emptied": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "9 if prices == [1, 1] else sum(prices)"),
            "tests/checks.py": "def is_total(found, wanted):\n    pass\n",
        },
        ends=AS_ON_BASE,
    ),
    "helper-emptied-and-a-plan-that-names-another-test": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "9 if prices == [1, 1] else sum(prices)"),
            "tests/checks.py": "def is_total(found, wanted):\n    pass\n",
        },
        changes={"tests/test_cart.py::test_one": "One price is another matter"},
        ends=AS_ON_BASE,
    ),
    "expected-data-changed": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "8 if prices == [3, 4] else sum(prices)"),
            "tests/prices.json": '{"prices": [3, 4], "total": 8}\n',
        },
        ends=AS_ON_BASE,
    ),
    "new-file-patches-the-code": Row(files={"src/cart.py": BROKEN, "tests/test_a.py": PATCH_CART}, ends=LEFT_ALONE),
    "new-file-patches-the-code-and-has-a-test": Row(
        files={"src/cart.py": BROKEN, "tests/test_a.py": f"{PATCH_CART}\ndef test_a():\n    pass\n"}, ends=LEFT_ALONE
    ),
    "new-file-patches-and-a-plan-excuses-its-neighbours": Row(
        files={"src/cart.py": BROKEN, "tests/test_a.py": PATCH_CART},
        changes={"tests/test_cart.py": "The cart is another one now"},
        ends=LEFT_ALONE,
    ),
    "new-file-puts-another-module-in-place": Row(
        files={
            "src/cart.py": BROKEN,
            "tests/test_a.py": ANOTHER_MODULE,
        },
        ends=LEFT_ALONE,
    ),
    "module-that-shadows-the-code": Row(files={"src/cart.py": BROKEN, "tests/cart.py": RIGHT}, ends=LEFT_ALONE),
    "new-helper-patches-the-code": Row(
        files={
            "src/cart.py": BROKEN,
            "tests/patches.py": PATCH_CART,
            "tests/test_cart.py": f"import patches\n{TESTS}",
        },
        ends=AS_ON_BASE,
    ),
    "fixture-for-all-in-a-conftest-that-a-person-opened": Row(
        files={
            "src/cart.py": BROKEN,
            "tests/conftest.py": "import pytest\nimport cart\ncart.total = sum\n",
        },
        ends=LEFT_ALONE,
    ),
    "a-file-named-like-the-folder-of-the-tests": Row(
        files={"src/cart.py": BROKEN, "tests/test_cart.py": EMPTY_BODIES},
        changes={"tests.py": "All of it is another matter"},
        ends=AS_ON_BASE,
    ),
    "plan-names-one-and-two-are-broken": Row(
        files={"src/cart.py": BROKEN, "tests/test_cart.py": EMPTY_BODIES},
        changes={"tests/test_cart.py::test_one": "One price is free now"},
        ends=AS_ON_BASE,
    ),
}

FREE_OF_CHARGE = CART.replace("sum(prices)", "sum(prices) if len(prices) > 1 or prices == [1] else 0")
PYTHON_HONEST: Mapping[str, Row] = {
    "code-alone": Row(files={"src/cart.py": RIGHT}, ends=MERGED),
    "new-test": Row(
        files={
            "src/cart.py": f"{CART}\n\ndef mean(prices):\n    return total(prices) / count(prices)\n",
            "tests/test_mean.py": "from cart import mean\n\ndef test_mean():\n    assert mean([1, 3]) == 2\n",
        },
        ends=MERGED,
    ),
    "new-test-in-an-old-file": Row(
        files={"tests/test_count.py": f"{COUNT_TESTS}\ndef test_none():\n    assert count([]) == 0\n"}, ends=MERGED
    ),
    "test-written-better": Row(
        files={"tests/test_cart.py": reworded("assert total([2]) == 2", "found = total([2])\n    assert found == 2")},
        ends=MERGED,
    ),
    "helper-written-better": Row(
        files={"tests/checks.py": 'def is_total(found, wanted):\n    assert found == wanted, f"{found}"\n'}, ends=MERGED
    ),
    "helper-added": Row(
        files={
            "tests/more.py": "PRICES = [1, 2]\n",
            "tests/test_more.py": TEST_MORE,
        },
        ends=MERGED,
    ),
    "parameter-added": Row(files={"tests/test_cart.py": reworded("[2, 2]]", "[2, 2], [3, 3, 3]]")}, ends=MERGED),
    "renamed-as-planned": Row(
        files={"tests/test_cart.py": reworded("def test_one", "def test_single")},
        changes={"tests/test_cart.py::test_one": "A clearer name: test_single"},
        ends=MERGED,
    ),
    "behaviour-changed-as-planned": Row(
        files={"src/cart.py": FREE_OF_CHARGE, "tests/test_cart.py": reworded("total([2]) == 2", "total([2]) == 0")},
        changes={"tests.test_cart.test_one": "A single dear thing is free now"},
        ends=MERGED,
    ),
    "removed-with-its-code-as-planned": Row(
        files={"src/cart.py": CART.partition("\n\n\ndef count")[0] + "\n", "tests/test_count.py": None},
        changes={"tests/test_count.py": "Nothing counts prices any more"},
        ends=MERGED,
    ),
    "function-renamed-with-all-its-tests-as-planned": Row(
        files={
            "src/cart.py": CART.replace("count(", "number("),
            "tests/test_count.py": COUNT_TESTS.replace("count(", "number(").replace("import count", "import number"),
        },
        changes={"tests/test_count.py::test_count": "The function has another name"},
        ends=MERGED,
    ),
    "file-moved-as-planned": Row(
        files={"tests/test_count.py": None, "tests/unit/test_number.py": COUNT_TESTS},
        changes={"tests/test_count.py": "Unit tests have a folder of their own"},
        ends=MERGED,
    ),
    "helper-changed-with-the-behaviour-as-planned": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "sum(prices) + (prices == [1, 1])"),
            "tests/checks.py": "def is_total(found, wanted):\n    assert found in (wanted, wanted + 1)\n",
        },
        changes={"tests/test_cart.py::test_helped": "Two equal prices cost one more"},
        ends=MERGED,
    ),
}

# --- unittest ------------------------------------------------------------------------------------

RUNNER = """\
import sys, unittest
from xml.sax.saxutils import quoteattr

class Result(unittest.TextTestResult):
    def startTestRun(self):
        self.lines = []
    def _add(self, test, inner=""):
        name, _, rest = test.id().rpartition(".")
        self.lines.append(f"<testcase classname={quoteattr(name)} name={quoteattr(rest)}>{inner}</testcase>")
    def addSuccess(self, test):
        self._add(test)
    def addFailure(self, test, why):
        self._add(test, "<failure/>")
    def addError(self, test, why):
        self._add(test, "<error/>")
    def addSkip(self, test, why):
        self._add(test, "<skipped/>")

sys.path[:0] = ["src", "."]
suite = unittest.defaultTestLoader.discover("tests", top_level_dir=".")
result = unittest.TextTestRunner(resultclass=Result).run(suite)
open("junit.xml", "w").write("<testsuite>" + "".join(result.lines) + "</testsuite>")
sys.exit("<failure/>" in "".join(result.lines) or "<error/>" in "".join(result.lines))
"""
CASES = """\
import unittest
from cart import total
from tests.cases import CartCase

class TestCart(CartCase):
    def test_one(self):
        self.check([2], 2)
    def test_two(self):
        self.assertEqual(total([2, 3]), 5)
"""
CASE = """\
import unittest
from cart import total

class CartCase(unittest.TestCase):
    def check(self, prices, wanted):
        self.assertEqual(total(prices), wanted)
"""
UNITTEST = Project(
    files={
        "src/cart.py": CART,
        "run_suite.py": RUNNER,
        "tests/__init__.py": "",
        "tests/cases.py": CASE,
        "tests/test_cart.py": CASES,
        ".gitignore": "__pycache__/\n",
    },
    steps=[{"name": "test", "cmd": [pytest_step()["cmd"][0], "-B", "run_suite.py"]}],
)
UNITTEST_CHEATS: Mapping[str, Row] = {
    "body-emptied": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "2"),
            "tests/test_cart.py": CASES.replace("self.assertEqual(total([2, 3]), 5)", "pass"),
        },
        ends=AS_ON_BASE,
    ),
    "base-class-emptied": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "5"),
            "tests/cases.py": CASE.replace("self.assertEqual(total(prices), wanted)", "pass"),
        },
        ends=AS_ON_BASE,
    ),
    "new-module-patches-the-code": Row(files={"src/cart.py": BROKEN, "tests/test_a.py": PATCH_CART}, ends=LEFT_ALONE),
    "new-module-patches-the-assertions": Row(
        files={
            "src/cart.py": BROKEN,
            "tests/test_a.py": "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n",
        },
        ends=LEFT_ALONE,
    ),
    "renamed": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "2"),
            "tests/test_cart.py": CASES.replace("test_two", "test_pair").replace(
                "self.assertEqual(total([2, 3]), 5)", "pass"
            ),
        },
        ends=MISSING,
    ),
}
UNITTEST_HONEST: Mapping[str, Row] = {
    "new-test": Row(
        files={"tests/test_more.py": CASES.replace("TestCart", "TestMore").replace("[2, 3]), 5", "[1]), 1")},
        ends=MERGED,
    ),
    "changed-as-planned": Row(
        files={
            "src/cart.py": CART.replace("sum(prices)", "min(sum(prices), 4)"),
            "tests/test_cart.py": CASES.replace("[2, 3]), 5", "[2, 3]), 4"),
        },
        changes={"tests/test_cart.py::TestCart::test_two": "Nothing costs more than 4"},
        ends=MERGED,
    ),
}

# --- node ----------------------------------------------------------------------------------------

NODE_CART = "exports.total = (prices) => prices.reduce((sum, price) => sum + price, 0)\n"
NODE_TESTS = """\
const test = require('node:test')
const { total } = require('../src/cart.js')
const { equals } = require('./checks.js')

test('one', () => equals(total([2]), 2))
test('two', () => equals(total([2, 3]), 5))
"""
NODE_CHECKS = "exports.equals = (found, wanted) => require('node:assert').equal(found, wanted)\n"
NODE = Project(
    needs="node",
    files={
        "package.json": '{"name": "cart", "private": true}\n',
        "src/cart.js": NODE_CART,
        "test/checks.js": NODE_CHECKS,
        "test/cart.test.js": NODE_TESTS,
    },
    steps=[
        {"name": "test", "cmd": ["node", "--test", "--test-reporter=junit", "--test-reporter-destination=junit.xml"]}
    ],
)
NODE_BROKEN = "exports.total = () => 2\n"
NODE_CHEATS: Mapping[str, Row] = {
    "body-emptied": Row(
        files={"src/cart.js": NODE_BROKEN, "test/cart.test.js": NODE_TESTS.replace("equals(total([2, 3]), 5)", "{}")},
        ends=AS_ON_BASE,
    ),
    "helper-emptied": Row(
        files={"src/cart.js": NODE_BROKEN, "test/checks.js": "exports.equals = () => {}\n"}, ends=AS_ON_BASE
    ),
    "as-many-others": Row(
        files={
            "src/cart.js": NODE_BROKEN,
            "test/cart.test.js": NODE_TESTS.replace("'two', () => equals(total([2, 3]), 5)", "'three', () => {}"),
        },
        ends=MISSING,
    ),
}
NODE_HONEST: Mapping[str, Row] = {
    "new-test": Row(
        files={"test/more.test.js": NODE_TESTS.replace("'one'", "'again'").replace("'two'", "'twice'")}, ends=MERGED
    ),
    "changed-as-planned": Row(
        files={
            "src/cart.js": "exports.total = (prices) => Math.min(4, prices.reduce((sum, price) => sum + price, 0))\n",
            "test/cart.test.js": NODE_TESTS.replace("[2, 3]), 5", "[2, 3]), 4"),
        },
        changes={"two": "Nothing costs more than 4"},
        ends=MERGED,
    ),
}

# --- Maven ---------------------------------------------------------------------------------------

MAVEN_SAMPLE = {
    path: content.decode() for path, content in sample_files(Path(__file__).parents[2] / "samples/maven").items()
}
MAVEN_CART, MAVEN_TESTS = "src/main/java/shop/Cart.java", "src/test/java/shop/CartTest.java"
MAVEN = Project(
    files=MAVEN_SAMPLE,
    steps=[{"name": "test", "cmd": ["mvn", "--batch-mode", "--quiet", "--offline", "test"]}],
    report="target/surefire-reports/TEST-*.xml",
    policy={"execution": {"sandbox_read": ["~/.m2/repository"]}},
    needs="mvn",
)
MAVEN_ROWS: Mapping[str, Row] = {
    "body-emptied": Row(
        files={
            MAVEN_CART: MAVEN_SAMPLE[MAVEN_CART].replace(".sum()", ".sum() + 1"),
            MAVEN_TESTS: MAVEN_SAMPLE[MAVEN_TESTS].replace("assertEquals(3, Cart.total(List.of(1, 2)));", ""),
        },
        ends=AS_ON_BASE,
    ),
    "method-renamed-with-its-tests-as-planned": Row(
        files={
            MAVEN_CART: MAVEN_SAMPLE[MAVEN_CART].replace("total(", "sum("),
            MAVEN_TESTS: MAVEN_SAMPLE[MAVEN_TESTS].replace("total(", "sum("),
        },
        changes={MAVEN_TESTS: "The method has another name"},
        ends=MERGED,
    ),
}

# --- Go ------------------------------------------------------------------------------------------

GO_CART = """\
package shop

func Total(prices []int) int {
	sum := 0
	for _, price := range prices {
		sum += price
	}
	return sum
}
"""
GO_BROKEN = "package shop\n\nfunc Total(prices []int) int { return 2 }\n"
GO_TESTS = """\
package shop

import "testing"

func TestOne(t *testing.T) {
	if Total([]int{2}) != 2 {
		t.Fatal("one")
	}
}

func TestEach(t *testing.T) {
	t.Run("two", func(t *testing.T) {
		if Total([]int{2, 3}) != 5 {
			t.Fatal("two")
		}
	})
}
"""
GO = Project(
    files={"go.mod": "module example.org/shop\n", "cart.go": GO_CART, "cart_test.go": GO_TESTS},
    steps=[{"name": "test", "cmd": ["go", "test", "-json", "./..."]}],
    printed="go_test_json",
    needs="go",
)
ENDS = 'import (\n\t"syscall"\n\t"testing"\n)'
GO_ROWS: Mapping[str, Row] = {
    "body-emptied": Row(
        files={"cart.go": GO_BROKEN, "cart_test.go": GO_TESTS.replace("[]int{2, 3}) != 5", "nil) != 2")},
        ends=AS_ON_BASE,
    ),
    "a-test-ends-the-process": Row(
        files={
            "cart.go": GO_BROKEN,
            "a_test.go": f"package shop\n\n{ENDS}\n\nfunc TestA(t *testing.T) {{\n\tsyscall.Exit(0)\n}}\n",
        },
        ends="gate_failed",
    ),
    "renamed": Row(
        files={"cart.go": GO_BROKEN, "cart_test.go": GO_TESTS.replace("TestEach", "TestSome").replace("!= 5", "!= 2")},
        ends=MISSING,
    ),
    "new-test-with-subtests": Row(
        files={"more_test.go": GO_TESTS.replace("TestOne", "TestMore").replace("TestEach", "TestAll")}, ends=MERGED
    ),
    "changed-as-planned": Row(
        files={"cart.go": GO_BROKEN, "cart_test.go": GO_TESTS.replace("[]int{2, 3}) != 5", "[]int{2, 3}) != 2")},
        changes={"cart_test.go::TestEach": "Everything costs 2"},
        ends=MERGED,
    ),
}

# --- Rust ----------------------------------------------------------------------------------------

RUST_CART = "pub fn total(prices: &[i32]) -> i32 {\n    prices.iter().sum()\n}\n"
RUST_BROKEN = "pub fn total(_prices: &[i32]) -> i32 {\n    2\n}\n"
RUST_TESTS = """\
use shop::total;

#[test]
fn one() {
    assert_eq!(total(&[2]), 2);
}

#[test]
fn two() {
    assert_eq!(total(&[2, 3]), 5);
}
"""
RUST = Project(
    files={
        "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n',
        "Cargo.lock": 'version = 3\n\n[[package]]\nname = "shop"\nversion = "0.1.0"\n',
        "src/lib.rs": RUST_CART,
        "tests/cart.rs": RUST_TESTS,
        ".gitignore": "target/\n",
    },
    steps=[{"name": "test", "cmd": ["cargo", "test", "--offline", "--locked", "--no-fail-fast"]}],
    printed="cargo_test",
    needs="cargo",
)
RUST_ROWS: Mapping[str, Row] = {
    "body-emptied": Row(
        files={"src/lib.rs": RUST_BROKEN, "tests/cart.rs": RUST_TESTS.replace("total(&[2, 3]), 5", "5, 5")},
        ends=AS_ON_BASE,
    ),
    "a-test-ends-the-process": Row(
        files={"tests/a.rs": "#[test]\nfn a() {\n    std::process::exit(0);\n}\n"}, ends="gate_failed"
    ),
    "new-test": Row(files={"tests/more.rs": RUST_TESTS}, ends=MERGED),
    "changed-as-planned": Row(
        files={"src/lib.rs": RUST_BROKEN, "tests/cart.rs": RUST_TESTS.replace("3]), 5", "3]), 2")},
        changes={"tests/cart.rs::two": "Everything costs 2"},
        ends=MERGED,
    ),
}

TABLES: Mapping[str, tuple[Project, Mapping[str, Row]]] = {
    "pytest": (PYTHON, {**PYTHON_CHEATS, **PYTHON_HONEST}),
    "unittest": (UNITTEST, {**UNITTEST_CHEATS, **UNITTEST_HONEST}),
    "node": (NODE, {**NODE_CHEATS, **NODE_HONEST}),
    "maven": (MAVEN, MAVEN_ROWS),
    "go": (GO, GO_ROWS),
    "rust": (RUST, RUST_ROWS),
}
SOAK = ("maven", "go", "rust")
ROWS = [
    pytest.param(project, row, id=f"{project}-{name}", marks=pytest.mark.soak if project in SOAK else ())
    for project, (_, rows) in TABLES.items()
    for name, row in rows.items()
]


@pytest.fixture(scope="session")
def base_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Each project as it is on its base branch, made when it is first asked for."""

    @cache
    def made(name: str) -> Path:
        return TABLES[name][0].made(tmp_path_factory.mktemp(name) / "repo")

    return made


@pytest.mark.series(8)
@pytest.mark.hostile("G07")
@pytest.mark.parametrize(("project", "row"), ROWS)
def test_a_test_of_the_base_is_neither_lost_nor_emptied(
    base_of: Callable[[str], Path], tmp_path: Path, project: str, row: Row
) -> None:
    TABLES[project][0].skip_without_its_program()
    ended = try_row(base_of(project), tmp_path / "repo", row)
    assert row.ends in ended
