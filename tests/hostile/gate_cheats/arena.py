"""Small real projects, and changes to them that are tried through the real doors up to the merge."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from aop.core.roles import Role
from tests.kernel.tools.worlds import configured, copied, gates_of, patch_of
from tests.world import World, files, git

Tree = Mapping[str, str | None]
"""The files that a patch writes, each as a whole; None removes one."""

MERGED = "merged"
FREE = {"enforce_plan": False, "enforce_allowed_areas": False}


class Project(Struct, frozen=True, kw_only=True):
    """A project whose tests pass, with the commands of its gates."""

    files: Mapping[str, str]
    steps: list[dict[str, Any]]
    permitted: tuple[str, ...] = ()
    """Guarded files that a person opened."""
    report: str = "junit.xml"
    printed: str = ""
    """How the output of its step `test` is read; empty if that leaves a file."""
    policy: Mapping[str, Any] = {}
    needs: str = ""
    """The program that it takes."""

    def made(self, root: Path) -> Path:
        """Make its repository, with a feature `one` and the tests of the base known."""
        gates = gates_of(
            fast=[{"name": "nothing", "cmd": ["true"]}], full=self.steps, merge=self.steps, parsers=self.parsers
        )
        policy = {"patch_policy": FREE, "permitted_protected_paths": list(self.permitted), **self.policy}
        world = configured(root, policy=policy, gates=gates, files=self.files)
        world.init()
        world.ok("gates.run", feature_id="one", mode="full")
        world.close()
        return root

    @property
    def parsers(self) -> dict[str, Any]:
        """Return its reports: `full` and `merge` demand one, `fast` has no tests."""
        report = {"type": self.printed, "step": "test"} if self.printed else {"type": "junit_xml", "path": self.report}
        return {"tests": {**report, "modes": ["full", "merge"]}}

    def skip_without_its_program(self) -> None:
        """Skip a test on a machine that cannot run the project."""
        if self.needs and shutil.which(self.needs) is None:
            pytest.skip(f"this machine has no {self.needs}")


class Row(Struct, frozen=True, kw_only=True):
    """One change, and where it ends: `merged`, or a text of the refusal."""

    files: Tree
    ends: str
    changes: Mapping[str, str] = {}
    """The tests that its plan names as changed, with the reasons."""


def try_row(base: Path, root: Path, row: Row) -> str:
    """Plan, patch, gate, approve and merge a row; return `merged`, or why it went no further."""
    world = World(copied(base, root))
    try:
        return _outcome(world, row)
    finally:
        world.close()


def _outcome(world: World, row: Row) -> str:
    main = git(world.root, "rev-parse", "main")
    refused = prove_row(world, row)
    if refused:
        assert git(world.root, "rev-parse", "main") == main
        return refused
    answer = world.call("feature.ready_to_merge", feature_id="one", user_approval_token=world.approval())
    assert (git(world.root, "rev-parse", "main") != main) == answer.ok
    return MERGED if answer.error is None else f"{answer.error['code']}: {answer.error['message']}"


def prove_row(world: World, row: Row) -> str:
    """Plan, patch and gate a row; return why it was refused, empty if it can be approved."""
    planned = [{"test": test, "reason": reason} for test, reason in row.changes.items()]
    plan = {**_plan(), **({"test_changes": planned} if planned else {})}
    world.ok("plan.submit", feature_id="one", plan_json=plan)
    diff = "".join(_file_patch(world.root / ".worktrees/one", path, text) for path, text in row.files.items())
    steps: list[tuple[str, dict[str, Any]]] = [
        ("repo.apply_patch", {"unified_diff": diff}),
        ("gates.run", {"mode": "fast"}),
        ("gates.run", {"mode": "full"}),
    ]
    for tool, arguments in steps:
        error = world.call(tool, role=Role.BUILDER, feature_id="one", **arguments).error
        if error is not None:
            return f"{error['code']}: {error['message']}"
    return ""


def _plan() -> dict[str, Any]:
    return {
        "feature_id": "one",
        "plan_version": 1,
        "summary": "Change the cart",
        "allowed_areas": ["**"],
        "forbidden_areas": [],
        "base_ref": "main",
        "files": files(create=("src/unused.py",)),
        "contracts": {"openapi": "none", "events": "none", "db": "none"},
        "acceptance_criteria": ["The cart adds up"],
        "gate_profile": "default",
    }


def _file_patch(worktree: Path, path: str, text: str | None) -> str:
    there = worktree / path
    old = tuple(there.read_text().splitlines()) if there.exists() else ()
    if text is None:
        removed = "".join(f"-{line}\n" for line in old)
        return f"--- a/{path}\n+++ /dev/null\n@@ -1,{len(old)} +0,0 @@\n{removed}"
    return patch_of(path, *text.splitlines(), old=old)


def pytest_step() -> dict[str, Any]:
    """Return the gate of a pytest project."""
    return {
        "name": "test",
        "cmd": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=junit.xml"],
        "env": {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    }
