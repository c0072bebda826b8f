"""Brings what is on disk up to the record: the last station of a call, and the repair after a crash."""

from __future__ import annotations

import hashlib
from contextlib import suppress

from aop.core.errors import Fault, WorktreeBusy
from aop.core.ids import feature_id
from aop.kernel.calls import Kernel
from aop.kernel.documents import AcceptedPlan, FeatureState, GateRun, Index, QaIndex
from aop.kernel.projections import DECISIONS, SHOWN_DECISIONS, decision_files, feature_files, index_files
from aop.kernel.record import Snapshot, Unshown

WORKTREE_WAIT_SECONDS = 5.0


def show(kernel: Kernel, own: str | None = None) -> tuple[str, ...]:
    """Write every file and worktree that may be older than the record; return where foreign content was moved to.

    What belongs to the feature `own` is shown now, or a fault says why not. What belongs to another one and cannot be
    shown at once keeps nobody waiting: it stays unshown, and a later call shows it.
    """
    with kernel.record.read() as view:
        if not view.unshown():
            return ()
    set_aside: list[str] = []
    with kernel.locks.files():
        # Read again: whoever held the lock before may have shown it all.
        with kernel.record.read() as view:
            waiting = view.unshown()
            rendered = {what: _rendered(view, what) for what in waiting if what.kind != "worktree"}
        for what, files in rendered.items():
            with suppress(*_excused(what, own)):
                _show_files(kernel, what, files, set_aside)
    for what in waiting:
        if what.kind == "worktree":
            with suppress(WorktreeBusy, *_excused(what, own)):
                _show_worktree(kernel, what, set_aside, wait_seconds=WORKTREE_WAIT_SECONDS if what.key == own else 0.0)
    return tuple(set_aside)


def _excused(what: Unshown, own: str | None) -> tuple[type[Exception], ...]:
    return () if own is not None and (what.kind == "index" or what.key == own) else (Fault,)


def _rendered(view: Snapshot, what: Unshown) -> dict[str, bytes]:
    if what.kind == "index":
        index = view.get(Index, Index.key)
        return {} if index is None else index_files(index)
    state = view.get(FeatureState, what.key)
    if state is None:
        return {}
    told = view.journal(feature_id=state.feature_id, kinds=tuple(DECISIONS), newest=SHOWN_DECISIONS)
    if what.kind == "decisions":
        return decision_files(state.feature_id, told)
    # Older runs have their files already, and a run never changes.
    newest = (view.get(GateRun, run_id) for run_id in state.evidence.latest_by_mode.values())
    return feature_files(
        state,
        view.get(AcceptedPlan, what.key),
        view.get(QaIndex, what.key),
        runs=[run for run in newest if run is not None],
        told=told,
    )


def _show_files(kernel: Kernel, what: Unshown, files: dict[str, bytes], set_aside: list[str]) -> None:
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    with kernel.record.read() as view:
        last = {path: view.shown_hash(path) for path in files}
    for path, content in files.items():
        found = kernel.files.fingerprint(path)
        if found == hashes[path]:
            continue
        if found is not None and found != last[path]:
            set_aside.append(kernel.files.set_aside(path))
        kernel.files.write(path, content)
    with kernel.record.write() as tx:
        tx.mark_shown(what, hashes)


def _show_worktree(kernel: Kernel, what: Unshown, set_aside: list[str], *, wait_seconds: float) -> None:
    # Whoever holds the worktree shows it itself before working there.
    with kernel.locks.worktree(feature_id(what.key), wait_seconds=wait_seconds):
        with kernel.record.read() as view:
            state = view.get(FeatureState, what.key)
        if state is not None:
            set_aside += kernel.git.follow_tree(state.feature_id, state.tree)
        with kernel.record.write() as tx:
            tx.mark_shown(what, {})
