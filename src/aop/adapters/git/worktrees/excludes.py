"""Excludes: lines that keep AOP's files out of the user's `git status`."""

from __future__ import annotations

import os
from pathlib import Path

_HEADING = "# Written by AOP at run time"
_WORKFLOW_FILES = ("ACTIVE_PR.json", "ORCHESTRATION_STATE.json")
_FEATURE_FILES = ("state.md", "plan.json", "qa_test_index.json", "decisions.md", "logs/", "evidence/")


def exclude_runtime_files(exclude: Path, *, worktrees: str) -> None:
    """Add missing lines to an `info/exclude` file; the user's own lines are unchanged."""
    try:
        present = exclude.read_bytes()
    except FileNotFoundError:
        present = b""
    known = present.splitlines()
    missing = [line for line in _lines(worktrees) if line.encode() not in known]
    if not missing:
        return
    gap = b"" if not present or present.endswith(b"\n") else b"\n"
    heading = [] if _HEADING.encode() in known else [_HEADING]
    added = "".join(f"{line}\n" for line in [*heading, *missing]).encode()
    exclude.parent.mkdir(exist_ok=True)
    # The user may keep the file elsewhere and link to it.
    target = exclude.resolve()
    beside = target.with_name(f"exclude.aop-{os.getpid()}")
    beside.write_bytes(present + gap + added)
    os.replace(beside, target)


def _lines(worktrees: str) -> list[str]:
    return [
        "/.aop/",
        f"/{worktrees}/",
        "/agentic/features/index.json",
        *(f"/agentic/features/*/{name}" for name in _FEATURE_FILES),
        *(f"/{name}" for name in _WORKFLOW_FILES),
    ]
