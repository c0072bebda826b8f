"""Call log: calls as lines of JSON, in a file beside the record.

Unlike the journal it also has reads by agents, refusals and durations; a crash of the machine may lose the last ones.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from aop.core.errors import Fault
from aop.kernel.ports.call_log import LoggedCall

LARGEST_FILE = 16 * 1024 * 1024
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_LINE = 64 * 1024


class FileCallLog:
    """Implements `aop.kernel.ports.call_log.CallLog`; one older file is kept when it is full."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: int | None = None
        self._lock = threading.Lock()

    def note(self, call: LoggedCall) -> None:
        # A full or broken disk is reported by the record.
        with suppress(OSError), self._lock:
            # A single append is atomic, also with other writers.
            os.write(self._descriptor(), msgspec.json.encode(call) + b"\n")

    def _descriptor(self) -> int:
        if self._open is None or os.fstat(self._open).st_size >= LARGEST_FILE:
            self._rotate()
        if self._open is None:
            self._path.parent.mkdir(exist_ok=True)
            self._open = os.open(self._path, _APPEND, 0o600)
        return self._open

    def _rotate(self) -> None:
        if self._open is None:
            return
        with suppress(FileNotFoundError):
            # Another process may have rotated it already.
            if os.stat(self._path).st_ino == os.fstat(self._open).st_ino:
                os.replace(self._path, predecessor_of(self._path))
        self.close()

    def close(self) -> None:
        """Close the file; the next note opens it again."""
        if self._open is not None:
            os.close(self._open)
            self._open = None


class CallReader:
    """Reads the logged calls, and follows the log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._offset = 0

    def older_calls(self) -> Iterator[LoggedCall]:
        """Yield the calls of the older file."""
        yield from _read_calls(predecessor_of(self._path), 0)[0]

    def new_calls(self) -> Iterator[LoggedCall]:
        """Yield the calls since the last time; at first, all of the file."""
        try:
            inode = os.stat(self._path).st_ino
        except FileNotFoundError:
            return
        if self._inode not in (0, inode):
            rest, _end = _read_calls(predecessor_of(self._path), self._offset)
            yield from rest
            self._offset = 0
        self._inode = inode
        calls, self._offset = _read_calls(self._path, self._offset)
        yield from calls


def predecessor_of(path: Path) -> Path:
    """Return the path of the older file."""
    return path.with_suffix(".older.jsonl")


def _read_calls(path: Path, offset: int) -> tuple[list[LoggedCall], int]:
    """Return the calls in complete lines from an offset on, and the offset after them."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    except OSError as error:
        raise Fault(f"The call log cannot be read: {error.strerror}.") from error
    whole = data[: data.rfind(b"\n") + 1]
    return list(_parse_lines(whole)), offset + len(whole)


def _parse_lines(whole: bytes) -> Iterator[LoggedCall]:
    for line in whole.splitlines():
        # A full disk may have cut a line.
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line[:_LONGEST_LINE], type=LoggedCall)
