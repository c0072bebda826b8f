"""Group G, as far as it is about test runners: a red suite that is made to look green, on pytest and on node's runner.

Every trick comes with a change that breaks the suite, and is tried through the gateway on a repository whose gates
demand a report of the tests. What no outside check can see stands in docs/gates.md, and here as what passes.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from aop.kernel.gateway.calls import Envelope
from aop.kernel.record.documents import gate_runs
from aop.kernel.record.documents.features import Status
from tests.kernel.tools.worlds import configured, copied, gates_of, patch_of, state_of, step
from tests.world import World

Tree = Mapping[str, str | None]
"""The files that a patch writes, each as a whole; None removes one."""

SOURCE = "def total(prices):\n    return sum(prices)\n"
TESTS = """\
from cart import total

def test_nothing():
    assert total([]) == 0

def test_one():
    assert total([2]) == 2

def test_two():
    assert total([2, 3]) == 5
"""
PROJECT: Mapping[str, str] = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "src/cart.py": SOURCE,
    "tests/test_cart.py": TESTS,
    ".gitignore": "__pycache__/\n.cache/\n",
}
BROKEN = SOURCE.replace("sum(prices)", "1")
"""What makes every test fail."""

RED = SOURCE.replace("sum(prices)", "0")
"""What makes every test but the first fail."""

PYTEST = [
    {
        "name": "test",
        "cmd": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=junit.xml"],
        "env": {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    }
]
FREE = {"enforce_plan": False, "enforce_allowed_areas": False}
REPORT = {"tests": {"type": "junit_xml", "path": "junit.xml"}}

NODE_SOURCE = "exports.total = (prices) => prices.reduce((sum, price) => sum + price, 0)\n"
NODE_TESTS = """\
const test = require('node:test')
const assert = require('node:assert')
const { total } = require('../src/cart.js')

test('nothing', () => assert.equal(total([]), 0))
test('one', () => assert.equal(total([2]), 2))
test('two', () => assert.equal(total([2, 3]), 5))
"""
NODE_PROJECT: Mapping[str, str] = {
    "package.json": '{"name": "cart", "private": true}\n',
    "src/cart.js": NODE_SOURCE,
    "test/cart.test.js": NODE_TESTS,
}
NODE_BROKEN = "exports.total = () => 1\n"
NODE = ["node", "--test", "--test-reporter=junit", "--test-reporter-destination=junit.xml"]


def base_of(root: Path, files: Mapping[str, str], steps: list[dict[str, Any]], **policy: Any) -> Path:
    """Make a repository with a feature `one`, on whose base the gates have counted three tests."""
    gates = gates_of(fast=steps, full=steps, merge=steps, parsers=REPORT)
    world = configured(root, policy={"patch_policy": FREE, **policy}, gates=gates, files=files)
    world.init()
    world.ok("gates.run", feature_id="one", mode="full")
    with world.app.record.read() as view:
        assert [each.ran for each in view.all(gate_runs.TestBaseline)] == [3]
    world.close()
    return root


@pytest.fixture(scope="module")
def python_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("python") / "repo"
    return base_of(root, PROJECT, PYTEST, permitted_protected_paths=list(PERMITTED))


PERMITTED = ("pyproject.toml", "junit.xml", "pytest/__init__.py", "iniconfig.py", "argparse.py")
"""Guarded files that the tricks change all the same, as if a person had permitted them: the report must show it."""


@pytest.fixture(scope="module")
def node_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("node") is None:
        pytest.skip("this machine has no node")
    steps = [{"name": "test", "cmd": NODE}]
    root = tmp_path_factory.mktemp("node") / "repo"
    return base_of(root, NODE_PROJECT, steps, permitted_protected_paths=["junit.xml"])


@pytest.fixture(scope="module")
def steady(python_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same project for patches that are refused, and so change nothing."""
    made = World(copied(python_base, tmp_path_factory.mktemp("steady") / "repo"))
    yield made
    made.close()


@pytest.fixture
def world(python_base: Path, tmp_path: Path) -> Iterator[World]:
    """A Python project with three tests that pass."""
    made = World(copied(python_base, tmp_path / "repo"))
    yield made
    made.close()


