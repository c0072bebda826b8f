"""A small project in a gated workflow, and agents that work on it over MCP, up to the merge."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from aop.core.roles import Role
from tests.gated.agents import APPROVE, PLAN, Agent, active_pr
from tests.kernel.tools.worlds import configured, copied, gates_of, patch_of
from tests.mcpserver.clients import Mcp, in_memory, token_for
from tests.world import World, git

MERGED = "merged"
RUNNER = """\
import importlib, os, sys, traceback
from xml.sax.saxutils import quoteattr

sys.path.insert(0, os.getcwd())


class Skip(Exception):
    pass


sys.modules["skips"] = type(sys)("skips")
sys.modules["skips"].Skip = Skip


def tests_of(module):
    for name, value in vars(module).items():
        if name.startswith("test") and callable(value):
            yield name, value
        elif name.startswith("Test") and getattr(value, "__test__", True):
            for each in vars(value):
                if each.startswith("test"):
                    yield f"{name}.{each}", getattr(value(), each)


def outcome(test):
    try:
        if getattr(test, "skipped", False):
            raise Skip
        test()
    except Skip:
        return "<skipped/>"
    except AssertionError as error:
        return f"<failure message={quoteattr(f'AssertionError: {error}')}/>"
    except Exception as error:
        return f"<failure message={quoteattr(f'{type(error).__name__}: {error}')}/>"
    return ""


cases, modules = [], {}
for file in sorted(os.listdir("tests")):
    name = file.removesuffix(".py")
    if file.startswith("test_") and file.endswith(".py"):
        try:
            modules[name] = importlib.import_module(f"tests.{name}")
        except Exception as error:
            cases.append((f"tests.{name}", "module", "<error/>"))
            traceback.print_exc()
for name, module in modules.items():
    cases += [(f"tests.{name}", test, outcome(run)) for test, run in tests_of(module)]
os.makedirs("reports", exist_ok=True)
with open("reports/junit.xml", "w") as report:
    report.write("<testsuite>")
    for place, test, found in cases:
        report.write(f'<testcase classname="{place}" name="{test}">{found}</testcase>')
        print(place, test, found or "passed")
    report.write("</testsuite>")
sys.exit(any("<failure" in found or "<error" in found for _place, _test, found in cases))
"""
CALC = "def add(a, b):\n    return a + b\n"
STUB = f"{CALC}\n\ndef double(x):\n    return 0\n"
FIX = f"{CALC}\n\ndef double(x):\n    return x * 2\n"
BASE_TEST = """\
from src import calc


def test_add():
    assert calc.add(1, 2) == 3


class TestSum:
    def test_of_three(self):
        assert calc.add(calc.add(1, 2), 3) == 6
"""
RED_TEST = """\
from src import calc

CASES = [(2, 4), (3, 6)]


def wanted(case):
    return case[1]


def test_double():
    for case in CASES:
        assert calc.double(case[0]) == wanted(case)


class TestDouble:
    def test_of_nothing(self):
        assert calc.double(5) == 10
