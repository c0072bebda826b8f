"""Frozen tests: those of the base and those that went red, and grants for changes."""

from __future__ import annotations

from msgspec.structs import replace

from aop.core.ids import ObjectId, TreeId
from aop.core.paths import globs
from aop.gated.machine.active_pr import StepType
from aop.gated.machine.position import step_of
from aop.gated.machine.test_sources import change_problem
from aop.gated.session.session import Session
from aop.kernel.ports.git import FileMode, TreeChange, TreeEntry
from aop.kernel.record.documents.gate_runs import TestChange
from aop.kernel.record.documents.questions import Question

GRANT, REFUSE = "grant", "refuse"
REMOVED = ""
"""The frozen version of a test file whose removal was granted."""


def is_test(session: Session, path: str) -> bool:
    """Tell whether a file is a test by `gated.test_globs`."""
    return any(globs.matches(pattern, path) for pattern in session.policy.test_globs)


def changed_tests(session: Session, old: TreeId) -> list[TreeChange]:
    """Return the changes of test files since a tree."""
    changes = session.kernel.git.objects.changes(old, session.known.tree)
    return [each for each in changes if is_test(session, each.path)]


def tests_to_freeze(session: Session) -> dict[str, str]:
    """Return the test files that are new or changed on the branch, as mode and blob."""
    if not session.policy.frozen_tests:
        return {}
    return {each.path: mode_and_blob(each.new) for each in changed_tests(session, _base(session)) if each.new}


def is_as_frozen(entry: TreeEntry | None, frozen: str) -> bool:
    """Tell whether a file is unchanged, including its mode: a test that is not executable may not run."""
    return frozen == REMOVED if entry is None else frozen in (mode_and_blob(entry), entry.oid)


def frozen_version(session: Session, path: str) -> str | None:
    """Return the version of a test file that cannot be weakened, as mode and blob; None if it is free."""
    if not session.policy.frozen_tests:
        return None
    frozen = session.workflow.frozen_tests.get(path)
    if frozen is not None or not is_test(session, path):
        return frozen
    entry = session.kernel.git.objects.entry(_base(session), path)
    return None if entry is None else mode_and_blob(entry)


def freeze_problem(session: Session, path: str, tree: TreeId) -> str:
    """Return why a tree may not have its version of a test file; a RED step may add tests, and change none."""
    frozen, entry = frozen_version(session, path), session.kernel.git.objects.entry(tree, path)
    if frozen is None or is_as_frozen(entry, frozen) or is_granted(session, path, tree):
        return ""
    if step_of(session.workflow).type is not StepType.RED:
        return "only a RED step adds tests"
    return _growth_problem(session, path, entry, frozen)


def weakened_tests(session: Session) -> tuple[str, ...]:
    """Return the frozen tests that changed, each with the reason."""
    known = session.known
    changed = [each.path for each in changed_tests(session, _base(session)) if each.old is not None]
    paths = sorted({*changed, *known.workflow.frozen_tests})
    problems = {path: freeze_problem(session, path, known.tree) for path in paths}
    return tuple(f"`{path}` ({problem})" for path, problem in problems.items() if problem)


def _growth_problem(session: Session, path: str, entry: TreeEntry | None, frozen: str) -> str:
    mode, _, oid = frozen.rpartition(" ")
    if entry is None or frozen == REMOVED:
        return "it is gone" if entry is None else "it was removed"
    if entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE) or mode not in ("", entry.mode):
        return "its mode is another one"
    git = session.kernel.git
    return change_problem(path, git.objects.blob(ObjectId(oid)), git.objects.blob(entry.oid))


def about_frozen(session: Session, path: str, tree: TreeId) -> str:
    """Return the subject of the question about one exact change of a frozen test."""
    entry = session.kernel.git.objects.entry(tree, path)
    before, after = frozen_version(session, path), "nothing" if entry is None else mode_and_blob(entry)
    return f"frozen test of {session.name}: {path}: {before} to {after}"


def is_granted(session: Session, path: str, tree: TreeId) -> bool:
    """Tell whether a person granted this change of a frozen test."""
    about = about_frozen(session, path, tree)
    with session.kernel.record.read() as view:
        return any(each.about == about and each.answer == GRANT for each in view.all(Question))


def take_grant(session: Session, path: str, tree: TreeId) -> None:
    """Freeze the version of a test file that a person granted."""
    entry, workflow = session.kernel.git.objects.entry(tree, path), session.workflow
    frozen = {**workflow.frozen_tests, path: REMOVED if entry is None else mode_and_blob(entry)}
    granted = tuple(sorted({*workflow.granted_tests, path}))
    session.learn(workflow=replace(workflow, frozen_tests=frozen, granted_tests=granted))
    state = session.the_state()
    others = (change for change in state.test_changes if change.test != path)
    change = TestChange(test=path, reason="A person granted the change of this file.")
    session.state = replace(state, test_changes=(*others, change))


def mode_and_blob(entry: TreeEntry) -> str:
    """Return a version of a file."""
    return f"{entry.mode} {entry.oid}"


def _base(session: Session) -> TreeId:
    return session.kernel.git.objects.tree_of(session.known.base_commit)
