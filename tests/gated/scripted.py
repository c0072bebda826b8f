"""A coding agent that takes one step at a time by a script: what to call follows from the task alone.

As a program it is a `custom` agent: scripted.py MANNER, the turn on standard input, the tree in its folder.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLAN = "docs/Plan_Doc/Active_Plan.md"
RUN = "sh run.sh"
Wanted = tuple[str, dict[str, Any]]


def calls_for(task: str, read: Callable[[str], str]) -> list[Wanted]:
    """Return the calls that do what a task says; `read` gives what a file holds, or nothing."""
    goal = task.partition("\n")[0]
    if "choose the next pull request" in goal:
        return [_patched("ACTIVE_PR.json", "", _plan(_first_open(read(PLAN)))), _submitted()]
    if "hand in the plan" in goal or "safety checkpoint" in goal or "squash the commits" in goal:
        return [_submitted()]
    if "decide whether the test failed" in goal:
        return [_submitted(analysis_decision="SUCCESS")]
    if "mark this pull request" in goal:
        return [_patched(PLAN, read(PLAN), _marked(read(PLAN), task)), _submitted()]
    step = re.search(r"\b(RED|GREEN|REFACTOR): Say (\w+)", task)
    return [] if step is None else _step(step[1], step[2], read)


def _step(kind: str, word: str, read: Callable[[str], str]) -> list[Wanted]:
    source, test = f"src/{word}.txt", f"tests/test_{word}.sh"
    if kind == "RED":
        text = f'test "$(head -n 1 {source} 2>/dev/null)" = {word}\n'
        return [_patched(test, "", text), _submitted(test_command=RUN, expectation="FAIL")]
    text = f"{word}\n" if kind == "GREEN" else f"{word}\nAnd that is all.\n"
    return [_patched(source, read(source), text), _submitted(test_command=RUN, expectation="PASS")]


def _submitted(**arguments: str) -> Wanted:
    return "submit_work", {"summary": "Done as told.", **arguments}


def _patched(path: str, old: str, new: str) -> Wanted:
    names = (f"a/{path}" if old else "/dev/null", f"b/{path}")
    diff = "".join(difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), *names))
    base = hashlib.sha256(old.encode()).hexdigest()
    return "safe_patch", {"file_path": path, "unified_diff": diff, "base_content_sha256": base}


def _first_open(plan: str) -> str:
    return next(line.split()[-1] for line in plan.splitlines() if line.startswith("### ") and "[DONE]" not in line)


def _plan(word: str) -> str:
    steps = [{"type": kind, "description": f"Say {word}"} for kind in ("RED", "GREEN", "REFACTOR")]
    plan = {
        "masterPlanPath": PLAN,
        "prTitle": f"feat: Say {word}",
        "summary": "So that it is said.",
        "verificationPlan": "Read it.",
        "tasks": [{"taskName": f"Say {word}", "tdd_steps": steps}],
    }
    return json.dumps(plan, indent=1) + "\n"


def _marked(plan: str, task: str) -> str:
    wanted = re.search(r"heading line of `feat: (Say \w+)`: (\[DONE\] [0-9a-f]{40})", task)
    assert wanted is not None, task
    return plan.replace(f": {wanted[1]}\n", f": {wanted[1]} {wanted[2]}\n")


def _stuck(task: str) -> list[Wanted]:
    if "`escalate_for_external_help`" in task:
        return [("escalate_for_external_help", {"markdown_report": "# Stuck\n"})]
    return [_submitted(test_command="true", expectation="FAIL"), ("get_task", {})]


def _read(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


def main(manner: str) -> None:
    """Take one turn."""
    given = json.load(sys.stdin)
    task = given["task"]["task"]
    calls = calls_for(task, _read)
    if manner == "talks":
        sys.stdout.write("I would rather talk about the weather.")
        return
    if manner == "idles":
        calls = [("read_file", {"file_path": PLAN})]
    if (manner == "stuck" and "TDD" in task) or "the last submission failed" in task:
        calls = _stuck(task)
    json.dump({"calls": [{"tool": tool, "arguments": arguments} for tool, arguments in calls]}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
