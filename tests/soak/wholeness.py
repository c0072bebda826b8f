"""Looks at a repository after a breakage: is everything whole, done once, and nothing left lying about?"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from aop.core.text.front_matter import split_front_matter
from aop.core.text.json import MalformedText, parse_json
from aop.core.text.yaml import parse_yaml
from aop.kernel.record.chain import FIRST_HASH, chained_hash
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.documents.features import FeatureState, Index
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.port import Snapshot
from aop.kernel.record.projections import front_matter
from tests.soak.faults import (
    AOP,
    BLOCKED,
    LOCK,
    MERGE,
    PLAN,
    REBASED_BY_GIT,
    Ended,
    How,
    Point,
    Stage,
    broken_copy,
    quiet_environment,
)
from tests.world import World, git

FEATURE = "agentic/features/one"
STATE, PLAN_FILE, INDEX = f"{FEATURE}/state.md", f"{FEATURE}/plan.json", "agentic/features/index.json"


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of an operation that was broken at one point."""

    point: Point
    ended: Ended
    damage: list[str]

    @property
    def ending(self) -> str:
        return self.ended.ending


def outcome_at(
    point: Point,
    how: How,
    stage: Stage,
    scratch: Path,
    *,
    program: Sequence[str] = AOP,
    with_parent: bool = False,
) -> Outcome:
    """Break the operation at a point, on a copy of its repository, and look at what is left of it."""
    was = before(stage)
    own, ended = broken_copy(point, how, stage, scratch, program=program, with_parent=with_parent)
    found = damage(own, was)
    if "Traceback" in ended.said:
        found.append(f"a person is shown a traceback: {ended.said}")
    shutil.rmtree(own.root)
    return Outcome(point=point, ended=ended, damage=found)


class Before(Struct, frozen=True, kw_only=True):
    """What the operation must leave as it is."""

    checkout: dict[str, bytes]
    base: str


def before(stage: Stage) -> Before:
    return Before(checkout=_checkout(stage.root), base=git(stage.root, "rev-parse", "main").strip())


def damage(stage: Stage, was: Before) -> list[str]:
    """Look first as a reader does, then give the operation again in a new process; return all that is wrong."""
    torn = list(_torn(stage.root))
    let_time_pass(stage.root)
    again = subprocess.run(
        [*AOP, *stage.words], cwd=stage.root, env=quiet_environment(), capture_output=True, text=True, check=False
    )
    world = World(stage.root)
    try:
        found = [*torn, *_of_record(world, stage), *_of_repository(stage, was), *left_behind(stage.root)]
    finally:
        world.close()
    # A merge has no operation id on the command line: given again after it was done, it is refused.
    if again.returncode != 0 and not (stage.operation is MERGE and "merged" in again.stderr):
        found.append(f"given again, it ends with {again.returncode}: {again.stderr or again.stdout}")
    return found


def _torn(root: Path) -> Iterator[str]:
    """A reader finds whole files, whatever happened to the writer."""
    for path in (STATE, INDEX, PLAN_FILE):
        if (root / path).exists():
            try:
                _read(root / path)
            except (MalformedText, ValueError) as error:
                yield f"{path} is torn: {error}"


def _read(path: Path) -> Any:
    if path.suffix == ".md":
        return parse_yaml(split_front_matter(path.read_bytes())[0]).value
    return parse_json(path.read_bytes())


def let_time_pass(root: Path) -> None:
    """What is young may belong to a process that lives; nothing here does any more."""
    past = time.time() - 3600
    for folder in (root / ".aop/tmp", root / ".aop/scratch", root / ".aop/run"):
        for path in folder.iterdir() if folder.is_dir() else ():
            os.utime(path, (past, past))
    for path in (root / ".git").rglob("*.lock"):
        os.utime(path, (past, past))


