"""Show: brings files and worktrees up to the record, also after a crash."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import ClassVar, TypeAlias

from aop.core.digests import sha256_hex
from aop.core.errors import Fault, FileNotFound, WorktreeBusy, WorktreeMissing
from aop.core.ids import CommitId, FeatureId, ObjectId, OperationId
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.base import Document, next_version
from aop.kernel.record.documents.features import TERMINAL, FeatureState, Index
from aop.kernel.record.port import Event, Snapshot, Unshown

SHOW_WAIT_SECONDS = 5.0
MOST_FILES = 100_000
IN_GIT = frozenset({"worktree", "gone_worktree", "gone_branch", "workflow"})
"""Projections that are worktrees or refs, not files below `agentic/features`."""
SET_ASIDE = "set_aside"
"""The folder for foreign content that had replaced AOP's own files."""
SET_ASIDE_IN_WORKTREE = "set_aside_in_worktree"
"""The paths of the feature's worktree whose content was moved to quarantine."""

QUARANTINED = "worktree_quarantined"
"""The event for paths of a worktree that were moved to quarantine."""
MOST_NAMED = 100
"""How many paths it names; it counts all."""
MOST_KEPT = 100
"""The number of features whose lines of `decisions.md` are kept."""

MovedPath: TypeAlias = tuple[str, str]
"""The name in the answer's evidence, and the path."""


class FilesComparison(Document, frozen=True, kw_only=True):
    """The last comparison of all files of a disk with the record; its key is the disk."""

    kind: ClassVar[str] = "showing"

    boot: str
    """The start of the machine in which all of them were compared with the record."""


def show(kernel: Kernel, own: Collection[str] | None = None) -> tuple[MovedPath, ...]:
    """Write every file and worktree that may be older than the record; return what foreign content was moved."""
    # Only what belongs to the features `own` is waited for, or a fault says why not; the rest may be left for a later
    # call. None: nobody waits for any of it.
    with kernel.record.read() as view:
        if not view.unshown():
            return ()
    set_aside: list[MovedPath] = []
    with kernel.locks.files():
        # Read again: the last holder of the lock may have shown it all.
        with kernel.record.read() as view:
            waiting = view.unshown()
            rendered = {what: _render(kernel, view, what) for what in waiting if what.kind not in IN_GIT}
        _show_all(kernel, rendered, set_aside, own)
    for what in waiting:
        if what.kind in IN_GIT and _is_ours(kernel, what, own):
            patience = SHOW_WAIT_SECONDS if _feature_of(what) in (own or ()) else 0.0
            with suppress(WorktreeBusy, *_faults_to_ignore(what, own)):
                _show_in_git(kernel, what, set_aside, wait_seconds=patience)
    return tuple(set_aside)


def doubt_after_restart(kernel: Kernel) -> None:
    """Mark all files as not shown if the machine was started anew since they were last known to be.

    Files are replaced without waiting for the disk: a power cut may take them back, though their marks are gone. So the
    marks hold for one start of the machine, and after the next one every file is compared with the record again.
    """
    boot = kernel.clock.boot_id()
    with kernel.record.read() as view:
        known = view.get(FilesComparison, kernel.disk)
    if boot and known is not None and known.boot == boot:
        return
    with kernel.record.write(durable=False) as tx:
        known = tx.get(FilesComparison, kernel.disk)
        tx.put(FilesComparison(version=next_version(known), boot=boot), kernel.disk)
        for state in tx.all(FeatureState):
            tx.mark_unshown("feature", state.feature_id)
            if state.status not in TERMINAL:
                tx.mark_unshown("worktree", state.feature_id)
        if tx.get(Index, Index.key) is not None:
            tx.mark_unshown("index", Index.key)


def _is_ours(kernel: Kernel, what: Unshown, own: Collection[str] | None) -> bool:
    """Tell whether a worktree or a branch is shown here: of several machines, by the one that leads or is asked."""
    return not kernel.is_shared or kernel.epoch is not None or _feature_of(what) in (own or ())


def _faults_to_ignore(what: Unshown, own: Collection[str] | None) -> tuple[type[Exception], ...]:
    return () if own is not None and (what.kind == "index" or _feature_of(what) in own) else (Fault,)


