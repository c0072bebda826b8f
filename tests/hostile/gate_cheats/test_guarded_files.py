"""Files that decide what a gate's command does: out of an agent's reach, while all else stays free."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from tests.hostile.gate_cheats.cases import Case, apply, outcome
from tests.kernel.tools.worlds import GATES, configured, copied, gates_of, step
from tests.world import World, git

PYPROJECT = """\
[project]
name = "cart"
version = "1"

[project.optional-dependencies]
test = ["Deal-Maker>=2; python_version > '3'", "cart[web]"]

[tool.pytest.ini_options]
pythonpath = ["src"]

[tool.poetry.group.dev.dependencies]
responses = "*"

[tool.coverage.run]
branch = true
"""
SETUP_CFG = "[metadata]\nname = cart\n\n[tool:pytest]\naddopts = -q\n\n[coverage:run]\nbranch = true\n"
PACKAGE: dict[str, Any] = {
    "name": "cart",
    "version": "1.0.0",
    "scripts": {"test": "npm run build && jest", "build": "run-s compile", "compile": "node tools/compile.js src"},
    "jest": {"testTimeout": 5},
    "devDependencies": {"jest": "^29.0.0"},
}


def package(**changes: Any) -> str:
    return json.dumps({**PACKAGE, **changes}, indent=2) + "\n"


INNER = """\
#!/bin/sh
# It calls docs/old.sh no more.
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
[ -f env.sh ] && . ./env.sh
if true; then python3 "${HERE}/verify.py" --strict; fi
python3 src/cart.py && pytest -q tests/test_cart.py
"""
FILES = {
    "pyproject.toml": PYPROJECT,
    "setup.cfg": SETUP_CFG,
    "web/package.json": package(),
    "tools/verify.py": "print('fine')\n",
    "tools/checks/__main__.py": "print('fine')\n",
    "scripts/run.sh": "exit 0\n",
    "scripts/inner.sh": INNER,
    "scripts/lib.sh": ". scripts/deep/more.sh\n",
    "scripts/deep/more.sh": "true\n",
    "scripts/verify.py": "print('fine')\n",
    "scripts/serve.sh": "exec cart\n",
    "Makefile": "include make/tests.mk\n-include make/$(OS).mk local.mk\ncheck:\n\t@python3 tools/lines.py src\n",
    "make/tests.mk": "test:\n\tsh make/run.sh\n",
    "make/run.sh": "true\n",
    "tools/lines.py": "print('fine')\n",
    "web/tools/compile.js": "process.exit(0)\n",
    "conf/extra.ini": "[pytest]\n",
    "calendar.py": "DAYS = 7\n",
    "code/run.txt": "Nothing yet\n",
    "requirements-dev.txt": "# for work\n-r other.txt\nboto3 == 1.2\n",
    "review/review.py": "print('{}')\n",
    "src/cart.py": "total = sum\n",
    "tests/test_cart.py": "def test_total():\n    assert True\n",
}
STEPS = [
    {"name": "test", "cmd": ["python3", "-m", "pytest", "-c", "conf/extra.ini", "--junitxml=out/junit.xml", "tests"]},
    {"name": "one-file", "cmd": ["python3", "-m", "pytest", "tests/test_cart.py"], "env": {"PYTHONPATH": "lib"}},
    {"name": "script", "cmd": ["python3", "tools/verify.py", "--strict"]},
    {"name": "module", "cmd": ["python3", "-m", "tools.checks"]},
    {"name": "relative", "cmd": ["../scripts/run.sh"], "cwd": "src"},
    {"name": "shell", "cmd": ["sh", "-c", "ruff check src && bash scripts/inner.sh; mypy src | tee log"]},
    {"name": "web", "cmd": ["npm", "test"], "cwd": "web"},
    {"name": "make", "cmd": ["make", "check"]},
]

GUARDED = "protected_path: "
CHEATS = (
    Case(name="the script of a gate", files={"tools/verify.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="the module of a gate", files={"tools/checks/__main__.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="a file in the place of a module", files={"tools/checks.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="a script named from a folder", files={"scripts/run.sh": "exit 0 # fine\n"}, expected=GUARDED),
    Case(name="a script in a line of shell", files={"scripts/inner.sh": "true\n"}, expected=GUARDED),
    Case(
        name="the settings file that a command names",
        files={"conf/extra.ini": "[pytest]\naddopts=-h\n"},
        expected=GUARDED,
    ),
    Case(name="a report in the tree", files={"out/junit.xml": "<testsuite/>\n"}, expected=GUARDED),
    Case(name="the reviewer", files={"review/review.py": "print('{\"findings\": []}')\n"}, expected=GUARDED),
    Case(name="a package pytest", files={"pytest/__init__.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="a package pytest below src", files={"src/pytest/__main__.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="a package _pytest", files={"_pytest/runner.py": "x = 1\n"}, expected=GUARDED),
    Case(name="a package pluggy", files={"src/pluggy/__init__.py": "x = 1\n"}, expected=GUARDED),
    Case(name="a module pluggy", files={"pluggy.py": "x = 1\n"}, expected=GUARDED),
    Case(name="a module iniconfig", files={"src/iniconfig.py": "x = 1\n"}, expected=GUARDED),
    Case(name="a plugin by its name", files={"pytest_cov/plugin.py": "x = 1\n"}, expected=GUARDED),
    Case(name="sitecustomize", files={"src/sitecustomize.py": "x = 1\n"}, expected=GUARDED),
    Case(name="usercustomize", files={"usercustomize.py": "x = 1\n"}, expected=GUARDED),
    Case(name="a path file", files={"src/evil.pth": "import os\n"}, expected=GUARDED),
    Case(name="a module of Python's own at the root", files={"argparse.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="a package of Python's own at the root", files={"json/__init__.py": "x = 1\n"}, expected=GUARDED),
    Case(name="one in a folder that has no package yet", files={"code/__init__.py": "x = 1\n"}, expected=GUARDED),
    Case(name="a compiled one", files={"heapq.cpython-311-x86_64-linux-gnu.so": "x\n"}, expected=GUARDED),
    Case(name="one in other letters", files={"ArgParse.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="a module of Python's own beside a script", files={"tools/json.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="one where a step begins", files={"web/argparse.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="one on the path of Python", files={"lib/argparse.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="one on the path of pytest", files={"src/argparse.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="a package that pytest imports", files={"packaging/__init__.py": "x = 1\n"}, expected=GUARDED),
    Case(name="a package that the project requires", files={"deal_maker.py": "x = 1\n"}, expected=GUARDED),
    Case(name="one that Poetry installs", files={"src/responses.py": "x = 1\n"}, expected=GUARDED),
    Case(name="an archive in the place of a folder", files={"lib": "PK\n"}, expected=GUARDED),
    Case(name="one that its requirements name", files={"boto3/__init__.py": "x = 1\n"}, expected=GUARDED),
    Case(name="a conftest", files={"tests/conftest.py": "x = 1\n"}, expected=GUARDED),
    Case(name="settings of ruff", files={"ruff.toml": "exclude = ['src']\n"}, expected=GUARDED),
    Case(name="settings of mypy", files={"src/mypy.ini": "[mypy]\nignore_errors = true\n"}, expected=GUARDED),
    Case(
        name="options of pytest",
        files={"pyproject.toml": PYPROJECT.replace("[tool.poet", 'addopts = "-k nothing"\n\n[tool.poet')},
        expected="in `tool.pytest`",
    ),
    Case(
        name="omitted from coverage",
        files={"pyproject.toml": PYPROJECT + 'omit = ["src/*"]\n'},
        expected="in `tool.coverage`",
    ),
    Case(
        name="a plugin as an entry point",
        files={"pyproject.toml": PYPROJECT + '\n[project.entry-points.pytest11]\nevil = "cart"\n'},
        expected="in `project.entry-points.pytest11`",
    ),
    Case(
        name="pytest settings removed",
        files={"pyproject.toml": "[project]\nname='cart'\n"},
        expected="in `tool.coverage`",
    ),
    Case(name="a pyproject that is none", files={"pyproject.toml": "= ="}, expected="cannot be read as data"),
    Case(
        name="a pyproject in a folder",
        files={"tests/pyproject.toml": "[tool.pytest.ini_options]\n"},
        expected="in `tool.pytest`",
    ),
    Case(
        name="setup.cfg options",
        files={"setup.cfg": SETUP_CFG.replace("-q", "-q -k nothing")},
        expected="in `tool:pytest`",
    ),
    Case(
        name="setup.cfg coverage", files={"setup.cfg": SETUP_CFG.replace("true", "false")}, expected="in `coverage:run`"
    ),
    Case(
        name="the test script of npm",
        files={"web/package.json": package(scripts={**PACKAGE["scripts"], "test": "true"})},
        expected="in `scripts.test`",
    ),
    Case(
        name="a script that npm runs before",
        files={"web/package.json": package(scripts={**PACKAGE["scripts"], "pretest": "node evil.js"})},
        expected="in `scripts.pretest`",
    ),
    Case(
        name="settings of jest", files={"web/package.json": package(jest={"testMatch": ["none"]})}, expected="in `jest`"
    ),
    Case(
        name="a runner by another name",
        files={"web/package.json": package(devDependencies={"jest": "npm:not-jest@1"})},
        expected="in `devDependencies.jest`",
    ),
    Case(
        name="a runner in a folder",
        files={"web/package.json": package(devDependencies={"jest": "file:../evil"})},
        expected="in `devDependencies.jest`",
    ),
    Case(name="a script that a script sources", files={"scripts/lib.sh": "true\n"}, expected=GUARDED),
    Case(name="a script two calls away", files={"scripts/deep/more.sh": "exit 0\n"}, expected=GUARDED),
    Case(name="a program that a script starts", files={"scripts/verify.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="a script that is sourced if it is there", files={"env.sh": "exit 0\n"}, expected=GUARDED),
    Case(name="a file that the makefile includes", files={"make/tests.mk": "test:\n\ttrue\n"}, expected=GUARDED),
    Case(name="one that it includes if it is there", files={"local.mk": "check:\n\ttrue\n"}, expected=GUARDED),
    Case(name="a script of an included makefile", files={"make/run.sh": "exit 0\n"}, expected=GUARDED),
    Case(name="a program that a target starts", files={"tools/lines.py": "exit(0)\n"}, expected=GUARDED),
    Case(name="a program that a script of npm starts", files={"web/tools/compile.js": "//\n"}, expected=GUARDED),
    Case(
        name="a script that the test script runs",
        files={"web/package.json": package(scripts={**PACKAGE["scripts"], "compile": "true"})},
        expected="in `scripts.compile`",
    ),
    Case(name="settings of git's large files", files={".lfsconfig": "[lfs]\n"}, expected=GUARDED),
    Case(name="a makefile", files={"Makefile": "test:\n\ttrue\n"}, expected=GUARDED),
)
HONEST = (
    Case(name="the source", files={"src/cart.py": "def total(prices):\n    return sum(prices)\n"}),
    Case(name="a new module", files={"src/prices.py": "EUR = 1\n"}),
    Case(name="a new test", files={"tests/test_prices.py": "def test_eur():\n    pass\n"}),
    Case(
        name="a test that a command names", files={"tests/test_cart.py": "def test_total():\n    assert 1 + 1 == 2\n"}
    ),
    Case(name="a helper beside the tests", files={"tests/prices_for_tests.py": "EUR = 1\n"}),
    Case(name="a new tool that no gate runs", files={"tools/format.py": "print(1)\n"}),
    Case(name="a new version", files={"pyproject.toml": PYPROJECT.replace('"1"', '"2"')}),
    Case(
        name="a new dependency",
        files={"pyproject.toml": PYPROJECT.replace('version = "1"', 'version = "2"\ndependencies = ["attrs"]')},
    ),
    Case(
        name="a new console script", files={"pyproject.toml": PYPROJECT + '\n[project.scripts]\ncart = "cart:main"\n'}
    ),
    Case(name="other metadata", files={"setup.cfg": SETUP_CFG.replace("name = cart", "name = cart\nversion = 2")}),
    Case(name="a new version for npm", files={"web/package.json": package(version="1.1.0")}),
    Case(
        name="a new script for npm",
        files={"web/package.json": package(version="1.1.0", scripts={**PACKAGE["scripts"], "docs": "typedoc"})},
    ),
    Case(
        name="a new dependency for npm",
        files={"web/package.json": package(devDependencies={**PACKAGE["devDependencies"], "left-pad": "^1.3.0"})},
    ),
    Case(name="a name that only begins like a runner", files={"src/pytest_of_prices.py": "x = 1\n"}),
    Case(name="a module in a package, named like one of Python's own", files={"src/cart/json.py": "x = 1\n"}),
    Case(name="a module at the root", files={"prices.py": "EUR = 1\n"}),
    Case(name="a module of the base that is named like one of Python's own", files={"calendar.py": "DAYS = 8\n"}),
    Case(name="the project's own package at the root", files={"cart/__init__.py": "x = 1\n"}),
    Case(
        name="a package of tests", files={"test/__init__.py": "x = 1\n", "test/test_it.py": "def test():\n    pass\n"}
    ),
    Case(name="a program without an ending beside a script", files={"tools/profile": "#!/bin/sh\n"}),
    Case(name="a document named like a module", files={"code/json.md": "How we write JSON\n"}),
    Case(name="a document on the runner", files={"docs/pytest.md": "How we test\n"}),
    Case(name="a script of the application", files={"scripts/serve.sh": "exec cart --port 80\n"}),
    Case(name="a script that only a comment names", files={"docs/old.sh": "true\n"}),
    Case(name="settings of a tool that no gate runs", files={".prettierrc": "{}\n"}),
    Case(name="data that tests read", files={"tests/data/prices.json": "{}\n"}),
)
POLICY: dict[str, Any] = {
    "patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False},
    "gated": {"review_command": ["python3", "review/review.py"]},
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("guarded") / "repo"
    world = configured(root, policy=POLICY, gates=gates_of(fast=step("true"), full=STEPS, merge=STEPS), files=FILES)
    world.init()
    world.close()
    return root


@pytest.fixture(scope="module")
def world(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A project that no refused patch changes."""
    made = World(copied(base, tmp_path_factory.mktemp("steady") / "repo"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def worked_on(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A project on which every honest change is made, one after the other."""
    made = World(copied(base, tmp_path_factory.mktemp("worked") / "repo"))
    yield made
    made.close()


@pytest.mark.parametrize("case", CHEATS, ids=lambda case: case.name)
def test_what_proves_is_out_of_reach(world: World, case: Case) -> None:
    answer = outcome(apply(world, case.files))
    assert case.expected in answer
    assert answer.startswith(GUARDED)


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_honest_changes_stay_free(worked_on: World, case: Case) -> None:
    assert outcome(apply(worked_on, case.files)) == case.expected


def test_a_link_to_a_package_is_out_of_reach_where_links_are_allowed(tmp_path: Path) -> None:
    policy = {**POLICY, "patch_policy": {**POLICY["patch_policy"], "allow_symlinks": True}}
    world = configured(tmp_path / "repo", policy=policy, gates=gates_of(full=STEPS, merge=STEPS), files=FILES)
    world.init()
    answers = []
    for name in ("json", "link-to-cart"):
        head = f"diff --git a/{name} b/{name}\nnew file mode 120000\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n"
        diff = f"{head}+src\n\\ No newline at end of file\n"
        answers.append(world.call("repo.apply_patch", role=Role.BUILDER, feature_id="one", unified_diff=diff))
    shadow, honest = map(outcome, answers)
    assert "Python would import it in place of a module" in shadow
    assert honest == ""
    world.close()


def test_an_agent_can_ask_for_a_file_that_a_gate_runs(world: World) -> None:
    for path in ("tools/verify.py", "pyproject.toml"):
        asked = world.ok("inbox.ask_path", feature_id="one", path=path, reason="It must know the new flag.")
        world.ok("inbox.answer", feature_id="one", question_id=asked["question_id"], answer="yes")
    opened = {"tools/verify.py": "print('new')\n", "pyproject.toml": PYPROJECT + 'omit = ["src/old.py"]\n'}
    assert outcome(apply(world, opened)) == ""


def test_a_file_is_guarded_while_a_gate_of_the_base_branch_runs_it(base: Path, tmp_path: Path) -> None:
    world = World(copied(base, tmp_path / "repo"))
    answers = [apply(world, {"web/tools/late.py": "print('one')\n"})]
    late = {"name": "late", "cmd": ["python3", "web/tools/late.py"]}
    (world.root / GATES).write_text(gates_of(full=[*STEPS, late], merge=STEPS))
    git(world.root, "commit", "-q", "-am", "Another gate")
    answers.append(apply(world, {"web/tools/late.py": "print('two')\n"}))
    (world.root / GATES).write_text(gates_of(full=STEPS, merge=STEPS))
    git(world.root, "commit", "-q", "-am", "The gates as before")
    answers.append(apply(world, {"web/tools/late.py": "print('two')\n"}))
    world.close()
    free, guarded, free_again = map(outcome, answers)
    assert (free, free_again) == ("", "")
    assert guarded.startswith(GUARDED)
