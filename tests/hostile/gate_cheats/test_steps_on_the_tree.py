"""Code that one step runs, and that would rewrite what the next one judges: each step begins on exactly the tree."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.gate_cheats.cases import PASSES, Case, apply, outcome
from tests.kernel.tools.worlds import configured, gates_of
from tests.world import World, git

# The second step judges a limit with a rule of the repository, a package that the set-up installed, and a built file.
CHECK = """\
import pathlib, sys
sys.path[:0] = ["rules", ".installed"]
import limits, installed
assert limits.of(pathlib.Path("src/limit.txt").read_text()) == installed.LIMIT == 10, "the limit is not 10"
"""
FILES = {
    ".gitignore": "__pycache__/\n.installed/\n.cache/\nbuilt/\n",
    "check.py": CHECK,
    "rules/limits.py": "def of(text):\n    return int(text)\n",
    "src/limit.txt": "10\n",
    "tests/test_limit.py": "import unittest\n",
}
SETTING_UP = {"setup": [{"cmd": ["sh", "-c", "mkdir .installed && echo LIMIT = 10 > .installed/installed.py"]}]}
FIRST = {"name": "test", "cmd": [sys.executable, "-B", "-m", "unittest", "-q", "tests/test_limit.py"]}
SECOND = {"name": "check", "cmd": [sys.executable, "check.py"]}
RED = {"src/limit.txt": "99\n"}
FAILS = "The step `check` did not pass"


def code_in_tests(script: str) -> str:
    """Return a test file that runs a script when it is imported, whatever comes of it."""
    body = "".join(f"    {line}\n" for line in script.splitlines())
    return f"import os, pathlib, shutil, sys, unittest\ntry:\n{body}except Exception as error:\n    print(error)\n"


GREEN = "pathlib.Path('src/limit.txt').write_text('10')"
PYC = """\
import importlib.util, importlib._bootstrap_external as raw
code = compile('def of(text):\\n    return 10\\n', 'rules/limits.py', 'exec')
place = pathlib.Path(importlib.util.cache_from_source('rules/limits.py'))
place.parent.mkdir(exist_ok=True)
place.write_bytes(raw._code_to_hash_pyc(code, b'12345678', checked=False))"""
CHEATS = (
    Case(name="no trick", files=RED, expected=FAILS),
    Case(name="a file of the tree", files={**RED, "tests/test_limit.py": code_in_tests(GREEN)}, expected=FAILS),
    Case(
        name="the same size and time",
        files={
            **RED,
            "tests/test_limit.py": code_in_tests(
                f"at = os.stat('src/limit.txt').st_mtime_ns\n{GREEN}\nos.utime('src/limit.txt', ns=(at, at))"
            ),
        },
        expected=FAILS,
    ),
    Case(
        name="the script of the gate",
        files={**RED, "tests/test_limit.py": code_in_tests("pathlib.Path('check.py').write_text('')")},
        expected=FAILS,
    ),
    Case(
        name="a module that shadows one of Python",
        files={
            **RED,
            "tests/test_limit.py": code_in_tests("pathlib.Path('pathlib.py').write_text('raise SystemExit(0)')"),
        },
        expected=FAILS,
    ),
    Case(name="a compiled file in a cache", files={**RED, "tests/test_limit.py": code_in_tests(PYC)}, expected=FAILS),
    Case(
        name="what the set-up installed",
        files={
            **RED,
            "tests/test_limit.py": code_in_tests(
                "pathlib.Path('.installed/installed.py').write_text('raise SystemExit(0)')"
            ),
        },
        expected=FAILS,
    ),
    Case(
        name="another folder in the place of the installed one",
        files={
            **RED,
            "tests/test_limit.py": code_in_tests(
                "os.rename('.installed', '.cache')\nos.mkdir('.installed')\n"
                "pathlib.Path('.installed/installed.py').write_text('raise SystemExit(0)')"
            ),
        },
        expected=FAILS,
    ),
    Case(
        name="a link in the place of a folder",
        files={
            **RED,
            "tests/test_limit.py": code_in_tests(
                "os.mkdir('.cache')\npathlib.Path('.cache/limit.txt').write_text('10')\n"
                "shutil.rmtree('src')\nos.symlink('.cache', 'src')"
            ),
        },
        expected=FAILS,
    ),
    Case(
        name="a package beside the tree",
        files={
            **RED,
            "tests/test_limit.py": code_in_tests(
                "os.mkdir('rules/limits')\npathlib.Path('rules/limits/__init__.py').write_text('raise SystemExit(0)')"
            ),
        },
        expected=FAILS,
    ),
    Case(
        name="rules of git that hide a file",
        files={
            **RED,
            "tests/test_limit.py": code_in_tests(
                "pathlib.Path('.gitignore').write_text('*')\n"
                "pathlib.Path('pathlib.py').write_text('raise SystemExit(0)')"
            ),
        },
        expected=FAILS,
    ),
    Case(
        name="git's own index",
        files={
            **RED,
            "tests/test_limit.py": code_in_tests(
                f"{GREEN}\nos.system('git update-index --assume-unchanged src/limit.txt; git add -A; rm -f .git')"
            ),
        },
        expected=FAILS,
    ),
)
HONEST = (
    Case(name="nothing but source", files={"src/limit.txt": "+10\n"}),
    Case(
        name="a cache",
        files={"tests/test_limit.py": code_in_tests("os.mkdir('.cache')\nopen('.cache/x', 'w').close()")},
    ),
    Case(name="a file beside the tree", files={"tests/test_limit.py": code_in_tests("open('left.txt', 'w').close()")}),
    Case(name="a file that is written anew", files={"tests/test_limit.py": code_in_tests(GREEN)}),
    Case(name="a new rule", files={"rules/limits.py": "def of(text):\n    return int(text.strip())\n"}),
)


def world_of(root: Path, steps: list[dict[str, Any]], **more: Any) -> World:
    """Make a repository with a feature, whose gates are these steps in every mode."""
    policy = {
        "patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False},
        "worktree": SETTING_UP,
        **more.pop("policy", {}),
    }
    gates = gates_of(fast=steps, full=steps, merge=steps, **more)
    world = configured(root, policy=policy, gates=gates, files=FILES)
    world.init()
    return world


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("steps") / "repo"
    world = world_of(root, [FIRST, SECOND])
    assert world.call("gates.run", feature_id="one", mode="fast").ok
    world.close()
    return root


@pytest.mark.parametrize("case", CHEATS, ids=lambda case: case.name)
def test_a_step_cannot_change_what_the_next_one_judges(world: World, case: Case) -> None:
    assert outcome(apply(world, case.files)) == PASSES
    assert case.expected in outcome(world.call("gates.run", feature_id="one", mode="full"))


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_a_step_may_leave_what_it_likes(world: World, case: Case) -> None:
    assert outcome(apply(world, case.files)) == PASSES
    assert outcome(world.call("gates.run", feature_id="one", mode="full")) == case.expected


def test_what_a_step_left_is_named_in_the_evidence(world: World) -> None:
    script = f"os.mkdir('.cache')\nopen('.cache/x', 'w').close()\nopen('left.txt', 'w').close()\n{GREEN}"
    apply(world, {"tests/test_limit.py": code_in_tests(script)})
    steps = world.ok("gates.run", feature_id="one", mode="full")["steps"]
    assert [sorted(each["left"]) for each in steps] == [[".cache/", "left.txt", "src/limit.txt"], []]


def test_declared_outputs_stay_for_the_next_step(tmp_path: Path) -> None:
    build = {"name": "build", "cmd": ["sh", "-c", "mkdir built && cp src/limit.txt built && touch built/other"]}
    use = {"name": "use", "cmd": ["sh", "-c", "test -e built/limit.txt && test ! -e built/other"]}
    world = world_of(tmp_path / "repo", [{**build, "outputs": ["built/*.txt"]}, use])
    try:
        ran = world.call("gates.run", feature_id="one", mode="full")
        assert outcome(ran) == PASSES
        assert ran.data["steps"][0]["left"] == ["built/other"]
    finally:
        world.close()


def test_a_step_that_lacks_what_was_undone_is_told_so(tmp_path: Path) -> None:
    steps = [
        {"name": "build", "cmd": ["sh", "-c", "mkdir built && cp src/limit.txt built"]},
        {"name": "use", "cmd": ["sh", "-c", "test -e built/limit.txt"]},
    ]
    world = world_of(tmp_path / "repo", steps)
    try:
        why = outcome(world.call("gates.run", feature_id="one", mode="full"))
        assert "(undone before it: `built/`; what it needs of that belongs in `outputs`)" in why
    finally:
        world.close()


def test_a_later_step_cannot_write_the_report_of_an_earlier_one(tmp_path: Path) -> None:
    case = '<testcase name="a"/>'
    steps = [
        {"name": name, "cmd": ["sh", "-c", f"echo '<testsuite>{case * tests}</testsuite>' > junit.xml"]}
        for name, tests in (("test", 1), ("more", 3))
    ]
    world = world_of(tmp_path / "repo", steps, parsers={"tests": {"type": "junit_xml", "path": "junit.xml"}})
    try:
        why = outcome(world.call("gates.run", feature_id="one", mode="full"))
        assert "it changed `junit.xml`, the report of an earlier step" in why
    finally:
        world.close()


def test_steps_that_run_at_once_may_not_change_the_tree(tmp_path: Path) -> None:
    steps = [
        {"name": "test", "cmd": ["sh", "-c", "echo 10 > src/limit.txt"]},
        {"name": "check", "cmd": ["true"]},
    ]
    world = world_of(tmp_path / "repo", steps, parallel=True)
    try:
        apply(world, RED)
        why = outcome(world.call("gates.run", feature_id="one", mode="full"))
        assert "steps that run at once may not change the tree, and `src/limit.txt` changed" in why
    finally:
        world.close()


def test_without_bubblewrap_installed_files_are_compared(tmp_path: Path) -> None:
    world = world_of(tmp_path / "repo", [FIRST, SECOND], policy={"execution": {"sandbox": "off"}})
    try:
        assert outcome(world.call("gates.run", feature_id="one", mode="full")) == PASSES
        forged = "pathlib.Path('.installed/installed.py').write_text('LIMIT = 10')"
        apply(world, {"tests/test_limit.py": code_in_tests(forged)})
        why = outcome(world.call("gates.run", feature_id="one", mode="full"))
        assert "it changed `.installed/installed.py`, which the set-up installed" in why
        apply(world, {"tests/test_limit.py": "import unittest\n"})
        assert outcome(world.call("gates.run", feature_id="one", mode="full")) == PASSES
    finally:
        world.close()


def test_programs_of_node_write_caches_among_packages_that_stay_as_they_are(tmp_path: Path) -> None:
    """Vite writes its compiled configuration there; no later step sees it."""
    setting_up = {"setup": [{"cmd": ["sh", "-c", "mkdir -p node_modules/vite && echo 1 > node_modules/vite/index.js"]}]}
    write = "test ! -e node_modules/.vite-temp/x && echo 1 > node_modules/.vite-temp/x"
    steps = [{"name": name, "cmd": ["sh", "-c", write]} for name in ("test", "again")]
    steps.append({"name": "judge", "cmd": ["sh", "-c", "! echo 2 > node_modules/vite/index.js"]})
    policy = {"patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False}, "worktree": setting_up}
    files = {**FILES, ".gitignore": "node_modules/\n"}
    gates = gates_of(fast=steps, full=steps, merge=steps)
    world = configured(tmp_path / "repo", policy=policy, gates=gates, files=files)
    try:
        world.init()
        for mode in ("fast", "full"):
            assert outcome(world.call("gates.run", feature_id="one", mode=mode)) == PASSES
    finally:
        world.close()


def test_thousands_of_installed_files_are_compared(tmp_path: Path) -> None:
    made = "cd rules && seq -f %g.built 3100 | xargs touch"
    setting_up = {"setup": [{"cmd": ["sh", "-c", made]}]}
    judge = {"name": "judge", "cmd": ["sh", "-c", "test ! -e src/forge || echo forged > rules/7.built"]}
    policy = {"patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False}, "worktree": setting_up}
    files = {**FILES, ".gitignore": "*.built\n"}
    gates = gates_of(fast=[judge], full=[judge], merge=[judge])
    world = configured(tmp_path / "repo", policy=policy, gates=gates, files=files)
    try:
        world.init()
        assert outcome(world.call("gates.run", feature_id="one", mode="full")) == PASSES
        apply(world, {"src/forge": "yes\n"})
        why = outcome(world.call("gates.run", feature_id="one", mode="full"))
        assert "it changed `rules/7.built`, which the set-up installed" in why
    finally:
        world.close()


def test_the_merge_gates_begin_each_step_on_the_merged_tree(tmp_path: Path) -> None:
    fine = [{"name": "fine", "cmd": ["true"]}]
    policy = {"patch_policy": {"enforce_plan": False, "enforce_allowed_areas": False}}
    gates = gates_of(fast=fine, full=fine, merge=[FIRST, SECOND])
    world = configured(tmp_path / "repo", policy={**policy, "worktree": SETTING_UP}, gates=gates, files=FILES)
    try:
        world.plan()
        base = git(world.root, "rev-parse", "main")
        apply(world, {**RED, "tests/test_limit.py": code_in_tests(GREEN)})
        for mode in ("fast", "full"):
            world.ok("gates.run", feature_id="one", mode=mode)
        merged = world.call("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval())
        assert FAILS in outcome(merged)
        assert git(world.root, "rev-parse", "main") == base
    finally:
        world.close()