def _feature_of(what: Unshown) -> FeatureId:
    """Return the feature of a row; the key of a branch is `<feature>@<commit>`."""
    return FeatureId(what.key.partition("@")[0])


def _render(kernel: Kernel, view: Snapshot, what: Unshown) -> dict[str, bytes]:
    # Most calls find everything shown.
    from aop.kernel.record.documents.gate_runs import GateRun
    from aop.kernel.record.documents.plans import AcceptedPlan
    from aop.kernel.record.documents.qa import QaIndex
    from aop.kernel.record.projections import decision_files, feature_files, index_files

    if what.kind == "index":
        index = view.get(Index, Index.key)
        return {} if index is None else index_files(index)
    state = view.get(FeatureState, what.key)
    if state is None:
        return {}
    decisions = _newest_decisions(kernel, view, state.feature_id)
    if what.kind == "decisions":
        return decision_files(state.feature_id, decisions)
    # Older runs have their files already, and a run never changes.
    newest = (view.get(GateRun, run_id) for run_id in state.evidence.latest_by_mode.values())
    return feature_files(
        state,
        view.get(AcceptedPlan, what.key),
        view.get(QaIndex, what.key),
        runs=[run for run in newest if run is not None],
        decisions=decisions,
    )


def _newest_decisions(kernel: Kernel, view: Snapshot, feature_id: FeatureId) -> tuple[str, ...]:
    """Return the lines of `decisions.md`; those of the last time are kept, and only newer entries are read."""
    from aop.kernel.record.projections import DECISIONS, SHOWN_DECISIONS, decision_lines

    known, lines = kernel.decision_lines.get(feature_id, (None, ()))
    after = 0 if known is None else known.seq - 1
    told = [*view.journal(after=after, feature_id=feature_id, kinds=tuple(DECISIONS), newest=SHOWN_DECISIONS)]
    if known is None:
        lines = decision_lines(told)
    elif told and told[0].hash == known.hash:
        # A hash covers every entry before its own, so the older lines still hold.
        lines = (*lines, *decision_lines(told[1:]))[-SHOWN_DECISIONS:]
    else:
        told = [*view.journal(feature_id=feature_id, kinds=tuple(DECISIONS), newest=SHOWN_DECISIONS)]
        lines = decision_lines(told)
    if told:
        if len(kernel.decision_lines) >= MOST_KEPT:
            kernel.decision_lines.clear()
        kernel.decision_lines[feature_id] = (told[-1], lines)
    return lines


def _show_all(
    kernel: Kernel,
    rendered: Mapping[Unshown, dict[str, bytes]],
    set_aside: list[MovedPath],
    own: Collection[str] | None,
) -> None:
    """Write what was rendered, and note it all at once: many callers wait for one commit, not for many."""
    written: dict[Unshown, dict[str, str]] = {}
    try:
        for what, files in rendered.items():
            with suppress(*_faults_to_ignore(what, own)):
                if what.kind == "feature" and not files:
                    _remove_files(kernel, what, set_aside)
                else:
                    written[what] = _write_files(kernel, files, set_aside)
                    if what.kind == "feature":
                        _remove_outdated(kernel, what, files, set_aside)
    finally:
        if written:
            with kernel.record.write(durable=False) as tx:
                for what, hashes in written.items():
                    tx.mark_shown(what, hashes)


def _write_files(kernel: Kernel, files: dict[str, bytes], set_aside: list[MovedPath]) -> dict[str, str]:
    hashes = {path: sha256_hex(content) for path, content in files.items()}
    with kernel.record.read() as view:
        last = view.shown_hashes([*files])
    for path, content in files.items():
        found = kernel.files.fingerprint(path)
        if found == hashes[path] == last[path]:
            continue
        if found not in (None, last[path], hashes[path]):
            set_aside.append((SET_ASIDE, kernel.files.set_aside(path)))
        # Right, but not noted: its writer was killed, and to write it again also removes what is left beside it. A new
        # file may never be written again (a run keeps its own); of the others see `doubt_after_restart`.
        kernel.files.write(path, content, durable=None in (found, last[path]))
    return hashes


