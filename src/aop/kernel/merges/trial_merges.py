"""Trial merges: which features conflict with the base branch or with each other.

The question between two features is what would happen if both went into the base branch as it is now. So each is first
brought up to date, and the results are merged on top of the base. A feature that already conflicts with the base is
compared as it is, with the features that were cut from the same commit.

Git is asked only about sides that touch the same paths, and an answer holds until one side or the base moves: a patch
makes the answers about its feature stale, and the next scan asks for those alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import ClassVar

from msgspec import Struct

from aop.core.ids import CommitId, FeatureId, TreeId
from aop.kernel.merges.conflicts import KINDS
from aop.kernel.merges.touched_paths import TouchedPaths, meeting_pairs, touched_paths_between
from aop.kernel.ports.git import Git, GitMerges, GitObjects, Proposal, TrialMerge
from aop.kernel.record.documents.base import Document, NonEmpty, next_version

MOST_TRIALS = 1_000
"""The limit of trials between features in one scan; the rest is counted and left for the next scan."""
MOST_PATHS = 50
BASE = ""
"""The name of the base branch in the key of a question."""


class ConflictPath(Struct, frozen=True, kw_only=True):
    """A path in which two sides of a merge conflict."""

    path: NonEmpty
    """The path; git invents a name where a file and a folder have the same one."""
    kind: str
    """The sides that changed, added or deleted it; `names` for a file against a folder, or a move."""


class TriedMerge(Document, frozen=True, kw_only=True):
    """The newest trial merge of two features, or of a feature and the base; it can be recomputed."""

    kind: ClassVar[str] = "tried_merge"

    between: str
    """The key: both features, or `:` and one feature for the base."""
    about: str
    """The commits and trees that were merged; it says nothing about others."""
    is_clean: bool
    paths: tuple[ConflictPath, ...]
    left_out_paths: int


class FeatureTip(Struct, frozen=True, kw_only=True):
    """A feature as it is now."""

    feature_id: FeatureId
    base: CommitId
    tree: TreeId

    @property
    def proposal(self) -> Proposal:
        """Return what would be merged."""
        return Proposal(commit=self.base, tree=self.tree)


class TrialQuestion(Struct, frozen=True, kw_only=True):
    """The question whether two sides conflict."""

    ours: FeatureTip | None
    """None is the base branch."""
    theirs: FeatureTip
    onto: CommitId
    """The commit onto which both are merged."""

    @property
    def key(self) -> str:
        """Return the key of the two sides."""
        return f"{self.ours.feature_id if self.ours else BASE}:{self.theirs.feature_id}"

    @property
    def about(self) -> str:
        """Return the exact commits and trees; an answer holds as long as these are equal."""
        sides = [f"{tip.base}:{tip.tree}" for tip in (self.ours, self.theirs) if tip is not None]
        return " ".join((self.onto, *sides))

    @property
    def late(self) -> tuple[FeatureTip, ...]:
        """Return the features that are brought up to date first."""
        both = () if self.ours is None else (self.ours, self.theirs)
        return tuple(tip for tip in both if tip.base != self.onto)


class TrialResults(Struct, frozen=True, kw_only=True):
    """The results of one scan."""

    conflicts: tuple[tuple[TrialQuestion, TriedMerge], ...]
    fresh: Mapping[str, TriedMerge]
    """The answers that were not known before, by key."""
    untried: int
    """How many questions were postponed."""
    over: tuple[str, ...] = ()
    """The keys of the answers about features that have ended."""


def conflicts_with_base(
    git: Git, tips: Sequence[FeatureTip], head: CommitId, known: Mapping[str, TriedMerge]
) -> dict[FeatureId, tuple[ConflictPath, ...]]:
    """Return the features that conflict with the base branch, with the paths; git is asked only if both can meet."""
    changed = _changed_tips(git, [tip for tip in tips if tip.base != head])
    about_base = [TrialQuestion(ours=None, theirs=tip, onto=head) for tip in _overtaken(git.objects, changed, head)]
    tried = _answer_all(git.merges, about_base, known, most=len(about_base))
    return {question.theirs.feature_id: answer.paths for question, answer in tried.conflicts}


def _changed_tips(git: Git, tips: Sequence[FeatureTip]) -> dict[FeatureTip, TouchedPaths]:
    """Return the features that change something, with the paths they touch."""
    changed = {tip: touched_paths_between(git.objects, git.objects.tree_of(tip.base), tip.tree) for tip in tips}
    return {tip: touched for tip, touched in changed.items() if touched.paths}


def try_merges(
    git: Git, tips: Sequence[FeatureTip], head: CommitId, known: Mapping[str, TriedMerge], *, most: int = MOST_TRIALS
) -> TrialResults:
    """Answer all questions about these features and the base; answers that still hold are reused."""
    changed = _changed_tips(git, tips)
    overtaken = _overtaken(git.objects, changed, head)
    about_base = [TrialQuestion(ours=None, theirs=tip, onto=head) for tip in overtaken]
    # No limit here: how two features are compared depends on these answers.
    with_base = _answer_all(git.merges, about_base, known, most=len(about_base))
    stuck = {question.theirs for question, _ in with_base.conflicts}
    pairs = [*_between_clean(changed, overtaken, stuck, head), *_between_stuck(changed, stuck)]
    between = _answer_all(git.merges, pairs, known, most=most)
    living = {BASE, *(tip.feature_id for tip in tips)}
    return TrialResults(
        conflicts=(*with_base.conflicts, *between.conflicts),
        fresh={**with_base.fresh, **between.fresh},
        untried=between.untried,
        over=tuple(key for key in known if not living >= set(key.split(":"))),
    )


def _overtaken(
    objects: GitObjects, changed: Mapping[FeatureTip, TouchedPaths], head: CommitId
) -> dict[FeatureTip, TouchedPaths]:
    """Return the features that touch changes of the base since they were cut, with those changes."""

    @cache
    def since(base: CommitId) -> tuple[TouchedPaths, bool]:
        old, new = objects.tree_of(base), objects.tree_of(head)
        there = touched_paths_between(objects, old, new)
        if objects.is_ancestor(base, head):
            return there, True
        # The base branch was reset: a merge brings back what it left behind.
        return there.with_all_of(touched_paths_between(objects, new, old)), False

    overtaken = {}
    for tip, touched in changed.items():
        if tip.base != head:
            other, is_behind = since(tip.base)
            if not is_behind or touched.meets(other):
                overtaken[tip] = other
    return overtaken


def _between_clean(
    changed: Mapping[FeatureTip, TouchedPaths],
    overtaken: Mapping[FeatureTip, TouchedPaths],
    stuck: set[FeatureTip],
    head: CommitId,
) -> Iterator[TrialQuestion]:
    # A clean merge touches nothing but what one of its sides touches.
    updated = {
        tip: touched.with_all_of(overtaken[tip]) if tip in overtaken else touched
        for tip, touched in changed.items()
        if tip not in stuck
    }
    return (TrialQuestion(ours=ours, theirs=theirs, onto=head) for ours, theirs in meeting_pairs(updated))


def _between_stuck(changed: Mapping[FeatureTip, TouchedPaths], stuck: set[FeatureTip]) -> Iterator[TrialQuestion]:
    for base in sorted({tip.base for tip in stuck}):
        as_they_are = {tip: touched for tip, touched in changed.items() if tip.base == base}
        for ours, theirs in meeting_pairs(as_they_are):
            if ours in stuck or theirs in stuck:
                yield TrialQuestion(ours=ours, theirs=theirs, onto=base)


def _answer_all(
    merges: GitMerges, questions: Sequence[TrialQuestion], known: Mapping[str, TriedMerge], *, most: int
) -> TrialResults:
    answers = {question: known.get(question.key) for question in questions}
    stale = [question for question, answer in answers.items() if answer is None or answer.about != question.about]
    fresh = {}
    for question, merged in _run_trials(merges, stale[:most]):
        fresh[question.key] = _answer(question, merged, version=next_version(known.get(question.key)))
    now = ((question, fresh.get(question.key, answers[question])) for question in questions)
    return TrialResults(
        conflicts=tuple(
            (question, answer)
            for question, answer in now
            if answer is not None and answer.about == question.about and not answer.is_clean
        ),
        fresh=fresh,
        untried=max(0, len(stale) - most),
    )


def _run_trials(merges: GitMerges, questions: Sequence[TrialQuestion]) -> Iterator[tuple[TrialQuestion, TrialMerge]]:
    if not questions:
        return
    with merges.trials() as trials:
        late = {tip: question.onto for question in questions for tip in question.late}
        merged = trials.merge([(Proposal(commit=onto), tip.proposal) for tip, onto in late.items()])
        updated = {
            tip: Proposal(commit=onto, tree=trial.tree) for (tip, onto), trial in zip(late.items(), merged, strict=True)
        }
        sides = [(_side(each, each.ours, updated), _side(each, each.theirs, updated)) for each in questions]
        yield from zip(questions, trials.merge(sides), strict=True)


def _side(question: TrialQuestion, tip: FeatureTip | None, updated: Mapping[FeatureTip, Proposal]) -> Proposal:
    if tip is None:
        return Proposal(commit=question.onto)
    return updated[tip] if tip in question.late else tip.proposal


def _answer(question: TrialQuestion, merged: TrialMerge, *, version: int) -> TriedMerge:
    paths = [
        ConflictPath(path=_visible(path), kind=KINDS.get(stages, "names")) for path, stages in merged.stages.items()
    ]
    return TriedMerge(
        version=version,
        between=question.key,
        about=question.about,
        is_clean=merged.is_clean,
        paths=tuple(paths[:MOST_PATHS]),
        left_out_paths=max(0, len(paths) - MOST_PATHS),
    )


def _visible(path: str) -> str:
    """Return a name as valid UTF-8; undecodable bytes are replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
