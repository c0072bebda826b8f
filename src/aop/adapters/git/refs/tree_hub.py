"""Tree hub: the hub through which machines have each other's work.

Each accepted tree is a commit there, on top of its base, before the change that names it is
committed. A ref is named after both, and is never moved: it does not matter who writes it last.

A ref of the same name here says that it is at the hub as well. That holds until refs are removed there, in a sweep:
then both are compared anew. Sweeps and comparisons are made within changes of the record, so one at a time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from aop.adapters.git.process.output import object_id
from aop.adapters.git.process.program import GitDir
from aop.adapters.git.refs.hub import Hub
from aop.adapters.git.refs.remotes import ONLY_THIS
from aop.core.errors import Fault, HubUnavailable
from aop.core.ids import CommitId, ObjectId
from aop.kernel.features.tree.hub_refs import GATES, MERGED, TREES, base_of, merge_ref, tree_ref
from aop.kernel.ports.git import Author, Git
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Status

_SWEPT = "refs/aop/swept"
"""Refs of this machine alone: the last part of the name is the sweep after which its refs were compared."""
_REMOVABLE = re.compile(f"(?:{TREES}|{MERGED}|{GATES})/[^\\s:^~?*\\[\\\\]+")
_AUTHOR = Author(name="AOP", email="aop@localhost")
_TEXT = "The tree of a feature\n"
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)
"""One for all, so that the same tree on the same base is the same commit."""
_BATCH = 200
"""The most refs of one fetch."""
_SETTINGS = tuple(word for setting in ONLY_THIS for word in ("-c", setting))
_PUSH = (*_SETTINGS, "push", "--no-follow-tags", "--no-signed", "--recurse-submodules=no", "--no-verify")
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")


class TreeHub(Hub):
    """The hub of one repository, with the work of all its features; implements `aop.kernel.ports.fleet.HubRefs`."""

    def __init__(
        self,
        git: GitDir,
        environ: Mapping[str, str],
        url: str,
        flush_objects: Callable[[], None],
        repository: Git,
        *,
        name: str,
        sweep: int,
        foreign_bases: Callable[[], Collection[str]],
    ) -> None:
        super().__init__(git, environ, url, flush_objects)
        self._repository = repository
        self._gates = f"{GATES}/{name}"
        self._foreign_bases = foreign_bases
        self._publishing = threading.Lock()
        self._sweep = sweep
        """The sweep after which refs are known to be at the hub."""
        self._compared: int | None = None
        """The sweep after which the refs here were compared with those at the hub; None before it was looked up."""
        self._known: set[str] | None = None
        """The refs that are known to be at the hub; None before they were looked up."""
        self._sent: dict[str, CommitId] = {}
        """The refs that were pushed since then, and have no ref here yet."""

    def send(self, states: Iterable[FeatureState]) -> None:
        """Have the work of features at the hub, before a change names it.

        Raises: HubUnavailable; Fault once a base branch was moved.
        """
        # Two features with the same tree on the same base are one ref: the second finds it there.
        with self._publishing:
            self._push_unknown(states)

    def publish(self, states: Sequence[FeatureState], sweep: int) -> None:
        """Have the work of features at the hub, while a change that names it is made after that sweep.

        Raises: as `send`.
        """
        if not states:
            return
        with self._publishing:
            self._follow_sweep(sweep)
            self._push_unknown(states)
            if not _is_unfinished(sweep):
                self._change_refs(f"update {ref} {commit}" for ref, commit in self._sent.items())
            self._sent = {}

    def _follow_sweep(self, sweep: int) -> None:
        """Know no more than what is at the hub after a sweep."""
        if _is_unfinished(sweep):
            self._known, self._sent = set(), {}
        elif sweep != self._compared:
            self._compared = max(self._comparisons(), default=0)
            if sweep != self._compared:
                self._compare(sweep)
            elif sweep != self._sweep:
                # Another process of this machine has compared them.
                self._known, self._sent = None, {}
        self._sweep = sweep

    def _compare(self, sweep: int) -> None:
        """Remove the refs here that the hub does not have, and note the sweep after which that was done."""
        listed = self._list(TREES, MERGED)
        blob = self._git.run("hash-object", "-w", "--stdin").out.decode("ascii").strip()
        self._change_refs(
            [
                *(f"delete {ref}" for ref in sorted(self._here() - {*listed})),
                *(f"delete {_SWEPT}/{earlier}" for earlier in self._comparisons()),
                f"update {_SWEPT}/{sweep} {blob}",
            ]
        )
        self._known, self._sent, self._compared = {*listed}, {}, sweep

    def _push_unknown(self, states: Iterable[FeatureState]) -> None:
        found = {ref: state for state in states if (ref := _ref_of(state))}
        missing = {ref: state for ref, state in found.items() if ref not in self._known_refs()}
        if not missing:
            return
        commits = {ref: self._commit(state) for ref, state in missing.items()}
        refspecs = [f"{object_id(commit)}:{ref}" for ref, commit in commits.items()]
        words = (*_PUSH, "--quiet", "--no-force", "--", self.url, *refspecs)
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
        self._known_refs().update(commits)
        self._sent |= commits

    def fetch_work(self, states: Iterable[FeatureState]) -> None:
        """Have the work of features here. Raises: HubUnavailable if the hub is out of reach, or does not have it."""
        wanted = {ref: _merge_of(state) for state in states if (ref := _ref_of(state))}
        missing = self._not_here(wanted)
        if not missing:
            return
        # A merge that a later one contains may have no ref at the hub, and the feature of the later one be deleted.
        self._fetch(f"+{ref}:{ref}" for ref in sorted(missing & self._list(TREES, MERGED).keys()))
        self._fetch(f"+{wanted[ref]}:{ref}" for ref in sorted(self._not_here(wanted)) if wanted[ref])
        for ref in sorted(self._not_here(wanted)):
            raise HubUnavailable(f"The hub cannot be read: it does not have `{ref}`.")

    def _fetch(self, refspecs: Iterable[str]) -> None:
        found = [*refspecs]
        for start in range(0, len(found), _BATCH):
            self._reach("be read", *_FETCH, "--", self.url, *found[start : start + _BATCH])
        self._flush_objects()

    def _not_here(self, wanted: Mapping[str, CommitId | None]) -> set[str]:
        """Return the refs whose work is not here: trees by their ref, merges also by their commit."""
        missing = wanted.keys() - self._here() if wanted else set()
        merges = [merge for ref in missing if (merge := wanted[ref])]
        if not merges:
            return missing
        asked = "".join(f"{object_id(merge)}\n" for merge in merges).encode()
        told = self._git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked).out.decode("utf-8")
        here = {line.removesuffix(" commit") for line in told.splitlines() if line.endswith(" commit")}
        return missing - {merge_ref(merge) for merge in here}

    def bring_base(self, branch: str, states: Iterable[FeatureState]) -> None:
        """Move the base branch forward to the commits that features were cut from or merged into."""
        for commit in {_merge_of(state) or state.base_commit for state in states if _ref_of(state)}:
            head = self._repository.branches.head(branch)
            if head not in (None, commit) and self._repository.objects.is_ancestor(head, commit):
                self._repository.branches.move(branch, to=commit, old=head)

    def listed(self) -> Mapping[str, CommitId]:
        found = self._list(TREES, MERGED, self._gates)
        foreign = self._foreign_bases()
        return {ref: commit for ref, commit in found.items() if base_of(ref) not in foreign}

    def remove(self, refs: Mapping[str, CommitId]) -> Mapping[str, str]:
        for ref in refs:
            if not _REMOVABLE.fullmatch(ref):
                raise Fault(f"{ref[:200]!a} is not a ref that AOP removes.")
        leases = [f"--force-with-lease={ref}:{object_id(commit)}" for ref, commit in refs.items()]
        words = (*_PUSH, "--porcelain", *leases, "--", self.url, *(f":{ref}" for ref in refs))
        ran = self._run("be written", *words)
        rows = [line.split("\t") for line in ran.out.decode(errors="replace").splitlines() if line.count("\t") == 2]
        # Git names what it pushed before the colon: nothing, or `(delete)`.
        told = {row[1].partition(":")[2]: (row[0], row[2]) for row in rows}
        if not refs.keys() <= told.keys():
            raise self._unavailable("be written", ran)
        return {ref: _reason(told[ref][1]) for ref in refs if told[ref][0] != "-"}

    def _list(self, *below: str) -> dict[str, CommitId]:
        """Return the refs at the hub below some names, with their commits. Raises: HubUnavailable."""
        ran = self._reach("be read", "ls-remote", "--refs", "--", self.url, *(f"{name}/*" for name in below))
        rows = (line.partition("\t") for line in ran.out.decode(errors="replace").splitlines())
        folders = tuple(f"{name}/" for name in below)
        # Git takes the names for the ends of names.
        return {ref: CommitId(ObjectId(commit)) for commit, _, ref in rows if ref.startswith(folders)}

    def _known_refs(self) -> set[str]:
        if self._known is None:
            self._known = self._here()
        return self._known

    def _here(self) -> set[str]:
        """Return the refs of work that this machine has."""
        return {*self._names(TREES, MERGED)}

    def _comparisons(self) -> list[int]:
        """Return the sweeps after which the refs here were compared with those at the hub; the newest counts."""
        return [int(name.rpartition("/")[2]) for name in self._names(_SWEPT)]

    def _names(self, *below: str) -> list[str]:
        return self._git.run("for-each-ref", "--format=%(refname)", *below).out.decode("utf-8").splitlines()

    def _change_refs(self, commands: Iterable[str]) -> None:
        text = "".join(f"{command}\n" for command in commands)
        if text:
            self._git.run("update-ref", "--stdin", stdin=text.encode())

    def _commit(self, state: FeatureState) -> CommitId:
        merged = _merge_of(state)
        if merged is not None:
            return merged
        return self._repository.objects.commit(state.tree, [state.base_commit], _TEXT, when=_WHEN, author=_AUTHOR)


def _is_unfinished(sweep: int) -> bool:
    """Tell whether refs are being removed, or a process died while it removed some: nothing is known then."""
    return sweep % 2 == 1


def _reason(told: str) -> str:
    """Return why git did not remove a ref, as people read it."""
    return "It was moved meanwhile." if "stale info" in told else f"The hub refused it: {told}"


def _merge_of(state: FeatureState) -> CommitId | None:
    merge = state.evidence.merge
    return merge.merge_commit if state.status is Status.MERGED and merge is not None else None


def _ref_of(state: FeatureState) -> str:
    """Return the ref of a feature's work; empty if others need none of it."""
    merged = _merge_of(state)
    if merged is not None:
        return merge_ref(object_id(merged))
    if state.status in TERMINAL:
        return ""
    return tree_ref(object_id(state.base_commit), object_id(state.tree))