def _remove_outdated(kernel: Kernel, what: Unshown, files: Mapping[str, bytes], set_aside: list[MovedPath]) -> None:
    """Remove the plan and the QA index of a feature that began anew and has none."""
    from aop.kernel.record.projections import folder_of

    folder = folder_of(_feature_of(what))
    gone = [path for name in ("plan.json", "qa_test_index.json") if (path := f"{folder}/{name}") not in files]
    with kernel.record.read() as view:
        shown = view.shown_hashes(gone)
    known = {path: last for path, last in shown.items() if last is not None}
    for path, last in known.items():
        if kernel.files.fingerprint(path) not in (None, last):
            set_aside.append((SET_ASIDE, kernel.files.set_aside(path)))
        kernel.files.remove(path)
    if known:
        with kernel.record.write(durable=False) as tx:
            tx.forget_shown(tuple(known))


def _follow_tree(kernel: Kernel, state: FeatureState) -> tuple[str, ...]:
    if state.tree != kernel.git.objects.tree_of(state.base_commit):
        kernel.git.branches.keep(state.feature_id, state.tree)
    with suppress(WorktreeMissing):
        return kernel.git.worktrees.follow_tree(state.feature_id, state.tree)
    if kernel.is_shared and kernel.git.branches.head(state.branch) is None:
        # Another machine made it.
        kernel.git.branches.create(state.branch, state.base_commit)
    # The change is recorded already: a `git worktree prune` must not refuse it.
    kernel.git.worktrees.ensure(state.feature_id, state.branch)
    return kernel.git.worktrees.follow_tree(state.feature_id, state.tree)


def _show_in_git(kernel: Kernel, what: Unshown, set_aside: list[MovedPath], *, wait_seconds: float) -> None:
    name = _feature_of(what)
    moved: tuple[str, ...] = ()
    # The holder of the worktree shows it before working there.
    with kernel.locks.worktree(name, wait_seconds=wait_seconds):
        with kernel.record.read() as view:
            state = view.get(FeatureState, name)
        # A feature that was made again has taken its worktree and its branch over.
        if state is not None and what.kind == "worktree":
            moved = _follow_tree(kernel, state)
            set_aside += [(SET_ASIDE_IN_WORKTREE, path) for path in moved]
        elif what.kind == "workflow":
            kernel.show_workflow(kernel, name)
        elif state is None and what.kind == "gone_worktree":
            kernel.git.worktrees.remove(name)
        elif state is None and what.kind == "gone_branch":
            kernel.git.branches.delete(name, at=CommitId(ObjectId(what.key.partition("@")[2])))
        with kernel.record.write(durable=False) as tx:
            tx.mark_shown(what, {})
            if moved:
                tx.append(_quarantine_event(kernel, name, moved))


def _quarantine_event(kernel: Kernel, feature_id: FeatureId, moved: tuple[str, ...]) -> Event:
    return Event(
        kind=QUARANTINED,
        at=kernel.now(),
        actor="system",
        operation_id=OperationId(QUARANTINED),
        feature_id=feature_id,
        payload={"paths": list(moved[:MOST_NAMED]), "count": len(moved)},
    )


def _remove_files(kernel: Kernel, what: Unshown, set_aside: list[MovedPath]) -> None:
    """Remove the files that AOP wrote for a deleted feature; foreign files stay or are set aside."""
    from aop.kernel.record.projections import folder_of, is_written_by_aop

    name = _feature_of(what)
    folder = folder_of(name)
    with kernel.record.read() as view:
        known = view.shown_below(folder)
        hashes = view.shown_hashes(known)
    try:
        for path in kernel.files.below(folder, limit=MOST_FILES):
            if not is_written_by_aop(path, name):
                continue
            if path in hashes and kernel.files.fingerprint(path) != hashes[path]:
                set_aside.append((SET_ASIDE, kernel.files.set_aside(path)))
            kernel.files.remove(path)
    except FileNotFound as refusal:
        raise Fault(refusal.message) from refusal
    kernel.files.prune(folder)
    kernel.git.branches.forget(name)
    with kernel.record.write() as tx:
        tx.forget_shown(known)
        tx.mark_shown(what, {})
