"""A coding agent for tests: it plans one new file and writes it, in the manner that the feature's id asks for."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPT = '''\
"""agent.py FOLDER: how it behaves is in the first word of the feature's id."""
import json, os, sys, time

given = json.load(sys.stdin)
folder, feature, role = sys.argv[1], given["feature_id"], given["role"]
manner = feature.split("_")[0]
path = "src/same.txt" if manner == "same" else f"src/{feature}.txt"
DRAFTS = 4
spec = given["context_bundle"]["spec"].splitlines()[-1]
heard = [result for result in given["last_tool_results"] if result["tool"] == "person"]


def draft(number):
    return spec if number == DRAFTS else f"draft {number}"


if manner == "slow":
    time.sleep(0.2)
if manner == "held":
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
if manner == "bad" and not os.path.exists(os.path.join(folder, "good")):
    print("I would rather talk about the weather.")
elif manner == "asks" and role == "planner" and not heard:
    print(json.dumps({"type": "REQUEST", "request": "question", "detail": {"question": "Which colour?"}}))
elif role == "planner":
    print(json.dumps({"type": "PLAN_SUBMISSION", "plan": {
        "feature_id": feature, "plan_version": 1, "summary": "Write a new file", "base_ref": "main",
        "allowed_areas": ["src"], "forbidden_areas": [], "files": {"create": [path], "modify": [], "delete": []},
        "contracts": {"openapi": "none", "events": "none", "db": "none"},
        "acceptance_criteria": ["It is there"], "gate_profile": "default"}}))
elif manner == "slow" and os.path.exists(path):
    with open(path) as file:
        old = file.read()
    new = draft(int(old.split()[1]) + 1)
    diff = f"--- a/{path}\\n+++ b/{path}\\n@@ -1 +1 @@\\n-{old}+{new}\\n"
    print(json.dumps({"type": "PATCH", "unified_diff": diff}))
else:
    text = heard[0]["data"]["answer"] if heard else draft(1) if manner == "slow" else spec
    print(json.dumps({"type": "PATCH", "unified_diff": f"--- /dev/null\\n+++ b/{path}\\n@@ -0,0 +1 @@\\n+{text}\\n"}))
'''


def agent_command(folder: Path) -> str:
    """Write the agent into a folder, and return the command that starts it."""
    folder.mkdir(exist_ok=True)
    script = folder / "agent.py"
    script.write_text(SCRIPT)
    return f"{sys.executable} {script} {folder}"
