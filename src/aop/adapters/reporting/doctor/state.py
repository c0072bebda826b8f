"""State checks: the record and its journal, leftovers, and worktrees."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.files.own_folders import abandoned_folders
from aop.adapters.git.repository import Repository
from aop.adapters.git.worktrees.registrations import Registrations
from aop.adapters.reporting.doctor.checks import Check, failure, fine, warning
from aop.adapters.reporting.doctor.machine import file_totals
from aop.adapters.storage.full_disk import full_disk
from aop.adapters.storage.record.choice import OpenRecord, open_record, place_of
from aop.core.errors import EvidenceBroken, Fault, Refusal
from aop.core.ids import FeatureId
from aop.core.text.counts import count
from aop.forge.builds.cycle.lookup import ended_builds
from aop.kernel.record.chain import prove_contents, whole_chain
from aop.kernel.record.documents.features import TERMINAL, FeatureState
from aop.kernel.record.port import JournalEntry, Snapshot

LARGE_QUARANTINE = 100 * 1024**2
RECORD = "record.db"

_RESTORE = (
    "Stop every `aop` of this repository, keep a copy of `.aop`, and restore `record.db` from a backup: the journal"
    " is no longer proof."
)
_WRITABLE = (
    "Make the repository writable for this user: check its owner, its permissions and whether the disk is read-only."
)


class ExaminedRecord(Struct, frozen=True, kw_only=True):
    """The check of the record, and what could be read of it."""

    check: Check
    features: tuple[FeatureState, ...] = ()
    ended_builds: frozenset[FeatureId] = frozenset()
    """The features of builds that are over, which need no worktree."""
    newest_entry: datetime | None = None
    is_known: bool = True
    """Whether it could be read; if not, the owner of a worktree is unknown."""


def examine_record(private: Path, environ: Mapping[str, str]) -> ExaminedRecord:
    """Open the record, if it exists, and verify its journal and its contents."""
    if os.path.lexists(private) and (private.is_symlink() or not private.is_dir()):
        found = "`.aop` must be a folder, but it is a link or a file."
        return ExaminedRecord(check=failure("record", found, "Move it away; AOP creates the folder."), is_known=False)
    path = private / RECORD
    place = place_of(private.parent, environ)
    if not os.access(private if private.is_dir() else private.parent, os.W_OK):
        return ExaminedRecord(check=failure("record", "The record cannot be written.", _WRITABLE), is_known=False)
    if place is None and not path.exists():
        return ExaminedRecord(check=fine("record", "none yet; the first call creates it"))
    record: OpenRecord | None = None
    try:
        record, _ = open_record(private.parent, place, to_read=False)
        with record.read() as view:
            entries = list(view.journal())
            check = _record_check(view, entries)
            features, ended = tuple(view.all(FeatureState)), ended_builds(view)
    except Refusal as refusal:
        return ExaminedRecord(check=failure("record", refusal.message, str(refusal.hint)), is_known=False)
    except (Fault, sqlite3.Error, msgspec.MsgspecError) as error:
        if full := full_disk(error):
            found = f"The record cannot be read: {full}."
            return ExaminedRecord(check=failure("record", found, "Free some space on its disk."), is_known=False)
        return ExaminedRecord(check=failure("record", f"The record cannot be read: {error}", _RESTORE), is_known=False)
    finally:
        if record is not None:
            record.close()
    newest = _time_of_newest(entries)
    return ExaminedRecord(check=check, features=features, ended_builds=ended, newest_entry=newest)


def _record_check(view: Snapshot, entries: list[JournalEntry]) -> Check:
    try:
        entry_count = sum(1 for _ in whole_chain(lambda after: iter(entries[after:])))
        prove_contents(view, [entry.hash for entry in entries])
    except EvidenceBroken as broken:
        return failure("record", f"{broken.message} The record was changed from outside.", _RESTORE)
    return fine("record", f"{count(entry_count, 'journal entry', 'journal entries')}, hash chain intact")


def _time_of_newest(entries: list[JournalEntry]) -> datetime | None:
    try:
        return datetime.fromisoformat(entries[-1].event.at).astimezone(UTC) if entries else None
    except (ValueError, OverflowError):
        return None


def check_leftovers(private: Path) -> Check:
    """Look for folders of killed processes, and for files in quarantine."""
    abandoned = sorted(folder for name in ("scratch", "tmp") for folder in abandoned_folders(private / name))
    files, size = file_totals(private / "quarantine")
    quarantine = f"{count(files, 'file')} ({size / 1024**2:.1f} MiB) in quarantine"
    text = f"{count(len(abandoned), 'abandoned folder')}, {quarantine}"
    if abandoned:
        listed = " ".join(folder.relative_to(private.parent).as_posix() for folder in abandoned)
        return warning("leftovers", text, f"rm -rf {listed} && git worktree prune")
    if size > LARGE_QUARANTINE:
        return warning("leftovers", text, "Look through `.aop/quarantine`, and delete what you do not need.")
    return fine("leftovers", text)


def check_worktrees(repository: Repository, examined: ExaminedRecord) -> list[Check]:
    """Compare the worktrees that git knows with the features in the record."""
    home = repository.root / ".worktrees"
    listed = Registrations(repository.git, root=repository.root, common=repository.git_dir).checkouts()
    registered = {checkout.folder.name for checkout in listed if checkout.folder.parent == home}
    if not examined.is_known:
        repair = "Repair the record first; remove no worktree."
        return [warning("worktrees", "Without the record their owners are unknown.", repair)]
    known = {feature.feature_id for feature in examined.features}
    living = {feature.feature_id for feature in examined.features if feature.status not in TERMINAL}
    missing = [
        name for name in sorted(living - examined.ended_builds) if name not in registered or not (home / name).is_dir()
    ]
    unowned = sorted(registered - known)
    remove = "List it with: aop gc. Remove it with: aop gc --apply"
    create = "Nothing is lost: the next call that needs it creates it."
    checks = [warning("worktrees", f"`.worktrees/{name}` belongs to no feature.", remove) for name in unowned]
    checks += [warning("worktrees", f"The feature `{name}` has no worktree.", create) for name in missing]
    return checks or [fine("worktrees", f"{len(registered)} for {count(len(living), 'open feature')}")]
