"""One small repository for each language, from `aop init` to a merge, with nothing but its own gates.yaml."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.projects.sample_repository import sample_files
from tests.project_python import project_programs
from tests.world import Ran, files, git, make_repository, plan_for, run_aop

SAMPLES = Path(__file__).parents[2] / "samples"
FEATURE = "dearest"
CONFIGURATION = "agentic/orchestrator"
NAMES = ("policy", "gates", "agents")
TOOLS = {"python": (), "node": ("node", "npm"), "maven": ("mvn", "java"), "rust": ("cargo", "cc"), "go": ("go",)}
"""What each sample takes, beyond the Python that runs this."""
TESTS_COUNTED = {"python": 2, "node": 2, "maven": 2, "rust": 2, "go": 2}
"""How many tests the report of a gate run counts, where the language has one."""


def sample(language: str) -> dict[str, str]:
    return {path: content.decode() for path, content in sample_files(SAMPLES / language).items()}


def patches(language: str) -> tuple[str, str]:
    """Return the change of a sample in two parts: its source, and the tests of that."""
    source, tests = re.split(r"(?m)^(?=--- a/)", (SAMPLES / f"{language}.diff").read_text())[1:]
    return source, tests


def aop(root: Path, *words: str, stdin: str = "") -> Ran:
    """Run `aop` where `python3` is the one that has pytest."""
    path = os.pathsep.join([project_programs(), os.environ["PATH"]])
    return run_aop(root, *words, stdin=stdin, env={"PATH": path})


def call(root: Path, tool: str, role: str = "orchestrator", **arguments: Any) -> Any:
    """Call a tool; return the whole answer."""
    return aop(root, "call", tool, "-", "--role", role, stdin=json.dumps({"feature_id": FEATURE, **arguments})).json


def manage(root: Path, changed: list[str]) -> None:
    """Let AOP guess the configuration of a repository, and begin the feature that changes these files."""
    assert aop(root, "init", "--yes").code == 0
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Let AOP manage this repository")
    areas = sorted({path.split("/")[0] for path in changed})
    plan = plan_for(FEATURE, allowed_areas=areas, files=files(modify=tuple(changed)))
    assert call(root, "feature.init")["ok"]
    assert call(root, "plan.submit", "planner", plan_json=plan)["ok"]


@pytest.mark.slow
@pytest.mark.req("AOP-287")
@pytest.mark.parametrize("language", TOOLS)
def test_a_feature_goes_from_init_to_merge_in(language: str, tmp_path: Path) -> None:
    missing = [tool for tool in TOOLS[language] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"this machine has no {' and no '.join(missing)}")
    root = make_repository(tmp_path / "repo", sample(language))
    source, tests = patches(language)
    changed = re.findall(r"(?m)^\+\+\+ b/(.*)$", source + tests)
    manage(root, changed)

    call(root, "repo.apply_patch", "builder", unified_diff=tests)
    untrue = call(root, "gates.run", mode="fast")
    assert untrue["error"]["code"] == "gate_failed"
    if "in offline mode" in (root / untrue["evidence"]["log_path"]).read_text():
        pytest.skip("the local Maven repository lacks the sample's plugins, and gates have no network")

    call(root, "repo.apply_patch", "builder", unified_diff=source)
    fast, full = (call(root, "gates.run", mode=mode) for mode in ("fast", "full"))
    assert (fast["ok"], full["ok"]) == (True, True), (fast, full)
    assert full["data"]["tests"].get("ran") == TESTS_COUNTED[language]

    approved = aop(root, "approve", FEATURE, "--yes")
    merged = aop(root, "merge", FEATURE, "--token", approved.out.strip(), "--json").json
    assert merged["ok"], merged
    gates = merged["data"]["gates"]
    assert {mode: gates[mode] for mode in ("fast", "full", "merge")} == dict.fromkeys(("fast", "full", "merge"), "pass")
    assert git(root, "rev-parse", "main").strip() == merged["data"]["merge_commit"]
    assert "earest" in git(root, "show", f"main:{changed[0]}")


@pytest.mark.slow
@pytest.mark.req("AOP-287")
def test_only_the_gates_and_the_caches_that_they_read_differ_between_languages(tmp_path: Path) -> None:
    written = {}
    for language in TOOLS:
        root = make_repository(tmp_path / language, sample(language))
        assert run_aop(root, "init", "--yes", "--no-run").code == 0
        written[language] = {name: (root / CONFIGURATION / f"{name}.yaml").read_text() for name in NAMES}
    assert len({texts["gates"] for texts in written.values()}) == len(TOOLS)
    opened = (
        'execution:\n  # Folders outside the repository that the gates read.\n  sandbox_read: ["~/.m2/repository"]\n'
    )
    assert written["maven"]["policy"].endswith(opened)
    assert len({texts["policy"].removesuffix(opened) for texts in written.values()}) == 1
    assert len({texts["agents"] for texts in written.values()}) == 1
