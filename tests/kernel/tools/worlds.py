"""Repositories with a configuration of a test's own, and what several files of tool tests look at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aop.kernel.features.lifecycle import store_feature
from aop.kernel.record.documents.features import FeatureState
from tests.world import FILES, World, make_repository

POLICY = "agentic/orchestrator/policy.yaml"
GATES = "agentic/orchestrator/gates.yaml"

CHECK = {"name": "check", "cmd": ["sh", "check.sh"]}


def configured(
    root: Path, *, policy: Any = None, gates: str | None = None, files: Mapping[str, str] | None = None
) -> World:
    """Make a repository whose base branch has this policy, these gates and these further files."""
    extra = {**(files or {})}
    if policy is not None:
        extra[POLICY] = yaml(version=1, **policy)
    if gates is not None:
        extra[GATES] = gates
    return World(make_repository(root, {**FILES, **extra}))


def ready_repository(root: Path, **how: Any) -> Path:
    """Make a repository with a feature `one` that may be merged."""
    world = configured(root, **how)
    world.ready()
    world.close()
    return root


def copied(repository: Path, to: Path) -> Path:
    """Copy a repository together with AOP's record; its worktree is told where it is now."""
    shutil.copytree(repository, to, symlinks=True)
    registration, link = to / ".git/worktrees/one", to / ".worktrees/one/.git"
    (registration / "gitdir").write_text(f"{link}\n")
    link.write_text(f"gitdir: {registration}\n")
    return to


def yaml(**keys: Any) -> str:
    """Write a configuration file; every JSON text is YAML."""
    return json.dumps(keys) + "\n"


def gates_of(
    fast: Any = None,
    full: Any = None,
    merge: Any = None,
    *,
    others: Any = None,
    without_merge: bool = False,
    **keys: Any,
) -> str:
    """Write a gates.yaml whose default profile has these steps; a mode that is not given has the usual one."""
    modes = {"fast": fast, "full": full, "merge": merge}
    steps = {mode: [CHECK] if given is None else given for mode, given in modes.items()}
    if without_merge:
        del steps["merge"]
    return yaml(version=1, profiles={"default": {"modes": steps, **keys}, **(others or {})})


def step(script: str, name: str = "check", **keys: Any) -> list[dict[str, Any]]:
    """Return a mode of one step that is a line of shell."""
    return [{"name": name, "cmd": ["sh", "-c", script], **keys}]


def plain(value: Any) -> Any:
    """Return an answer as its caller reads it from JSON."""
    return json.loads(msgspec.json.encode(value))


def state_of(world: World, feature: str = "one") -> FeatureState:
    """Return a feature as the record has it."""
    with world.app.record.read() as view:
        state = view.get(FeatureState, feature)
    assert state is not None
    return state


def force(world: World, feature: str = "one", **changes: Any) -> None:
    """Put a feature into a state that no tool of the catalogue leads to yet."""
    with world.app.record.write() as tx:
        before = tx.get(FeatureState, feature)
        assert before is not None
        store_feature(tx, before, msgspec.structs.replace(before, **changes), now=before.last_updated)


def events(world: World) -> list[str]:
    """Return the kinds of all journal entries, in order."""
    with world.app.record.read() as view:
        return [entry.event.kind for entry in view.journal()]


def patch_of(path: str, *lines: str, old: tuple[str, ...] = ()) -> str:
    """Write the diff that makes a file of these lines, out of nothing or out of all of its old lines."""
    source = f"a/{path}" if old else "/dev/null"
    header = f"--- {source}\n+++ b/{path}\n@@ -{1 if old else 0},{len(old)} +1,{len(lines)} @@\n"
    return header + "".join(f"-{line}\n" for line in old) + "".join(f"+{line}\n" for line in lines)
