"""Frozen tests: tests that went red, changes to them, and grants for changes."""

from __future__ import annotations

import re

from aop.core.ids import ObjectId, TreeId
from aop.core.paths import globs
from aop.gated.machine.active_pr import StepType
from aop.gated.machine.position import step_of
from aop.gated.session.session import Session
from aop.kernel.ports.git import FileMode, TreeChange, TreeEntry
from aop.kernel.record.documents.questions import Question

GRANT, REFUSE = "grant", "refuse"
_SWITCHES_OFF = re.compile(rb"skip|xfail|disabled|\bonly\(", re.IGNORECASE)


def changed_tests(session: Session, old: TreeId) -> list[TreeChange]:
    """Return the changes of test files since a tree."""
    patterns = session.policy.test_globs
    changes = session.kernel.git.objects.changes(old, session.known.tree)
    return [each for each in changes if any(globs.matches(pattern, each.path) for pattern in patterns)]


def tests_to_freeze(session: Session) -> dict[str, str]:
    """Return the test files that are new or changed on the branch, as mode and blob."""
    if not session.policy.frozen_tests:
        return {}
    base = session.kernel.git.objects.tree_of(session.known.base_commit)
    return {each.path: _mode_and_blob(each.new) for each in changed_tests(session, base) if each.new is not None}


def is_as_frozen(entry: TreeEntry | None, frozen: str) -> bool:
    """Tell whether a file is unchanged, including its mode: a test that is not executable may not run."""
    return entry is not None and frozen in (_mode_and_blob(entry), entry.oid)


def weakened_tests(session: Session) -> tuple[str, ...]:
    """Return the frozen tests that changed; a RED step may add lines, but remove none."""
    git, known = session.kernel.git, session.known
    is_red = step_of(known.workflow).type is StepType.RED
    weakened = []
    for path, frozen in known.workflow.frozen_tests.items():
        entry = git.objects.entry(known.tree, path)
        if is_as_frozen(entry, frozen) or is_granted(session, path, known.tree):
            continue
        if not (is_red and entry is not None and _is_longer(session, entry, frozen)):
            weakened.append(path)
    return tuple(weakened)


def _is_longer(session: Session, entry: TreeEntry, frozen: str) -> bool:
    mode, _, oid = frozen.rpartition(" ")
    if entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE) or mode not in ("", entry.mode):
        return False
    git = session.kernel.git
    return _only_adds(git.objects.blob(ObjectId(oid)), git.objects.blob(entry.oid))


def _only_adds(old: bytes, new: bytes) -> bool:
    """Tell whether all old lines remain in order, and no added line disables a test."""
    left = old.splitlines()
    for line in new.splitlines():
        if left and line == left[0]:
            left.pop(0)
        elif _SWITCHES_OFF.search(line):
            return False
    return not left


def about_frozen(session: Session, path: str, tree: TreeId) -> str:
    """Return the subject of the question about one exact change of a frozen test."""
    entry = session.kernel.git.objects.entry(tree, path)
    before, after = session.workflow.frozen_tests[path], "nothing" if entry is None else _mode_and_blob(entry)
    return f"frozen test of {session.name}: {path}: {before} to {after}"


def is_granted(session: Session, path: str, tree: TreeId) -> bool:
    """Tell whether a person granted this change of a frozen test."""
    about = about_frozen(session, path, tree)
    with session.kernel.record.read() as view:
        return any(each.about == about and each.answer == GRANT for each in view.all(Question))


def _mode_and_blob(entry: TreeEntry) -> str:
    return f"{entry.mode} {entry.oid}"
