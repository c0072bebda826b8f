"""Tree hub: the hub through which machines have each other's work.

Each accepted tree is a commit there, on top of its base, before the change that names it is
committed. A ref is named after both, and is never moved: it does not matter who writes it last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from aop.adapters.git.process.output import object_id
from aop.adapters.git.process.program import GitDir
from aop.adapters.git.refs.hub import Hub
from aop.adapters.git.refs.remotes import ONLY_THIS
from aop.core.errors import Fault, HubUnavailable
from aop.core.ids import CommitId
from aop.kernel.ports.git import Author, Git
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Status

_AUTHOR = Author(name="AOP", email="aop@localhost")
_TEXT = "The tree of a feature\n"
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)
"""One for all, so that the same tree on the same base is the same commit."""
_BATCH = 200
"""The most refs of one fetch."""
_PUSH = ("push", "--quiet", "--no-follow-tags", "--no-signed", "--recurse-submodules=no", "--no-force", "--no-verify")
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")


class TreeHub(Hub):
    """The hub of one repository, with the work of all its features."""

    def __init__(
        self, git: GitDir, environ: Mapping[str, str], url: str, flush_objects: Callable[[], None], repository: Git
    ) -> None:
        super().__init__(git, environ, url, flush_objects)
        self._repository = repository
        self._publishing = threading.Lock()
        self._known: set[str] = set()

    def publish(self, states: Iterable[FeatureState]) -> None:
        """Have the work of features at the hub. Raises: HubUnavailable; Fault once a base branch was moved."""
        # Two features with the same tree on the same base are one ref: the second finds it there.
        with self._publishing:
            self._publish(states)

    def _publish(self, states: Iterable[FeatureState]) -> None:
        missing = self._missing(states)
        if not missing:
            return
        commits = {ref: self._commit(state) for ref, state in missing.items()}
        settings = [word for setting in ONLY_THIS for word in ("-c", setting)]
        refspecs = [f"{object_id(commit)}:{ref}" for ref, commit in commits.items()]
        words = (*settings, *_PUSH, "--", self.url, *refspecs)
        try:
            try:
                self._reach("be written", *words)
            except HubUnavailable:
                # Two features at the same tree write one ref at once: the later one finds it there the second time.
                self._reach("be written", *words)
        except HubUnavailable as refusal:
            if any(map(_merge_of, missing.values())):
                # What has happened cannot be refused: the operation stays pending, and is settled later.
                raise Fault(refusal.message) from refusal
            raise
        for ref, commit in commits.items():
            self._git.run("update-ref", ref, commit)
        self._known.update(commits)

    def fetch_work(self, states: Iterable[FeatureState]) -> None:
        """Have the work of features here. Raises: HubUnavailable if the hub is out of reach, or does not have it."""
        missing = [*self._missing(states)]
        for start in range(0, len(missing), _BATCH):
            part = missing[start : start + _BATCH]
            self._reach("be read", *_FETCH, "--", self.url, *(f"+{ref}:{ref}" for ref in part))
        if missing:
            self._flush_objects()
            self._known.update(missing)

    def bring_base(self, branch: str, states: Iterable[FeatureState]) -> None:
        """Move the base branch forward to the commits that features were cut from or merged into."""
        for commit in {_merge_of(state) or state.base_commit for state in states if _ref_of(state)}:
            head = self._repository.branches.head(branch)
            if head not in (None, commit) and self._repository.objects.is_ancestor(head, commit):
                self._repository.branches.move(branch, to=commit, old=head)

    def _missing(self, states: Iterable[FeatureState]) -> dict[str, FeatureState]:
        """Return the features whose work is not known to be both here and there, by ref."""
        found = {ref: state for state in states if (ref := _ref_of(state))}
        unknown = {ref: state for ref, state in found.items() if ref not in self._known}
        here = self._present([*unknown])
        self._known |= here
        return {ref: state for ref, state in unknown.items() if ref not in here}

    def _present(self, refs: Sequence[str]) -> set[str]:
        if not refs:
            return set()
        listed = self._git.run("for-each-ref", "--format=%(refname)", "--", *refs).out.decode("utf-8")
        return set(listed.splitlines())

    def _commit(self, state: FeatureState) -> CommitId:
        merged = _merge_of(state)
        if merged is not None:
            return merged
        return self._repository.objects.commit(state.tree, [state.base_commit], _TEXT, when=_WHEN, author=_AUTHOR)


def _merge_of(state: FeatureState) -> CommitId | None:
    merge = state.evidence.merge
    return merge.merge_commit if state.status is Status.MERGED and merge is not None else None


def _ref_of(state: FeatureState) -> str:
    """Return the ref of a feature's work; empty if others need none of it."""
    merged = _merge_of(state)
    if merged is not None:
        return f"refs/aop/merged/{object_id(merged)}"
    if state.status in TERMINAL:
        return ""
    return f"refs/aop/trees/{object_id(state.base_commit)}/{object_id(state.tree)}"
