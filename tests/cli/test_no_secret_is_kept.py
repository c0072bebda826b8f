"""A run in which a secret is nearly everywhere: nothing that AOP keeps, shows or answers has it afterwards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from aop.core.roles import Role
from tests.cli.shops import Shop
from tests.world import World, git, run_aop

pytestmark = pytest.mark.slow

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
CONFIG = f"first = 1\ntoken = '{SECRET}'\nlast = 1\n"
AGENT = """\
import json, sys
given = json.load(sys.stdin)
feature, role, secret = given["feature_id"], given["role"], "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
print("I know", secret, file=sys.stderr)
failed = [result for result in given["last_tool_results"] if not result["ok"]]
codes = {result["error"]["code"] for result in failed if result.get("error")}
if feature == "asks" and not failed:
    print("no answer, but " + secret)
elif feature == "asks":
    print(json.dumps({"type": "REQUEST", "request": "question", "detail": {"question": "Is " + secret + " right?"}}))
elif role == "planner":
    files = {"create": [], "modify": ["src/config.txt"], "delete": []}
    print(json.dumps({"type": "PLAN_SUBMISSION", "plan": {
        "feature_id": feature, "plan_version": 1, "summary": "Change it, with " + secret, "base_ref": "main",
        "allowed_areas": ["src"], "forbidden_areas": [], "files": files,
        "contracts": {"openapi": "none", "events": "none", "db": "none"},
        "acceptance_criteria": ["It is there"], "gate_profile": "default"}}))
elif not failed:
    gone = f"--- a/src/{secret}.txt\\n+++ /dev/null\\n@@ -1 +0,0 @@\\n-x\\n"
    print(json.dumps({"type": "PATCH", "unified_diff": gone}))
else:
    diff = "--- a/src/config.txt\\n+++ b/src/config.txt\\n@@ -1,3 +1,3 @@\\n-first = 1\\n+first = 2\\n"
    diff += f" token = '{secret}'\\n last = 1\\n"
    print(json.dumps({"type": "PATCH", "unified_diff": diff}))
"""


READS: dict[str, dict[str, Any]] = {
    "repo.read_file": {"path": "src/config.txt"},
    "repo.diff": {},
    "repo.search": {"query": "x"},
    "repo.status": {},
    "repo.diff_bundle": {},
    "feature.get_context": {},
    "report.feature_summary": {},
    "evidence.latest": {},
    "plan.get": {},
    "qa.test_index_get": {},
}


def held_in(folder: Path) -> list[str]:
    """Return the files that hold the secret, but for git's own and for the trees that are checked out."""
    files = [path for path in folder.rglob("*") if path.is_file() and not {".git", ".worktrees"} & set(path.parts)]
    return sorted(
        str(path.relative_to(folder)) for path in files if SECRET.encode() in path.read_bytes() or SECRET in path.name
    )


def test_a_secret_that_is_in_the_environment_the_tree_a_patch_and_what_agents_and_gates_say_is_kept_nowhere(
    tmp_path: Path,
) -> None:
    shop = Shop(tmp_path)
    tree = {"src/config.txt": CONFIG, f"src/{SECRET}.txt": "x\n", "check.sh": "cat src/config.txt\n"}
    for name, content in tree.items():
        (shop.root / name).write_text(content)
    git(shop.root, "add", "-A")
    git(shop.root, "commit", "-qm", "More files.")
    (tmp_path / "agent.py").write_text(AGENT)
    shop.wants("good", "asks")
    shop.env |= {"AOP_CUSTOM_AGENT": f"{sys.executable} {tmp_path / 'agent.py'}", "GITHUB_TOKEN": SECRET}
    ran = shop.all_at_once("--json")
    assert (ran.code, shop.statuses()) == (4, {"good": "ready_to_merge", "asks": "planning"}), (ran.out, ran.err)
    assert SECRET not in ran.out + ran.err
    assert [path for path in held_in(shop.root) if path not in tree] == []
    for words in (["status"], ["inbox"], ["review", "good"], ["logs", "good"]):
        shown = run_aop(shop.root, *words, "--json", env=shop.env)
        assert SECRET not in shown.out + shown.err, words
    world = World(shop.root, shop.env)
    answers = {
        tool: world.call_as_worker(tool, Role.BUILDER, "good", feature_id="good", **asked)
        for tool, asked in READS.items()
    }
    world.close()
    assert {tool: answer.error for tool, answer in answers.items() if not answer.ok} == {}
    assert [tool for tool, answer in answers.items() if SECRET in str(answer)] == []
