"""AOP's own environment: set-up commands, agents and gates of another repository do not see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.world import FILES, files, make_repository, plan_for, run_aop

LOOK = """\
import importlib.util, json, os, sys
VARIABLES = ("PYTHONPATH", "UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
def look():
    return json.dumps({
        "prefix": sys.prefix,
        "PATH": os.environ["PATH"],
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "importable": [name for name in ("aop", "msgspec", "pytest") if importlib.util.find_spec(name)],
    })
"""
AGENT = f"""{LOOK}
given = json.load(sys.stdin)
if given["role"] == "planner":
    print(json.dumps(dict(type="PLAN_SUBMISSION", plan=dict({plan_for("one", files=files(create=("src/seen.txt",)))}))))
else:
    diff = "--- /dev/null\\n+++ b/src/seen.txt\\n@@ -0,0 +1 @@\\n+" + look() + "\\n"
    print(json.dumps(dict(type="PATCH", unified_diff=diff)))
"""
GATES = """\
version: 1
profiles:
  default:
    modes:
      fast: [{name: look, cmd: [python3, look.py]}]
      full: [{name: look, cmd: [python3, look.py]}]
      merge: [{name: look, cmd: [python3, look.py]}]
"""
POLICY = """\
version: 1
execution: {env_allowlist: [PATH, PYTHONPATH, UV_PROJECT_ENVIRONMENT, VIRTUAL_ENV, __PYVENV_LAUNCHER__]}
worktree: {setup: [{cmd: [python3, look.py]}]}
"""
PLAIN = f"{sys.base_prefix}/bin:/usr/bin:/bin"
OWN = f"{sys.prefix}/bin"
ACTIVATED = {
    "PATH": f"{OWN}:{PLAIN}",
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path.startswith(f"{sys.prefix}/")),
    "UV_PROJECT_ENVIRONMENT": sys.prefix,
    "VIRTUAL_ENV": sys.prefix,
    "__PYVENV_LAUNCHER__": f"{OWN}/python",
}
"""The variables of a shell in which AOP's own environment is active, by its script, uv or a Mac's launcher."""


def seen_by_the_person(script: Path) -> Any:
    """Return what a Python sees that has nothing to do with AOP."""
    python = os.path.join(sys.base_prefix, "bin", "python3")
    return json.loads(subprocess.run([python, script], env={"PATH": PLAIN}, capture_output=True, check=True).stdout)


def test_setup_commands_agents_and_gates_do_not_see_the_environment_that_aop_runs_in(tmp_path: Path) -> None:
    orchestrator = "agentic/orchestrator"
    scripts = {
        "look.py": f"{LOOK}print(look())\n",
        f"{orchestrator}/gates.yaml": GATES,
        f"{orchestrator}/policy.yaml": POLICY,
    }
    root = make_repository(tmp_path / "repo", {**FILES, **scripts})
    (tmp_path / "one.md").write_text("Say what is seen.\n")
    (tmp_path / "agent.py").write_text(AGENT)
    agent = {"AOP_AGENT_PROVIDER": "custom", "AOP_CUSTOM_AGENT": f"python3 {tmp_path}/agent.py"}
    ran = run_aop(root, "run", "-fi", str(tmp_path / "one.md"), "--wait", env={**ACTIVATED, **agent})
    assert ran.code == 0, ran.err

    seen = seen_by_the_person(root / "look.py")
    logs = sorted((root / "agentic/features/one/logs").glob("*.log"))
    assert {log.name.split("-")[0] for log in logs} == {"gate", "setup"}
    assert [json.loads(log.read_text()) for log in logs] == [seen] * len(logs)
    assert json.loads((root / ".worktrees/one/src/seen.txt").read_text()) == seen


def test_hooks_of_the_first_commit_do_not_see_the_environment_that_aop_runs_in(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo", {"a.txt": "one\n", "look.py": f"{LOOK}print(look())\n"})
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    # Git puts a folder of its own first.
    hook.write_text(f"#!/bin/sh\nPATH=${{PATH#$(git --exec-path):}} python3 look.py >{tmp_path}/seen\n")
    hook.chmod(0o755)
    author = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_COMMITTER_NAME": "Ada"}
    names = {**author, "GIT_COMMITTER_EMAIL": "ada@example.org"}
    ran = run_aop(root, "init", "--yes", "--no-run", "--commit", env={**ACTIVATED, **names})
    assert ran.code == 0, ran.err
    assert json.loads((tmp_path / "seen").read_text()) == seen_by_the_person(root / "look.py")
