"""Lock places for tests: in files, or in a database too, by an address that other processes can open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from aop.adapters.files.locks import FileLocks
from aop.adapters.storage.record.postgres.postgres_locks import PostgresLocks
from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord
from tests.adapters.storage.records import place

_KEPT: list[AbstractContextManager[FileLocks]] = []


class Machine(Struct, frozen=True, kw_only=True):
    """A machine with a folder for its locks, and the database that it shares with others, if it does."""

    folder: Path
    url: str = ""
    name: str = ""

    @property
    def address(self) -> str:
        """Return the address of its locks."""
        return f"{self.folder}#{self.url}#{self.name}"

    def at(self, folder: Path) -> Machine:
        """Return another machine with the same database."""
        return replace(self, folder=folder)

    @contextmanager
    def opened(self) -> Iterator[tuple[PostgresRecord, PostgresLocks]]:
        """Open its record and its locks in the database."""
        record = PostgresRecord(place(self.url, self.name))
        try:
            yield record, PostgresLocks(self.folder, record.locks)
        finally:
            record.close()

    @contextmanager
    def locks(self) -> Iterator[FileLocks]:
        """Open its locks."""
        if not self.url:
            yield FileLocks(self.folder)
            return
        with self.opened() as (_record, locks):
            yield locks


def open_locks(address: str) -> FileLocks:
    """Open the locks at an address."""
    folder, url, name = address.split("#")
    # Open until the process ends.
    opened = Machine(folder=Path(folder), url=url, name=name).locks()
    _KEPT.append(opened)
    return opened.__enter__()