"""
RUN = f"{sys.executable} -BP run.py"
STEP = {"name": "unit", "cmd": [sys.executable, "-BP", "run.py"]}

Move = tuple[str, ...]
"""`write` PATH TEXT, `remove` PATH, `grant` PATH TEXT, or the type of a step that is handed in."""


class Row(Struct, frozen=True, kw_only=True):
    """The moves of an agent, and where they end: `merged`, or a text of the refusal."""

    moves: Sequence[Move]
    ends: str = MERGED
    steps: tuple[str, ...] = ("RED", "GREEN")
    begins: tuple[Move, ...] = ()
    """Honest moves before them, which several rows share."""


class McpAgent(Agent):
    """An agent that calls the tools as an MCP host does."""

    def __init__(self, world: World, client: Mcp) -> None:
        super().__init__(world, "one")
        self._client = client
        self.refusal = ""

    def answered(self, tool: str, **arguments: Any) -> tuple[Any, str | None]:
        answer = self._client.call(tool, arguments)
        self.refusal = answer.text if answer.is_error else ""
        return (None, answer.code) if answer.is_error else (answer.data, None)


def made(root: Path, row: Row) -> Path:
    """Make the repository, with a workflow `one` where the moves of a row begin."""
    gates = gates_of(
        fast=[{"name": "nothing", "cmd": ["true"]}],
        full=[STEP],
        merge=[STEP],
        parsers={"tests": {"type": "junit_xml", "path": "reports/junit.xml", "modes": ["full", "merge"]}},
    )
    policy = {
        "gated": {"review_command": ["echo", APPROVE]},
        "merge_policy": {"require_user_approval": False},
    }
    files = {
        PLAN: "# Plan\n\n### Pull Request #1: Double\n\n### Pull Request #2: Say two\n",
        "run.py": RUNNER,
        "src/__init__.py": "",
        "src/calc.py": CALC,
        "tests/__init__.py": "",
        "tests/test_calc.py": BASE_TEST,
        "tests/data/want.txt": "4\n",
        "tests/check.sh": "test -e src/calc.py\n",
        ".gitignore": "reports/\n__pycache__/\n",
    }
    world = configured(root, policy=policy, gates=gates, files=files)
    world.ok("gated.start", feature_id="one")
    agent = Agent(world, "one")
    agent.plan(active_pr("feat: Double", "Double it", steps=row.steps))
    agent.task()
    with in_memory(world, token_for(world, Role.SWE, "one")) as client:
        honest = McpAgent(world, client)
        assert [MOVES[move[0]](honest, *move[1:]) for move in row.begins] == [""] * len(row.begins)
    world.close()
    return root


@contextmanager
def playing(base: Path, root: Path) -> Iterator[McpAgent]:
    """Connect an agent to a copy of a prepared repository."""
    world = World(copied(base, root))
    try:
        with in_memory(world, token_for(world, Role.SWE, "one")) as client:
            yield McpAgent(world, client)
    finally:
        world.close()


def play(agent: McpAgent, row: Row) -> str:
    """Make the moves, and end the pull request; return `merged`, or why it went no further."""
    agent.task()
    main = git(agent.world.root, "rev-parse", "main")
    for move in row.moves:
        refused = str(MOVES[move[0]](agent, *move[1:]))
        if refused:
            assert git(agent.world.root, "rev-parse", "main") == main
            return refused
    return _ended(agent)


def _write(agent: McpAgent, path: str, text: str, *, reason: str | None = None) -> str:
    old, sha = agent.content(path)
    diff = patch_of(path, *text.splitlines(), old=tuple(old.splitlines()))
    more = {} if reason is None else {"reason": reason}
    data, code = agent.answered("safe_patch", file_path=path, unified_diff=diff, base_content_sha256=sha, **more)
    return f"{code}: {agent.refusal}" if data is None else ""


def _remove(agent: McpAgent, path: str) -> str:
    old, sha = agent.content(path)
    lines = old.splitlines()
    diff = f"--- a/{path}\n+++ /dev/null\n@@ -1,{len(lines)} +0,0 @@\n" + "".join(f"-{line}\n" for line in lines)
    data, code = agent.answered("safe_patch", file_path=path, unified_diff=diff, base_content_sha256=sha)
    return f"{code}: {agent.refusal}" if data is None else ""


def _grant(agent: McpAgent, path: str, text: str) -> str:
    """Ask for a change of a test, have a person grant it, and make it."""
    refused = _write(agent, path, text, reason="The behaviour changes.")
    (question,) = agent.world.ok("inbox.list")["questions"]
    agent.world.ok("inbox.answer", feature_id="one", question_id=question["question_id"], answer="grant")
    return refused or _write(agent, path, text)


def _red(agent: McpAgent, command: str = RUN) -> str:
    judged = agent.judged(test_command=command, expectation="FAIL")
    if judged["status"] == "NEEDS_ANALYSIS":
        judged = agent.judged(analysis_decision="SUCCESS")
    return "" if judged["status"] == "SUCCESS" else str(judged["output"])


def _green(agent: McpAgent, command: str = RUN) -> str:
    judged = agent.judged(test_command=command, expectation="PASS")
    if judged["status"] != "SUCCESS":
        return str(judged["output"])
    return "" if agent.submit() == "SUCCESS" else "no checkpoint"


def _fails(agent: McpAgent, expectation: str) -> str:
    """Hand in what fails, and go on."""
    judged = agent.judged(test_command=RUN, expectation=expectation)
    return "" if judged["status"] == "FAILURE" else "It did not fail."


MOVES: Mapping[str, Any] = {
    "write": _write,
    "remove": _remove,
    "grant": _grant,
    "RED": _red,
    "GREEN": _green,
    "REFACTOR": _green,
    "fails": _fails,
}


def _ended(agent: McpAgent) -> str:
    """Squash, mark the plan and merge."""
    agent.task()
    judged = agent.judged()
    if judged["status"] != "SUCCESS":
        return json.dumps(judged)
    commit = re.search(r"\[DONE\] ([0-9a-f]{40})", agent.call("get_task")["task"])
    assert commit is not None
    agent.write(PLAN, agent.content(PLAN)[0].replace(": Double\n", f": Double [DONE] {commit[1]}\n"))
    judged = agent.judged()
    if judged["status"] != "SUCCESS":
        return str(judged["output"])
    data, code = agent.answered("get_task")
    return f"{code}: {agent.refusal}" if data is None else _merge_outcome(agent, data)


def _merge_outcome(agent: McpAgent, told: Mapping[str, Any]) -> str:
    subject = git(agent.world.root, "log", "-1", "--format=%s", "main").strip()
    return MERGED if (told["status"], subject) == ("INITIALIZING", "feat: Double") else str(told["task"])
