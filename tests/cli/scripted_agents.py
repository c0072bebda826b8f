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
LINES = "src/a.txt"
followed = [result["data"] for result in given["last_tool_results"] if result["tool"] == "repo.follow_base"]
heard = [result for result in given["last_tool_results"] if result["tool"] == "person"]
OBJECTIONS = ("feature.request_changes", "feature.reject")
asked = [result["data"] for result in given["last_tool_results"] if result["tool"] in OBJECTIONS]
DECLINE = "decline:"
comments = [
    {"number": each["number"], "word": "declined", "reason": "I will not."} if each["text"].startswith(DECLINE)
    else {"number": each["number"], "word": "done", "reason": "Written."}
    for each in asked if each["kind"] != "rejection"
]
told = {"comments": comments} if comments else {}
wanted = [each for each in asked if not each["text"].startswith(DECLINE)]
plan = given["context_bundle"]["plan"]
version = plan["plan_version"] if plan else 0
if plan:
    path = (plan["files"]["create"] or [path])[0]


def draft(number):
    return spec if number == DRAFTS else f"draft {number}"


def new_line(old):
    """Put the feature's name into the second line; beside what another feature put there, if that was handed over."""
    if not followed:
        return feature
    conflict = followed[0]["conflict"]
    others = [each["plan"]["feature_id"] for each in conflict["merged_features"]]
    is_told = (
        feature in conflict["own_diff"] and f"+{old}\\n" in conflict["base_diff"]
        and conflict["conflicts"][0]["hunks"][0]["ours"] == f"{old}\\n" and old.split()[-1] in (*others, "zwei")
    )
    careless = not is_told or os.path.exists(os.path.join(folder, "careless"))
    return "nonsense" if careless else f"{old} {feature}"


if manner == "slow":
    time.sleep(0.2)
if manner == "held" or (manner == "waits" and role == "builder"):
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
if manner == "limited" and not os.path.exists(os.path.join(folder, "paid")):
    with open(os.path.join(folder, "when")) as file:
        sys.exit("Rate limit exceeded: try again in " + file.read())
if manner == "bad" and not os.path.exists(os.path.join(folder, "good")):
    print("I would rather talk about the weather.")
elif manner == "asks" and role == "planner" and not heard:
    print(json.dumps({"type": "REQUEST", "request": "question", "detail": {"question": "Which colour?"}}))
elif manner == "steers" and role == "planner":
    question = "Clear \\x1b[2J and \\u202ereverse\\u202c?"
    print(json.dumps({"type": "REQUEST", "request": "question", "detail": {"question": question}}))
elif role == "planner":
    path = wanted[-1]["text"].split()[-1] if wanted else path
    is_there = manner == "same" and os.path.exists(path)
    revision = {"revision_of": version} if version else {}
    print(json.dumps({"type": "PLAN_SUBMISSION", **told, "plan": {
        **revision, "feature_id": feature, "plan_version": version + 1,
        "summary": "Write a new file", "base_ref": "main",
        "allowed_areas": ["src"], "forbidden_areas": [],
        "files": {"create": [] if is_there else [path], "modify": [path] if is_there else [], "delete": []},
        "contracts": {"openapi": "none", "events": "none", "db": "none"},
        "acceptance_criteria": ["It is there"], "gate_profile": "default"}}))
elif asked and not wanted:
    print(json.dumps({"type": "NOTE", "note": "It stays as it is.", **told}))
elif asked and os.path.exists(path):
    with open(path) as file:
        old = file.read()
    text = " ".join(request["text"] for request in wanted)
    diff = f"--- a/{path}\\n+++ b/{path}\\n@@ -1 +1 @@\\n-{old}+{text}\\n"
    print(json.dumps({"type": "PATCH", "unified_diff": diff, **told}))
elif manner in ("line", "same") and os.path.exists(LINES if manner == "line" else path):
    name = LINES if manner == "line" else path
    with open(name) as file:
        old = file.read().splitlines()
    place = 1 if manner == "line" else 0
    new = [*old[:place], new_line(old[place]) if manner == "line" else spec, *old[place + 1:]]
    lines = "".join(f"-{line}\\n" for line in old) + "".join(f"+{line}\\n" for line in new)
    diff = f"--- a/{name}\\n+++ b/{name}\\n@@ -1,{len(old)} +1,{len(new)} @@\\n{lines}"
    print(json.dumps({"type": "PATCH", "unified_diff": diff}))
elif manner in ("slow", "held") and os.path.exists(path):
    with open(path) as file:
        old = file.read()
    new = draft(int(old.split()[1]) + 1) if manner == "slow" else old.strip() + " Again."
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
