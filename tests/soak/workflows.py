"""Looks at a gated workflow after a breakage: it is where it was or one step on, and done once when called again."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.gated.session.documents import GatedWorkflow
from aop.kernel.record.chain import FIRST_HASH, chained_hash
from aop.kernel.record.documents.questions import Question
from tests.gated.stages import NAME, brought_to
from tests.soak.faults import AOP, OPERATION_ID, How, Operation, Point, Stage, broken_copy, quiet_environment
from tests.soak.wholeness import Outcome, left_behind, let_time_pass
from tests.world import World, git

WORKTREE = f".worktrees/{NAME}"
STRAY = "was not changed with `safe_patch`, and was left out."


class Standing(Struct, frozen=True, kw_only=True):
    """How far a workflow is, without what differs from run to run."""

    workflow: Any
    draft: str | None
    trees: tuple[str, ...]
    """Of the work, of its head, of its base."""
    commits: int
    """On the branch, since its base."""
    questions: int
    main: str
    """The tree of the base branch."""


def staged(requirement: str, root: Path) -> Stage:
    """Make a repository in which the call of a row can be made."""
    tool, given = brought_to(requirement, root)
    words = ("call", "--operation-id", OPERATION_ID, tool, json.dumps(given))
    operation = Operation(name=f"{requirement} {tool}", tool=tool, stage=requirement, event="workflow_called")
    return Stage(root=root, operation=operation, words=words)


def standing(root: Path) -> Standing:
    """Read it from the record, as whoever comes next does."""
    world = World(root)
    try:
        with world.app.record.read() as view:
            known, questions = view.get(GatedWorkflow, NAME), len(list(view.all(Question)))
    finally:
        world.close()
    assert known is not None
    workflow = _without_strays(msgspec.to_builtins(known.workflow))
    last = workflow.pop("last_commit_hash", None)
    if last is not None:
        workflow["last_commit"] = _tree(root, last)
    return Standing(
        workflow=workflow,
        draft=known.draft,
        trees=(known.tree, _tree(root, known.head), _tree(root, known.base_commit)),
        commits=int(git(root, "rev-list", "--count", f"{known.base_commit}..{known.head}")),
        questions=questions,
        main=_tree(root, "main"),
    )


def _without_strays(value: Any) -> Any:
    """Leave out the files that a call found changed on disk: the next call names what a killed checkout left."""
    if isinstance(value, dict):
        return {name: _without_strays(each) for name, each in value.items()}
    if isinstance(value, str):
        return "\n".join(line for line in value.split("\n") if not line.endswith(STRAY))
    return value


def _tree(root: Path, commit: str) -> str:
    return git(root, "rev-parse", f"{commit}^{{tree}}").strip()


def called(stage: Stage) -> subprocess.CompletedProcess[str]:
    """Make the call in a process of its own."""
    return subprocess.run(
        [*AOP, *stage.words], cwd=stage.root, env=quiet_environment(), capture_output=True, text=True, check=False
    )


def steps_of(stage: Stage, scratch: Path) -> tuple[Standing, Standing]:
    """Return where the workflow is before the call, and where it is after one that nobody disturbed."""
    own = stage.copied(scratch / "undisturbed")
    before = standing(own.root)
    ended = called(own)
    assert ended.returncode in (0, 10), ended.stdout + ended.stderr
    after = standing(own.root)
    shutil.rmtree(own.root)
    return before, after


def outcome_of(
    point: Point, how: How, stage: Stage, scratch: Path, steps: tuple[Standing, Standing], *, with_parent: bool = False
) -> Outcome:
    """Break the call at a point, on a copy of its repository, and look at what is left of it."""
    own, ended = broken_copy(point, how, stage, scratch, with_parent=with_parent)
    found = list(_damage(own, *steps))
    if "Traceback" in ended.said:
        found.append(f"a person is shown a traceback: {ended.said}")
    shutil.rmtree(own.root)
    return Outcome(point=point, ended=ended, damage=found)


def _damage(stage: Stage, before: Standing, after: Standing) -> Iterator[str]:
    let_time_pass(stage.root)
    now = standing(stage.root)
    # A merge that the policy permits is an operation of its own, and comes before the step of the workflow.
    if now not in (before, after, msgspec.structs.replace(before, main=after.main)):
        yield f"it is neither where it was nor one step on: {_differing(now, after)}"
    again = called(stage)
    if again.returncode not in (0, 10):
        yield f"given again, it ends with {again.returncode}: {again.stdout}{again.stderr}"
    now = standing(stage.root)
    if now != after:
        yield f"given again, it is not where it should be: {_differing(now, after)}"
    yield from _of_record(stage.root)
    yield from _of_worktree(stage.root)
    yield from left_behind(stage.root)


def _differing(now: Standing, wanted: Standing) -> dict[str, Any]:
    fields = {name: (getattr(now, name), getattr(wanted, name)) for name in Standing.__struct_fields__}
    return {name: pair for name, pair in fields.items() if pair[0] != pair[1]}


def _of_record(root: Path) -> Iterator[str]:
    world = World(root)
    try:
        with world.app.record.read() as view:
            previous, calls = FIRST_HASH, 0
            for entry in view.journal():
                if (entry.previous_hash, entry.hash) != (previous, chained_hash(entry.seq, entry.event, previous)):
                    yield f"the journal does not add up at {entry.seq}"
                previous = entry.hash
                calls += entry.event.kind in CALLED and entry.event.operation_id == OPERATION_ID
            if calls != 1:
                yield f"the call happened {calls} times"
            if view.pending_operations() or view.unshown():
                yield f"left to do: {view.pending_operations()} {view.unshown()}"
    finally:
        world.close()


CALLED = ("workflow_called",)


def _of_worktree(root: Path) -> Iterator[str]:
    world = World(root)
    try:
        with world.app.record.read() as view:
            known = view.get(GatedWorkflow, NAME)
    finally:
        world.close()
    assert known is not None
    folder = root / WORKTREE
    if git(folder, "rev-parse", "HEAD").strip() != known.head:
        yield "HEAD of the worktree is not where the record says"
    for path in git(root, "ls-tree", "-r", "--name-only", known.tree).splitlines():
        wanted = git(root, "cat-file", "blob", f"{known.tree}:{path}")
        if not (folder / path).exists() or (folder / path).read_text() != wanted:
            yield f"the worktree holds another `{path}`"
    for name, content in known.files().items():
        found = (folder / name).read_bytes() if (folder / name).exists() else None
        if found != content:
            yield f"`{name}` differs from the record"
    checked = subprocess.run(
        ["git", "fsck", "--no-progress", "--no-dangling"], cwd=root, capture_output=True, text=True, check=False
    )
    if checked.returncode != 0 or "error" in checked.stderr:
        yield f"git fsck: {checked.stderr}"
