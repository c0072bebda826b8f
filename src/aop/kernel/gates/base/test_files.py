"""Test files: the tests of a tree with their helpers, data and configuration."""

from __future__ import annotations

from collections.abc import Sequence

from aop.core.ids import TreeId
from aop.core.paths import globs
from aop.kernel.config.guarded_areas import guarded_areas_of
from aop.kernel.config.policy import Policy
from aop.kernel.features.worktree_extras import BUILD_FILES
from aop.kernel.gates.reports.named_tests import is_test_file
from aop.kernel.ports.git import FileContent, FileMode, GitObjects, TreeChange
from aop.kernel.record.documents.gate_runs import TestChange


def serves_tests(path: str, policy: Policy) -> bool:
    """Tell whether a file is a test, a helper of tests or their configuration."""
    if any(globs.matches(pattern, path) for pattern in policy.gates.test_files):
        return True
    if any(globs.matches(pattern, path) for pattern in BUILD_FILES):
        # It also decides what is built and installed, and the code of a feature may need that.
        return False
    return any(area.covers(path, fold=True) for area in guarded_areas_of(policy).steering)


def changed_test_files(objects: GitObjects, base: TreeId, tree: TreeId, policy: Policy) -> tuple[TreeChange, ...]:
    """Return the changes of a feature to tests, their helpers and their configuration."""
    return tuple(change for change in objects.changes(base, tree) if serves_tests(change.path, policy))


def files_left_out(changes: Sequence[TreeChange], test_changes: Sequence[TestChange]) -> tuple[str, ...]:
    """Return the test files of the base that a feature changed, and whose tests its plan all names by the file."""
    named = {change.test.strip() for change in test_changes if is_test_file(change.test.strip())}
    return tuple(each.path for each in changes if each.old is not None and each.path in named)


def tree_with_base_tests(
    objects: GitObjects, base: TreeId, tree: TreeId, changes: Sequence[TreeChange], left_out: Sequence[str]
) -> TreeId:
    """Return the code of a tree with the tests of the base: those that were added to it are not there."""
    files: dict[str, FileContent | None] = {}
    for change in changes:
        old = change.old if change.path not in left_out else None
        if old is None:
            files[change.path] = None
        elif old.mode is not FileMode.GITLINK:
            files[change.path] = (old.mode, objects.blob(old.oid))
    restored = [path for path, content in files.items() if content is not None]
    for change in objects.changes(base, tree):
        if change.new is not None and any(_is_in_the_way(change.path, path) for path in restored):
            files[change.path] = None
    return objects.tree_with(tree, files)


def _is_in_the_way(path: str, restored: str) -> bool:
    """Tell whether one path needs a folder where the other has a file."""
    return restored.startswith(f"{path}/") or path.startswith(f"{restored}/")
