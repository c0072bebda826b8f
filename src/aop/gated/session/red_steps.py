"""RED steps that are done: the tests that went red, and their test files."""

from __future__ import annotations

from aop.core.ids import ObjectId, TreeId
from aop.gated.machine.state import PendingAnalysis
from aop.gated.session.documents import RedStep
from aop.gated.session.frozen_tests import REMOVED, is_test
from aop.gated.session.session import Session
from aop.kernel.ports.git import FileContent, FileMode


def keep_red_step(session: Session, pending: PendingAnalysis) -> None:
    """Keep what went red, and from which tree a fix has to make a difference."""
    known, git = session.known, session.kernel.git
    git.branches.keep(session.name, known.tree, aside=True)
    red = RedStep(tests=pending.failed, tree=known.tree, head=known.head)
    session.learn(red_tree=git.objects.tree_of(known.head), reds=(*known.reds, red))


def reds_since(session: Session, tree: TreeId) -> list[str]:
    """Return the tests that went red after a checkpoint with this tree."""
    objects = session.kernel.git.objects
    return [test for red in session.known.reds if objects.tree_of(red.head) == tree for test in red.tests]


def tree_in_company(session: Session, red: RedStep) -> TreeId:
    """Return the work with all test files as they were in a RED step; what a person granted stays."""
    git, known = session.kernel.git, session.known
    changes = [each for each in git.objects.changes(red.tree, known.tree) if is_test(session, each.path)]
    files: dict[str, FileContent | None] = {
        each.path: None if each.old is None else (each.old.mode, git.objects.blob(each.old.oid)) for each in changes
    }
    for path in known.workflow.granted_tests:
        mode, _, oid = known.workflow.frozen_tests.get(path, REMOVED).rpartition(" ")
        files[path] = (FileMode(mode), git.objects.blob(ObjectId(oid))) if oid else None
    return git.objects.tree_with(known.tree, files)
