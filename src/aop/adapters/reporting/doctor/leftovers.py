"""Leftovers: worktrees, branches, logs and processes that no open feature needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from aop.adapters.files.locks import locked_file
from aop.adapters.files.own_folders import remove_folder
from aop.adapters.git.narrow.base_packs import HISTORIES, history_lock, history_name
from aop.adapters.git.process.program import GitProgram
from aop.adapters.git.repository import Repository
from aop.adapters.git.worktrees.rescue import Rescuer
from aop.adapters.processes.orphans import end_orphans, orphans_in
from aop.adapters.tickets.ledger import TicketLedger
from aop.core.clock import timestamp
from aop.core.errors import InvalidFeatureSlug, WorktreeBusy
from aop.core.ids import CommitId, FeatureId, feature_id
from aop.forge.builds.cycle.lookup import ended_builds
from aop.forge.builds.documents import branch_of
from aop.forge.projects.old_documents import SHAPES, old_documents
from aop.kernel.ports.locks import Locks
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.port import Record

Kind = Literal[
    "worktree", "branch", "logs", "process", "ticket_run", "history", "artifact", "session", "scan", "hub_ref"
]
TICKET_RUN_DAYS = 90
"""How long the run of a ticket can be looked up."""


class Leftover(Struct, frozen=True, kw_only=True):
    """One thing that can be removed."""

    kind: Kind
    name: str
    """The feature that no longer exists or is over, the process id, the ticket run, the folder, the document, or the
    ref at the hub."""
    merged: bool = False
    """Whether it belongs to a merged feature, which stays in the record."""
    ended: bool = False
    """Whether it belongs to a build that is sealed or abandoned, whose branch stays too."""
    holds_work: bool = False
    """Whether it holds work that is on no branch; that is saved below `refs/aop/rescue/` first."""


class Removal(Struct, frozen=True, kw_only=True):
    """The result of removing one leftover."""

    leftover: Leftover
    rescued: str | None = None
    """The ref that holds the saved work."""
    problem: str = ""
    """Why it was not removed; empty if it was."""


Note: TypeAlias = Callable[[Leftover, Literal["rescued", "removed"], str | None], None]
"""Called with the ref of saved work before a leftover is removed, if there is one, and after each removal."""


class Leftovers:
    """Finds and removes the leftovers of one managed repository."""

    def __init__(
        self,
        repository: Repository,
        record: Record,
        locks: Locks,
        note: Note,
        *,
        base_branch: str,
        environ: Mapping[str, str],
        now: datetime,
    ) -> None:
        self._now = now
        self._note = note
        self._repository = repository
        self._record = record
        self._locks = locks
        self._base_branch = base_branch
        self._rescuer = Rescuer(GitProgram(environ), repository.root)
        self._worktrees = repository.root / ".worktrees"
        self._logs = repository.root / ".aop" / "logs"
        self._histories = repository.root / ".aop" / HISTORIES
        self._tickets = TicketLedger(repository.root / ".aop" / "tickets" / "ledger.db")

    def find(self) -> Iterator[Leftover]:
        """Yield every leftover."""
        for pid in orphans_in(self._repository.root):
            yield Leftover(kind="process", name=str(pid))
        for name in _names(self._worktrees):
            if not self._is_known(name):
                yield Leftover(kind="worktree", name=name, holds_work=self._unsaved_tree(name) is not None)
        for name in self._forgotten_branches():
            yield Leftover(kind="branch", name=name, holds_work=not self._is_saved(name))
        yield from chain.from_iterable(map(self.of_merged, self._merged_features()))
        for name in _names(self._logs):
            if not self._is_known(name):
                yield Leftover(kind="logs", name=name)
        for run_id in self._tickets.ended_before(timestamp(self._now - timedelta(days=TICKET_RUN_DAYS))):
            yield Leftover(kind="ticket_run", name=run_id)
        yield from self._old_histories()
        yield from self._old_documents()
        yield from self._ended_worktrees()

    def _old_histories(self) -> list[Leftover]:
        """Return the copied histories of branches that are not the base."""
        found = sorted(os.listdir(self._histories)) if self._histories.is_dir() else []
        return [Leftover(kind="history", name=name) for name in found if name != history_name(self._base_branch)]

    def _old_documents(self) -> list[Leftover]:
        with self._record.read() as view:
            return [Leftover(kind=kind, name=key) for kind, key in old_documents(view, self._now)]

    def _ended_worktrees(self) -> Iterator[Leftover]:
        """Yield the worktrees of builds that are over."""
        with self._record.read() as view:
            ended = sorted(ended_builds(view))
        for name in ended:
            if os.path.lexists(self._repository.worktrees.path(name)):
                yield Leftover(kind="worktree", name=name, ended=True, holds_work=self._unsaved_tree(name) is not None)

    def of_merged(self, name: FeatureId) -> Iterator[Leftover]:
        """Yield the worktree and the branch of a merged feature."""
        if os.path.lexists(self._repository.worktrees.path(name)):
            unsaved = self._unsaved_tree(name) is not None
            yield Leftover(kind="worktree", name=name, merged=True, holds_work=unsaved)
        if self._head(name) is not None:
            yield Leftover(kind="branch", name=name, merged=True, holds_work=not self._is_saved(name))

    def remove(self, leftover: Leftover) -> Removal:
        """Remove a leftover, unless an open feature owns it by now; unsaved work is saved first."""
        if leftover.kind == "process":
            end_orphans(self._repository.root)
            return self._removal(leftover, None)
        if leftover.kind in SHAPES:
            # Its removal and the note of it are one transaction.
            return self._removal(leftover, None)
        if leftover.kind == "history":
            with locked_file(history_lock(self._repository.root, leftover.name)):
                remove_folder(self._histories / leftover.name)
            return self._removal(leftover, None)
        if leftover.kind == "ticket_run":
            self._tickets.forget(leftover.name)
            return self._removal(leftover, None)
        name = FeatureId(leftover.name)
        try:
            # A call that creates or deletes the feature holds this lock.
            with self._locks.worktree(name, wait_seconds=0):
                state = self._state(name)
                if state is not None and not self._is_over(leftover, state):
                    return Removal(leftover=leftover, problem=f"A feature `{name}` now exists.")
                return self._remove(leftover, name)
        except WorktreeBusy as busy:
            return Removal(leftover=leftover, problem=busy.message)

    def _is_over(self, leftover: Leftover, state: FeatureState) -> bool:
        if leftover.ended:
            with self._record.read() as view:
                return state.feature_id in ended_builds(view)
        return leftover.merged and state.status is Status.MERGED

    def _remove(self, leftover: Leftover, name: FeatureId) -> Removal:
        rescued = None
        match leftover.kind:
            case "worktree":
                rescued = self._rescue_files(name)
                self._note_rescued(leftover, rescued)
                self._repository.worktrees.remove(name)
            case "branch":
                head = self._head(name)
                if head is not None and not self._is_saved(name):
                    rescued = self._rescuer.keep_commit(name, head)
                    self._note_rescued(leftover, rescued)
                users = self._repository.worktrees.users_of(name, besides=name)
                if users:
                    return Removal(leftover=leftover, rescued=rescued, problem=f"It is checked out in `{users[0]}`.")
                if head is not None:
                    self._repository.branches.delete(name, at=head)
            case _:
                remove_folder(self._logs / name)
        return self._removal(leftover, rescued)

    def _note_rescued(self, leftover: Leftover, rescued: str | None) -> None:
        # Before the removal: if AOP is killed in between, the journal names the ref.
        if rescued is not None:
            self._note(leftover, "rescued", rescued)

    def _removal(self, leftover: Leftover, rescued: str | None) -> Removal:
        self._note(leftover, "removed", rescued)
        return Removal(leftover=leftover, rescued=rescued)

    def _rescue_files(self, name: FeatureId) -> str | None:
        tree, head = self._unsaved_tree(name), self._work_head(name)
        return None if tree is None or head is None else self._rescuer.keep_tree(name, tree, head)

    def _unsaved_tree(self, name: FeatureId) -> str | None:
        """Return the tree of a worktree with unsaved work; None if its branch has all of it or does not exist."""
        folder, head = self._repository.worktrees.path(name), self._work_head(name)
        if head is None or folder.is_symlink() or not folder.is_dir():
            return None
        return self._rescuer.unsaved_tree(folder, head)

    def _forgotten_branches(self) -> list[FeatureId]:
        """Return the branches that AOP created for deleted features."""
        with self._record.read() as view:
            made = [entry.event.feature_id for entry in view.journal(kinds=("feature_deleted",))]
        unowned = [name for name in _names(self._worktrees) if not self._is_known(name)]
        named = sorted({*(name for name in made if name is not None), *unowned})
        return [name for name in named if not self._is_known(name) and self._head(name) is not None]

    def _merged_features(self) -> list[FeatureId]:
        with self._record.read() as view:
            return [state.feature_id for state in view.all(FeatureState) if state.status is Status.MERGED]

    def _is_known(self, name: FeatureId) -> bool:
        return self._state(name) is not None

    def _state(self, name: FeatureId) -> FeatureState | None:
        with self._record.read() as view:
            return view.get(FeatureState, name)

    def _head(self, name: FeatureId) -> CommitId | None:
        return self._repository.branches.head(name)

    def _work_head(self, name: FeatureId) -> CommitId | None:
        """Return the commit that holds the work of a worktree; the branch of a build has another name."""
        return self._head(name) or self._repository.branches.head(branch_of(name))

    def _is_saved(self, name: FeatureId) -> bool:
        """Tell whether the base branch has the work of a branch, perhaps as a squashed commit."""
        head, base, state = self._head(name), self._repository.branches.head(self._base_branch), self._state(name)
        merge = None if state is None else state.evidence.merge
        if head is None or (merge is not None and head == merge.commit):
            return True
        return base is not None and self._repository.objects.is_ancestor(head, base)


def _names(folder: Path) -> list[FeatureId]:
    """Return the names in a folder that are valid feature ids, sorted."""
    found: list[FeatureId] = []
    for name in sorted(os.listdir(folder)) if folder.is_dir() else ():
        with suppress(InvalidFeatureSlug):
            found.append(feature_id(name))
    return found
