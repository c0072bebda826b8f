"""A repository with a plan of two pull requests, and an agent that works through it with the tools of `swe`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aop.core.roles import Role
from tests.kernel.tools.worlds import gates_of, patch_of, yaml
from tests.world import FILES, World, make_repository

PLAN = "docs/Plan_Doc/Active_Plan.md"
PLAN_TEXT = "# Plan\n\n## Phase 1\n\n### Pull Request #1: Say one\n\n### Pull Request #2: Say two\n"
RUNNER = """\
mkdir -p reports
broken=0
echo '<testsuite>' > reports/junit.xml
for test in tests/test_*.sh; do
  out=$(sh "$test" 2>&1); code=$?
  echo "$test: $code $out"
  case $code in
    0) found='' ;;
    1) found='<failure/>'; broken=1 ;;
    77) found='<skipped/>' ;;
    *) found='<error/>'; broken=1 ;;
  esac
  echo "<testcase name=\\"$test\\">$found</testcase>" >> reports/junit.xml
done
echo '</testsuite>' >> reports/junit.xml
exit $broken
"""
RUN = "sh run.sh"
GATES = gates_of(
    *([{"name": "unit", "cmd": ["sh", "run.sh"]}] for _mode in range(3)),
    parsers={"tests": {"type": "junit_xml", "path": "reports/junit.xml"}},
)
APPROVE = '{"verdict": "APPROVE", "summary": "Good."}'
TEST_ONE = 'test "$(cat src/said.txt)" = one\n'
NOTHING = hashlib.sha256(b"").hexdigest()
RED, GREEN, REFACTOR = "RED", "GREEN", "REFACTOR"


def gated_repository(
    root: Path,
    *,
    reviewer: str = f"echo '{APPROVE}'",
    gates: str = GATES,
    extra: Mapping[str, str] = {},
    **policy: Any,
) -> Path:
    """Make a repository with tests, a plan, and a reviewer that is a line of shell."""
    rules = {"gated": {"review_command": ["sh", "-c", reviewer]}, **policy}
    files = {
        PLAN: PLAN_TEXT,
        "run.sh": RUNNER,
        "tests/test_begin.sh": "exit 0\n",
        "src/said.txt": "nothing\n",
        ".gitignore": "reports/\n",
        "agentic/orchestrator/gates.yaml": gates,
        "agentic/orchestrator/policy.yaml": yaml(version=1, **rules),
    }
    return make_repository(root, {**FILES, **files, **extra})


def active_pr(title: str, *tasks: str, steps: tuple[str, ...] = (RED, GREEN)) -> str:
    """Write `ACTIVE_PR.json`, with the same steps for each task."""
    return json.dumps(
        {
            "masterPlanPath": PLAN,
            "prTitle": title,
            "summary": "So that it is said.",
            "verificationPlan": "Read it.",
            "tasks": [
                {"taskName": name, "tdd_steps": [{"type": step, "description": f"{name}, {step}"} for step in steps]}
                for name in tasks
            ],
        }
    )


class Agent:
    """Calls the tools as a worker whose token opens the workflow `gated`."""

    def __init__(self, world: World, name: str = "gated") -> None:
        self.world = world
        self.name = name
        self.is_over = False
        """Whether the attempt of this turn was judged: the next one begins with `get_task`."""

    def answered(self, tool: str, **arguments: Any) -> tuple[Any, str | None]:
        """Call a tool; return its data, or the code of its refusal."""
        answer = self.world.call_as_worker(tool, Role.SWE, self.name, **arguments)
        return answer.data, None if answer.error is None else str(answer.error["code"])

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool that must answer."""
        data, code = self.answered(tool, **arguments)
        assert code is None, (tool, code)
        if tool not in ("read_file", "safe_patch", "list_directory", "search_code"):
            self.is_over = tool == "submit_work" and data["status"] != "NEEDS_ANALYSIS"
        return data

    def refused(self, tool: str, **arguments: Any) -> str:
        """Call a tool that must be refused; return the code."""
        data, code = self.answered(tool, **arguments)
        assert code is not None, data
        return code

    def task(self) -> str:
        """Return the goal in one sentence."""
        return str(self.call("get_task")["task"]).split("\n", 1)[0]

    def submit(self, **arguments: Any) -> str:
        """Hand in, in a turn of its own; return the verdict."""
        return str(self.judged(**arguments)["status"])

    def judged(self, **arguments: Any) -> Any:
        """Hand in, in a turn of its own; return the answer."""
        if self.is_over:
            self.call("get_task")
        return self.call("submit_work", **{"summary": "Done.", **arguments})

    def content(self, path: str) -> tuple[str, str]:
        """Return what a file holds, and its hash."""
        data, _code = self.answered("read_file", file_path=path)
        return ("", NOTHING) if data is None else (data["content"], data["sha256"])

    def write(self, path: str, text: str, **more: Any) -> Any:
        """Put a whole text in the place of a file."""
        old, sha = self.content(path)
        diff = patch_of(path, *text.splitlines(), old=tuple(old.splitlines()))
        return self.call("safe_patch", file_path=path, unified_diff=diff, base_content_sha256=sha, **more)

    def plan(self, text: str) -> None:
        """Hand a plan in, and get the first step."""
        assert self.write("ACTIVE_PR.json", text)["success"]
        assert self.submit() == "SUCCESS"

    def red(self, path: str, text: str) -> None:
        """Do a RED step."""
        self.write(path, text)
        assert self.submit(test_command=RUN, expectation="FAIL") == "NEEDS_ANALYSIS"
        assert self.submit(analysis_decision="SUCCESS") == "SUCCESS"

    def green(self, path: str, text: str) -> None:
        """Do a GREEN step, and its checkpoint."""
        self.write(path, text)
        assert self.submit(test_command=RUN, expectation="PASS") == "SUCCESS"
        self.task()
        assert self.submit() == "SUCCESS"

    def finish(self, title: str) -> str:
        """Have everything squashed, and mark the plan; return the commit."""
        assert self.submit() == "SUCCESS"
        commit = re.search(r"\[DONE\] ([0-9a-f]{40})", self.call("get_task")["task"])
        assert commit is not None
        self.write(PLAN, self.content(PLAN)[0].replace(f": {title}\n", f": {title} [DONE] {commit[1]}\n"))
        assert self.submit() == "SUCCESS"
        return commit[1]


def begun(root: Path, **how: Any) -> Agent:
    """Start a workflow, with an agent that was told to plan."""
    world = World(gated_repository(root, **how))
    world.ok("gated.start", feature_id="gated")
    return Agent(world)


def stepping(root: Path, *, steps: tuple[str, ...] = (RED, GREEN), **how: Any) -> Agent:
    """Start a workflow whose plan has one task, with its first step served."""
    agent = begun(root, **how)
    agent.plan(active_pr("feat: Say one", "Say it", steps=steps))
    agent.task()
    return agent
