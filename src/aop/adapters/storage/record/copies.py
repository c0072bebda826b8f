"""Copies of a record on a read-only or full disk: SQLite must write to read it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from aop.adapters.storage.full_disk import FULL
from aop.core.errors import Fault, RecordUnavailable

_ATTEMPTS = 5
MEMORY = "/dev/shm"
"""Where the copy goes if the folder for temporary files is on a full disk too."""


def copy_record(record: Path) -> tempfile.TemporaryDirectory[str]:
    """Copy a record and its log into a new folder, even while they are written. Raises: RecordUnavailable."""
    if not record.is_file():
        raise RecordUnavailable("The repository cannot be written, and there is no record in it.")
    try:
        return _copy(record, None)
    except OSError as error:
        if error.errno not in FULL or not os.path.isdir(MEMORY):
            raise
        return _copy(record, MEMORY)


def _copy(record: Path, place: str | None) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="aop-record-", dir=place)
    try:
        for _ in range(_ATTEMPTS):
            before = _state(record)
            for source in _files(record):
                shutil.copyfile(source, Path(folder.name) / source.name)
            if _state(record) == before:
                return folder
        raise Fault("The record changes too often to be copied.")
    except BaseException:
        folder.cleanup()
        raise


def _files(record: Path) -> list[Path]:
    return [path for path in (record, record.with_name(f"{record.name}-wal")) if path.exists()]


def _state(record: Path) -> list[tuple[str, int, int]]:
    return [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in _files(record)]