def _of_record(world: World, stage: Stage) -> Iterator[str]:
    with world.app.record.read() as view:
        previous = FIRST_HASH
        for entry in view.journal():
            if (entry.previous_hash, entry.hash) != (previous, chained_hash(entry.seq, entry.event, previous)):
                yield f"the journal does not add up at {entry.seq}"
            previous = entry.hash
        if view.pending_operations():
            yield "an operation is still pending"
        if view.unshown():
            yield f"not shown: {view.unshown()}"
        times = len(list(view.journal(kinds=(stage.operation.event,))))
        if times != 1:
            yield f"{stage.operation.event} happened {times} times"
        yield from _of_files(stage.root, view)
        spent = [approval.spent_by for approval in view.all(Approval)]
        if stage.operation is MERGE and (len(spent) != 1 or spent[0] is None):
            yield f"the approval is spent by {spent}"


def _of_files(root: Path, view: Snapshot) -> Iterator[str]:
    """The files say what the record says."""
    state, index, accepted = view.get(FeatureState, "one"), view.get(Index, Index.key), view.get(AcceptedPlan, "one")
    assert state is not None
    said: dict[str, Any] = {STATE: front_matter(state), INDEX: msgspec.to_builtins(index)}
    said |= {} if accepted is None else {PLAN_FILE: msgspec.to_builtins(accepted.plan)}
    for path, expected in said.items():
        try:
            found = _read(root / path)
        except (OSError, MalformedText, ValueError) as error:
            found = error
        if found != msgspec.json.decode(msgspec.json.encode(expected)):
            yield f"{path} differs from the record"


def _of_repository(stage: Stage, was: Before) -> Iterator[str]:
    root = stage.root
    now = _checkout(root)
    if now != was.checkout:
        changed = {path for path in {*now, *was.checkout} if now.get(path) != was.checkout.get(path)}
        yield f"the checkout of the user changed: {sorted(changed)}"
    merges = int(git(root, "rev-list", "--count", "--first-parent", f"{was.base}..main"))
    if merges != (stage.operation is MERGE):
        yield f"the base branch has {merges} new commits"
    content = (root / ".worktrees/one/src/a.txt").read_text()
    changed_line = "two" if stage.operation in (PLAN, LOCK, BLOCKED) else "TWO"
    if content != f"one\n{changed_line}\nthree\n" + ("four\n" if stage.operation is REBASED_BY_GIT else ""):
        yield f"the worktree holds {content!r}"
    checked = subprocess.run(
        ["git", "fsck", "--no-progress", "--no-dangling"], cwd=root, capture_output=True, text=True, check=False
    )
    if checked.returncode != 0 or "error" in checked.stderr:
        yield f"git fsck: {checked.stderr}"


def _checkout(root: Path) -> dict[str, bytes]:
    """Everything that is the user's: the files, the index, HEAD and the settings; the bytes of each."""
    own = {".git", ".aop", ".worktrees"}
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    mine = {name: path for name, path in files.items() if name.split("/")[0] not in own}
    mine = {name: path for name, path in mine.items() if not name.startswith("agentic/features/")}
    mine |= {name: root / name for name in (".git/index", ".git/HEAD", ".git/config", ".git/info/exclude")}
    return {name: path.read_bytes() for name, path in mine.items()}


_LITTER: tuple[tuple[str, Callable[[Path], list[Path]]], ...] = (
    ("unfinished files", lambda root: [*root.rglob(".aop-*.tmp"), *(root / ".git").rglob("*.aop*")]),
    ("private folders", lambda root: [*(root / ".aop/tmp").glob("*"), *(root / ".aop/run").glob("*")]),
    ("scratch checkouts", lambda root: list((root / ".aop/scratch").glob("*"))),
    ("registrations", lambda root: [path for path in (root / ".git/worktrees").glob("*") if path.name != "one"]),
    ("locks", lambda root: [*(root / ".git").rglob("*.lock"), *(root / ".aop/locks").glob("op-*")]),
    ("quarantine", lambda root: [path for path in (root / ".aop/quarantine").rglob("*") if path.is_file()]),
)


def left_behind(root: Path) -> Iterator[str]:
    for name, look in _LITTER:
        found = sorted(path.relative_to(root).as_posix() for path in look(root))
        if found:
            yield f"left behind, {name}: {found}"
