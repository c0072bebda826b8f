"""Copies of a record that cannot be written: SQLite must write to read its log."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from aop.core.errors import Fault, RecordUnavailable

_ATTEMPTS = 5


def copy_record(record: Path) -> tempfile.TemporaryDirectory[str]:
    """Copy a record and its log into a new folder, even while they are written. Raises: RecordUnavailable."""
    if not record.is_file():
        raise RecordUnavailable("The repository cannot be written, and there is no record in it.")
    folder = tempfile.TemporaryDirectory(prefix="aop-record-")
    for _ in range(_ATTEMPTS):
        before = _state(record)
        for source in _files(record):
            shutil.copyfile(source, Path(folder.name) / source.name)
        if _state(record) == before:
            return folder
    folder.cleanup()
    raise Fault("The record changes too often to be copied.")


def _files(record: Path) -> list[Path]:
    return [path for path in (record, record.with_name(f"{record.name}-wal")) if path.exists()]


def _state(record: Path) -> list[tuple[str, int, int]]:
    return [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in _files(record)]
