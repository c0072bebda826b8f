"""Changes of behaviour: tests of the base that a feature removes or contradicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from aop.kernel.config.policy import Policy
from aop.kernel.gates.base.test_files import changed_test_files
from aop.kernel.gates.base.test_texts import is_like, text_of_test
from aop.kernel.gates.reports.named_tests import lies_in, names_test
from aop.kernel.ports.git import FileMode, GitObjects, TreeChange, TreeEntry
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import TestChange, TestComparison

MOST_SHOWN = 200
_MOST_COMPARED = 50


class ChangedTest(Struct, frozen=True, kw_only=True):
    """A test of the base that no longer runs and passes as it is there."""

    test: str
    """Its name in the report, or as the plan spells it."""
    change: Literal["removed", "renamed", "changed", "planned"]
    """`planned`: the plan names it, and no run has shown a change of it."""
    reason: str
    """The planner's words; empty if the plan does not name it."""
    renamed_to: str = ""
    """The new test that has most of its text; empty if there is none."""
    path: str = ""
    """The file of the test, or a changed helper that it may use; empty if it is not known."""
    old_text: str = ""
    """Its text on the base; empty if it was not found."""
    new_text: str = ""
    """The text that has taken its place."""


class BehaviourChanges(Struct, frozen=True, kw_only=True):
    """The tests of the base that a feature changes."""

    tests: tuple[ChangedTest, ...] = ()
    left_out: int = 0
    """How many more there are."""


def behaviour_changes(
    objects: GitObjects,
    state: FeatureState,
    policy: Policy,
    *,
    planned: Sequence[TestChange],
    tests: Mapping[str, Any],
    mask: Callable[[str], str],
) -> BehaviourChanges:
    """Return the changes that a plan names and a gate run shows; `tests` are those of the run."""
    found = tests.get("comparison")
    comparison = msgspec.convert(found, TestComparison) if found else TestComparison(passed_sha256="", base_sha256="")
    ran = comparison.base_tests
    if not (planned or comparison.removed or (ran and ran.failed)):
        return BehaviourChanges()
    base = objects.tree_of(state.base_commit)
    texts = _Texts(objects, changed_test_files(objects, base, state.tree, policy), comparison.added)
    shown = [*_shown(texts, comparison, planned), *_only_planned(comparison, planned)]
    hidden = comparison.removed_count - len(comparison.removed)
    hidden += ran.failed_count - len(ran.failed) if ran else 0
    masked = (_masked(each, mask) for each in shown[:MOST_SHOWN])
    return BehaviourChanges(tests=tuple(masked), left_out=max(0, len(shown) - MOST_SHOWN) + hidden)


def _shown(texts: _Texts, comparison: TestComparison, planned: Sequence[TestChange]) -> Iterator[ChangedTest]:
    removed = dict.fromkeys(comparison.removed)
    ran = comparison.base_tests
    for test in removed:
        yield texts.removed_test(test, _reason(test, planned))
    for test in dict.fromkeys(ran.failed if ran else ()):
        if test not in removed:
            yield texts.changed_test(test, _reason(test, planned))


def _only_planned(comparison: TestComparison, planned: Sequence[TestChange]) -> Iterator[ChangedTest]:
    """Return what the plan may still change unseen: the merge gates can have other steps."""
    ran = comparison.base_tests
    seen = (*comparison.removed, *(ran.failed if ran else ()))
    for each in planned:
        if not any(names_test(each.test, test) for test in seen):
            yield ChangedTest(test=each.test, change="planned", reason=each.reason)


def _reason(test: str, planned: Iterable[TestChange]) -> str:
    return next((each.reason for each in planned if names_test(each.test, test)), "")


def _masked(each: ChangedTest, mask: Callable[[str], str]) -> ChangedTest:
    return msgspec.structs.replace(
        each, reason=mask(each.reason), old_text=mask(each.old_text), new_text=mask(each.new_text)
    )


class _Texts:
    """The changed test files of a feature, from which old and new tests are cut out."""

    def __init__(self, objects: GitObjects, changes: Sequence[TreeChange], added: Sequence[str]) -> None:
        self._objects = objects
        self._changes = [each for each in changes if each.old is not None]
        self._new = [each for each in changes if each.new is not None]
        self._added = list(added[:_MOST_COMPARED])

    def removed_test(self, test: str, reason: str) -> ChangedTest:
        change, old = self._old(test)
        for name in self._added if old else ():
            new = self._text_in(self._new, name)
            if new and is_like(old, new):
                self._added.remove(name)
                return ChangedTest(
                    test=test, change="renamed", reason=reason, renamed_to=name, path=change, old_text=old, new_text=new
                )
        # A test that is only skipped still has its text.
        new = self._text_in([each for each in self._new if each.path == change], test)
        return ChangedTest(test=test, change="removed", reason=reason, path=change, old_text=old, new_text=new)

    def changed_test(self, test: str, reason: str) -> ChangedTest:
        path, old = self._old(test)
        new = self._text_in([each for each in self._new if each.path == path], test)
        return ChangedTest(test=test, change="changed", reason=reason, path=path, old_text=old, new_text=new)

    def _old(self, test: str) -> tuple[str, str]:
        """Return the path and the text of a test on the base, from the files that changed."""
        own = [each for each in self._changes if lies_in(test, each.path)] or self._changes
        for each in own:
            text = text_of_test(self._read(each.old), test)
            if text:
                return each.path, text
        return (own[0].path if own else ""), ""

    def _text_in(self, changes: Sequence[TreeChange], test: str) -> str:
        own = [each for each in changes if lies_in(test, each.path)] or changes
        return next((text for each in own if (text := text_of_test(self._read(each.new), test))), "")

    def _read(self, entry: TreeEntry | None) -> str:
        if entry is None or entry.mode not in (FileMode.FILE, FileMode.EXECUTABLE):
            return ""
        return self._objects.blob(entry.oid).decode(errors="replace")