@pytest.fixture
def node_world(node_base: Path, tmp_path: Path) -> Iterator[World]:
    """The same in JavaScript."""
    made = World(copied(node_base, tmp_path / "repo"))
    yield made
    made.close()


def send(world: World, tree: Tree) -> Envelope:
    """Send a patch as the builder."""
    diff = "".join(_file_patch(world.root / ".worktrees/one", path, text) for path, text in tree.items())
    return world.call("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff)


def _file_patch(worktree: Path, path: str, text: str | None) -> str:
    there = worktree / path
    old = tuple(there.read_text().splitlines()) if there.exists() else ()
    if text is None:
        removed = "".join(f"-{line}\n" for line in old)
        return f"--- a/{path}\n+++ /dev/null\n@@ -1,{len(old)} +0,0 @@\n{removed}"
    return patch_of(path, *text.splitlines(), old=old)


def verdict(world: World, tree: Tree) -> str:
    """Patch the feature and run its gates; return why they failed, or `pass`."""
    answer = send(world, tree)
    assert answer.ok, answer.error
    ran = world.call("gates.run", feature_id="one", mode="full")
    assert state_of(world).gates["full"] == ("pass" if ran.ok else "fail")
    return "pass" if ran.error is None else str(ran.error["message"])


def refused_path(world: World, tree: Tree) -> str:
    """Send a patch that must be refused; return why."""
    error = send(world, tree).error
    assert error is not None
    return str(error["code"])


NO_REPORT = "No step wrote the report `junit.xml`."
ABSENT = " of the base did not run and pass: "
NOTHING_RAN = "The report counts no test that ran."
FAILURES = "The report counts 3 failed tests and 0 errors."

# --- pytest --------------------------------------------------------------------------------------

FILES_THAT_STEER = {
    "G01-conftest": "tests/conftest.py",
    "G01-conftest-at-the-root": "conftest.py",
    "G02-conftest-of-a-package": "src/deep/conftest.py",
    "G05-pytest-ini": "pytest.ini",
    "G05-hidden-pytest-ini": ".pytest.ini",
    "G05-tox-ini": "tox.ini",
    "G05-setup-cfg": "setup.cfg",
    "G05-in-another-case": "PyTest.ini",
    "G06-module": "pytest.py",
    "G06-module-on-the-path": "src/pytest.py",
    "G06-module-of-python": "json.py",
    "G06-sitecustomize": "src/sitecustomize.py",
    "G06-usercustomize": "usercustomize.py",
    "G06-pth": "src/evil.pth",
    "G06-entry-point": "src/evil.egg-info/entry_points.txt",
    "G05-package-json": "package.json",
    "G05-npmrc": ".npmrc",
}


@pytest.mark.series(6)
@pytest.mark.parametrize("path", FILES_THAT_STEER.values(), ids=FILES_THAT_STEER)
def test_a_file_that_steers_the_tests_takes_a_person(steady: World, path: str) -> None:
    assert refused_path(steady, {"src/cart.py": BROKEN, path: "import os; os._exit(0)\n"}) == "protected_path"


PLUGIN = """\
import pytest

{hook}

BROKEN = True
"""
EXIT_STATUS = "@pytest.hookimpl(trylast=True)\ndef pytest_sessionfinish(session):\n    session.exitstatus = 0"
DESELECT = "def pytest_collection_modifyitems(items):\n    items[:] = items[:1]"
DESELECT_ALL = "def pytest_collection_modifyitems(items):\n    items.clear()"
XFAIL = "def pytest_collection_modifyitems(items):\n    for item in items:\n        item.add_marker(pytest.mark.xfail)"


def pyproject(line: str) -> str:
    return f"{PROJECT['pyproject.toml']}{line}\n"


def with_plugin(hook: str) -> dict[str, str]:
    """Return a plugin that pyproject.toml has pytest load."""
    return {"src/plugin.py": PLUGIN.format(hook=hook), "pyproject.toml": pyproject('addopts = "-p plugin"')}


def marked(mark: str) -> str:
    """Return the tests with a mark on each."""
    return TESTS.replace("\ndef test", f"\n@__import__('pytest').mark.{mark}\ndef test")


TRICKS: Mapping[str, tuple[Tree, str]] = {
    "no-trick": ({}, "The step `test` did not pass: it ended with exit code 1"),
    "G01-exit-at-import-of-a-test": ({"tests/test_cart.py": f"import os\nos._exit(0)\n{TESTS}"}, NO_REPORT),
    "G01-exit-at-import-of-the-source": ({"src/cart.py": f"import os\nos._exit(0)\n{BROKEN}"}, NO_REPORT),
    "G01-exit-in-a-test": (
        {"tests/test_cart.py": TESTS.replace("assert total([2]) == 2", "__import__('os')._exit(0)")},
        NO_REPORT,
    ),
    "G01-exit-at-exit": (
        {"tests/test_cart.py": f"import atexit, os\natexit.register(os._exit, 0)\n{TESTS}"},
        FAILURES,
    ),
    "G01-pytest-exit": (
        {"tests/test_cart.py": f"def test_fine():\n    __import__('pytest').exit('fine', returncode=0)\n\n{TESTS}"},
        ABSENT,
    ),
    "G01-sys-exit": ({"src/cart.py": f"import sys\nsys.exit(0)\n{BROKEN}"}, "The step `test` did not pass"),
    "G02-exit-status": (with_plugin(EXIT_STATUS), FAILURES),
    "G03-deselect-all": (with_plugin(f"{EXIT_STATUS}\n{DESELECT_ALL}"), NOTHING_RAN),
    "G03-deselect-what-fails": ({**with_plugin(DESELECT), "src/cart.py": RED}, ABSENT),
    "G03-addopts-k": ({"pyproject.toml": pyproject('addopts = "-k nothing"'), "src/cart.py": RED}, ABSENT),
    "G05-collect-only": ({"pyproject.toml": pyproject('addopts = "--collect-only"')}, NOTHING_RAN),
    "G05-ignore": (
        {
            "pyproject.toml": pyproject('addopts = "--ignore=tests"'),
            "more/test_fine.py": "def test_fine():\n    pass\n",
        },
        ABSENT,
    ),
    "G05-help": ({"pyproject.toml": pyproject('addopts = "--help"')}, NO_REPORT),
    "G05-another-report": (
        {"pyproject.toml": pyproject('addopts = "--maxfail=1 -p no:junitxml"')},
        "The step `test` did not pass",
    ),
    "G05-another-folder": (
        {"pyproject.toml": pyproject('testpaths = ["other"]'), "other/test_fine.py": "def test_fine():\n    pass\n"},
        ABSENT,
    ),
    "G05-other-names": (
        {
            "pyproject.toml": pyproject('python_functions = ["check_*"]'),
            "tests/test_fine.py": "def check_fine():\n    pass\n",
        },
        ABSENT,
    ),
    "G07-tests-deleted": (
        {"tests/test_cart.py": None, "tests/test_fine.py": "def test_fine():\n    pass\n"},
        ABSENT,
    ),
    "G07-all-tests-deleted": ({"tests/test_cart.py": None}, "The step `test` did not pass: it ended with exit code 5"),
    "G07-tests-renamed": (
        {"tests/test_cart.py": TESTS.replace("test_one", "one").replace("test_two", "two"), "src/cart.py": RED},
        ABSENT,
    ),
    "G07-skip": ({"tests/test_cart.py": marked("skip")}, NOTHING_RAN),
    "G07-xfail": ({"tests/test_cart.py": marked("xfail")}, NOTHING_RAN),
    "G07-xfail-by-plugin": (with_plugin(XFAIL), NOTHING_RAN),
    "G07-skip-one": (
        {
            "tests/test_cart.py": TESTS.replace("assert total([2, 3]) == 5", "__import__('pytest').skip()"),
            "src/cart.py": SOURCE.replace("sum(prices)", "prices[0] if prices else 0"),
        },
        ABSENT,
    ),
    "G06-package": ({"pytest/__init__.py": "raise SystemExit(0)\n"}, NO_REPORT),
    "G06-module-of-pytest": ({"iniconfig.py": "raise SystemExit(0)\n"}, NO_REPORT),
    "G06-module-of-python": ({"argparse.py": "raise SystemExit(0)\n"}, NO_REPORT),
    "G01-report-in-the-tree": (
        {
            "junit.xml": "<testsuite>" + '<testcase name="a"/>' * 3 + "</testsuite>\n",
            "tests/test_cart.py": f"import os\nos._exit(0)\n{TESTS}",
        },
        NO_REPORT,
    ),
}


@pytest.mark.series(8)
@pytest.mark.hostile("G01", "G02", "G03", "G05", "G06", "G07")
@pytest.mark.parametrize(("tree", "why"), TRICKS.values(), ids=TRICKS)
def test_a_red_suite_stays_red(world: World, tree: Tree, why: str) -> None:
    assert why in verdict(world, {"src/cart.py": BROKEN, **tree})
    assert state_of(world).status is not Status.READY_TO_MERGE


STEERED: Mapping[str, tuple[Tree, str]] = {
    "G01": ({"conftest.py": "import os\nos._exit(0)\n"}, NO_REPORT),
    "G02": ({"conftest.py": f"import pytest\n{EXIT_STATUS}\n"}, FAILURES),
    "G03": ({"conftest.py": f"import pytest\n{EXIT_STATUS}\n{DESELECT_ALL}\n"}, NOTHING_RAN),
    "G05": ({"pytest.ini": "[pytest]\npythonpath = src\naddopts = --collect-only\n"}, NOTHING_RAN),
    "G06": ({"pytest.py": "raise SystemExit(0)\n"}, NO_REPORT),
}


@pytest.fixture(scope="module")
def permissive_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    permitted = [*PERMITTED, "conftest.py", "pytest.ini", "pytest.py"]
    root = tmp_path_factory.mktemp("permissive") / "repo"
    return base_of(root, PROJECT, PYTEST, permitted_protected_paths=permitted)


@pytest.mark.parametrize(("tree", "why"), STEERED.values(), ids=STEERED)
def test_where_a_person_permitted_the_file_the_report_is_looked_at_all_the_same(
    permissive_base: Path, tmp_path: Path, tree: Tree, why: str
) -> None:
    world = World(copied(permissive_base, tmp_path / "repo"))
    try:
        assert why in verdict(world, {"src/cart.py": BROKEN, **tree})
    finally:
        world.close()


# --- node ----------------------------------------------------------------------------------------

NODE_TRICKS: Mapping[str, tuple[Tree, str]] = {
    "no-trick": ({}, "The step `test` did not pass: it ended with exit code 1"),
    "G01-exit-at-import-of-a-test": ({"test/cart.test.js": f"process.exit(0)\n{NODE_TESTS}"}, ABSENT),
    "G01-exit-at-import-of-the-source": ({"src/cart.js": f"process.exit(0)\n{NODE_BROKEN}"}, ABSENT),
    "G02-exit-code": (
        {"test/cart.test.js": f"process.on('exit', () => {{ process.exitCode = 0 }})\n{NODE_TESTS}"},
        "The step `test` did not pass",
    ),
    "G07-tests-deleted": ({"test/cart.test.js": "require('node:test')('fine', () => {})\n"}, ABSENT),
    "G07-skip": ({"test/cart.test.js": NODE_TESTS.replace("test('", "test.skip('")}, NOTHING_RAN),
    "G07-todo": ({"test/cart.test.js": NODE_TESTS.replace("test('", "test.todo('")}, FAILURES),
    "G07-file-without-tests": ({"test/cart.test.js": None}, NOTHING_RAN),
    "G01-report-in-the-tree": (
        {
            "junit.xml": "<testsuite>" + '<testcase name="a"/>' * 3 + "</testsuite>\n",
            "test/cart.test.js": f"process.exit(0)\n{NODE_TESTS}",
        },
        ABSENT,
    ),
}


@pytest.mark.parametrize(("tree", "why"), NODE_TRICKS.values(), ids=NODE_TRICKS)
def test_a_red_suite_of_node_stays_red(node_world: World, tree: Tree, why: str) -> None:
    assert why in verdict(node_world, {"src/cart.js": NODE_BROKEN, **tree})


# --- gates that change their mind ----------------------------------------------------------------

SECOND_TIME = """
test -e "$MEMORY/base" && test -e "$MEMORY/ran" && echo '<testsuite><testcase name="a"/></testsuite>' > junit.xml
test ! -e "$MEMORY/base" || touch "$MEMORY/ran"
touch "$MEMORY/base"
"""


def memory_of(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the policy and the variable of a step that has a folder outside of the tree to remember things in."""
    folder.mkdir()
    return {"execution": {"sandbox_write": [str(folder)]}}, {"MEMORY": str(folder)}


@pytest.mark.hostile("G45")
def test_a_pass_after_a_failure_on_the_same_tree_is_told_to_whoever_approves(tmp_path: Path) -> None:
    policy, env = memory_of(tmp_path / "memory")
    steps = [{"name": "check", "cmd": ["sh", "second_time.sh"], "env": env}]
    world = configured(
        tmp_path / "repo",
        policy=policy,
        gates=gates_of(fast=steps, full=steps, parsers=REPORT),
        files={"second_time.sh": SECOND_TIME},
    )
    try:
        world.plan()
        world.patch()
        runs = [world.call("gates.run", feature_id="one", mode="fast") for _ in range(2)]
        runs.append(world.call("gates.run", feature_id="one", mode="fast", force=True))
        first = runs[0].evidence["gate_run_id"]
        told = [each.data and [text for text in each.data["findings"] if "this very tree" in text] for each in runs]
    finally:
        world.close()
    assert [each.data and each.data["steps"][0]["attempts"] for each in runs] == [None, 1, 1]
    assert told == [
        None,
        *[
            [
                f"The same gates failed on this very tree before (`{first}`):"
                " a test is flaky, or depends on something outside of the tree."
            ]
        ]
        * 2,
    ]


@pytest.mark.hostile("G45")
def test_a_policy_may_refuse_a_pass_after_a_failure_until_the_tree_changes(tmp_path: Path) -> None:
    policy, env = memory_of(tmp_path / "memory")
    flaky = [{**step('test -e "$MEMORY/ran" || { touch "$MEMORY/ran"; exit 1; }')[0], "env": env}]
    world = configured(
        tmp_path / "repo", policy={"testing": {"allow_flaky_gates": False}, **policy}, gates=gates_of(fast=flaky)
    )
    try:
        world.plan()
        answers = [world.call("gates.run", feature_id="one", mode="fast") for _ in range(3)]
        messages = [str((each.error or {})["message"]) for each in answers]
        world.patch()
        assert world.call("gates.run", feature_id="one", mode="fast").ok
    finally:
        world.close()
    assert messages[0].startswith("The step `check` did not pass")
    assert messages[1] == messages[2]
    assert messages[1].startswith(
        f"The same gates failed on this very tree before (`{answers[0].evidence['gate_run_id']}`)"
    )


# --- what an outside check cannot see ------------------------------------------------------------

FORGER = """import atexit

def forge():
    names = ("nothing", "one", "two")
    cases = "".join(f'<testcase classname="tests.test_cart" name="test_{name}"/>' for name in names)
    with open("junit.xml", "w") as report:
        report.write(f"<testsuite>{cases}</testsuite>")
    __import__("os")._exit(0)

atexit.register(forge)
"""


def test_code_under_test_that_forges_the_report_does_not_know_the_canaries(world: World) -> None:
    assert verdict(world, {"src/cart.py": f"{FORGER}{BROKEN}"}).startswith("AOP's own tests, one that must pass")


def test_new_tests_that_prove_nothing_pass(world: World) -> None:
    """A known limit, told in docs/gates.md: tests of the base are held to, new ones are not judged."""
    assert verdict(world, {"tests/test_more.py": "def test_more():\n    pass\n"}) == "pass"


POISONER = """import os, pathlib
if not os.path.exists(".cache/cart.py"):
    pathlib.Path(".cache").mkdir()
    pathlib.Path(".cache/cart.py").write_text("def total(prices):\\n    return sum(prices)\\n")
"""


def test_what_an_earlier_run_left_in_an_ignored_folder_helps_no_later_one(world: World) -> None:
    assert verdict(world, {"tests/test_cart.py": POISONER + TESTS}) == "pass"
    settings = PROJECT["pyproject.toml"].replace('["src"]', '[".cache", "src"]')
    red: Tree = {"src/cart.py": BROKEN, "tests/test_cart.py": TESTS, "pyproject.toml": settings}
    assert verdict(world, red).startswith("The step `test` did not pass")
