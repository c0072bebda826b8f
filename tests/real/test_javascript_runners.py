"""Vitest and Jest, as npm has them, in gates: tests by name, those of the base, and reports that they write."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.hostile.gate_cheats.arena import MERGED, Project, Row, try_row
from tests.real.conftest import REAL

AS_ON_BASE = "run as the base has them, did not pass on the code of this feature"
MISSING = "of the base did not run and pass: "

PACKAGES = REAL / "javascript" / "node_modules"
"""Alone: each project gets a copy of all that lies there."""
CART = "exports.total = (prices) => prices.reduce((sum, price) => sum + price, 0)\n"
BROKEN = "exports.total = () => 2\n"
CHECKS = "exports.equals = (found, wanted) => require('node:assert').equal(found, wanted)\n"
TESTS = """\
const { total } = require('../src/cart.js')
const { equals } = require('./checks.js')

describe('the cart', () => {
  test('one', () => equals(total([2]), 2))
  test('two', () => equals(total([2, 3]), 5))
})
"""
FILES = {
    "package.json": '{"name": "cart", "private": true}\n',
    "src/cart.js": CART,
    "test/checks.js": CHECKS,
    "test/cart.test.js": TESTS,
    ".gitignore": "/node_modules\n",
}
LINKED = {"worktree": {"link": ["node_modules"]}}
PROJECTS = {
    "vitest": Project(
        files=FILES,
        steps=[
            {
                "name": "test",
                "cmd": ["node_modules/.bin/vitest", "run", "--globals", "--reporter=junit", "--outputFile=junit.xml"],
            }
        ],
        policy=LINKED,
    ),
    "jest": Project(
        files=FILES,
        steps=[
            {
                "name": "test",
                "cmd": ["node_modules/.bin/jest", "--ci", "--reporters=default", "--reporters=jest-junit"],
                "env": {"JEST_JUNIT_CLASSNAME": "{filepath}", "JEST_JUNIT_TITLE": "{classname} {title}"},
            }
        ],
        policy=LINKED,
    ),
}
ROWS: Mapping[str, Row] = {
    "broken": Row(files={"src/cart.js": BROKEN}, ends="gate_failed"),
    "body-emptied": Row(
        files={"src/cart.js": BROKEN, "test/cart.test.js": TESTS.replace("equals(total([2, 3]), 5)", "{}")},
        ends=AS_ON_BASE,
    ),
    "helper-emptied": Row(
        files={"src/cart.js": BROKEN, "test/checks.js": "exports.equals = () => {}\n"}, ends=AS_ON_BASE
    ),
    "as-many-others": Row(
        files={
            "src/cart.js": BROKEN,
            "test/cart.test.js": TESTS.replace("'two', () => equals(total([2, 3]), 5)", "'three', () => {}"),
        },
        ends=MISSING,
    ),
    "skipped": Row(
        files={"src/cart.js": BROKEN, "test/cart.test.js": TESTS.replace("test('two'", "test.skip('two'")},
        ends=MISSING,
    ),
    "settings": Row(
        files={"package.json": '{"name": "cart", "private": true, "jest": {"testMatch": []}}\n'}, ends="protected_path"
    ),
    "configuration": Row(files={"vitest.config.js": "module.exports = {}\n"}, ends="protected_path"),
    "new-test": Row(
        files={"test/more.test.js": TESTS.replace("'one'", "'again'").replace("'two'", "'twice'")}, ends=MERGED
    ),
    "refactored": Row(
        files={"src/cart.js": "exports.total = (prices) => { let s = 0; for (const p of prices) s += p; return s }\n"},
        ends=MERGED,
    ),
    "changed-as-planned": Row(
        files={
            "src/cart.js": "exports.total = (prices) => Math.min(4, prices.reduce((sum, price) => sum + price, 0))\n",
            "test/cart.test.js": TESTS.replace("[2, 3]), 5", "[2, 3]), 4"),
        },
        changes={"test/cart.test.js": "Nothing costs more than 4"},
        ends=MERGED,
    ),
}


@pytest.fixture(scope="session")
def base_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Each project as it is on its base branch, with the packages beside it."""

    @cache
    def made(name: str) -> Path:
        root = tmp_path_factory.mktemp(name) / "repo"
        shutil.copytree(PACKAGES, root / "node_modules", symlinks=True, copy_function=os.link)
        return PROJECTS[name].made(root)

    return made


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.hostile("G07")
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("runner", PROJECTS)
def test_a_test_of_a_javascript_runner_is_neither_lost_nor_emptied(
    base_of: Callable[[str], Path], tmp_path: Path, runner: str, row: Row
) -> None:
    if not (PACKAGES / ".bin" / runner).exists():
        pytest.skip("The programs are not installed: `make real` does that, where there is `npm`.")
    assert row.ends in try_row(base_of(runner), tmp_path / "repo", row)
