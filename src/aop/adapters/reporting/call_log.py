"""Every call, one line of JSON each, in a file beside the record: appended without waiting for the disk.

What changes something is in the journal too, which is durable. This file says who called, read or was refused, and how
long it took. A kill of AOP loses nothing of it; a crash of the machine may lose the last seconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from aop.core.errors import Fault
from aop.kernel.ports.call_log import NotedCall

LARGEST_FILE = 16 * 1024 * 1024
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_LINE = 64 * 1024


class FileCallLog:
    """Implements `aop.kernel.ports.call_log.CallLog`; of a full file one predecessor is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: int | None = None
        self._lock = threading.Lock()

    def note(self, call: NotedCall) -> None:
        # A disk that is full or broken shows where it matters: at the record.
        with suppress(OSError), self._lock:
            # One write at the end of a file is whole, whoever else writes there.
            os.write(self._descriptor(), msgspec.json.encode(call) + b"\n")

    def _descriptor(self) -> int:
        if self._open is None or os.fstat(self._open).st_size >= LARGEST_FILE:
            self._change_file()
        if self._open is None:
            self._path.parent.mkdir(exist_ok=True)
            self._open = os.open(self._path, _APPEND, 0o600)
        return self._open

    def _change_file(self) -> None:
        if self._open is None:
            return
        with suppress(FileNotFoundError):
            # Another process may have changed it already.
            if os.stat(self._path).st_ino == os.fstat(self._open).st_ino:
                os.replace(self._path, predecessor_of(self._path))
        self.close()

    def close(self) -> None:
        """Let go of the file; a later note opens it again."""
        if self._open is not None:
            os.close(self._open)
            self._open = None


class CallReader:
    """Reads the calls that were noted, and then those that come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = 0
        self._offset = 0

    def older(self) -> Iterator[NotedCall]:
        """Yield the calls of the predecessor of the file."""
        yield from _read_calls(predecessor_of(self._path), 0)[0]

    def new(self) -> Iterator[NotedCall]:
        """Yield the calls that were noted since this was last asked; at first, all of the file."""
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
    """Return where the predecessor of a full file is."""
    return path.with_suffix(".older.jsonl")


def _read_calls(path: Path, offset: int) -> tuple[list[NotedCall], int]:
    """Return the whole lines of a file from an offset on, and where the last of them ends."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    except OSError as error:
        raise Fault(f"The log of calls cannot be read: {error.strerror}.") from error
    whole = data[: data.rfind(b"\n") + 1]
    return list(_parse_lines(whole)), offset + len(whole)


def _parse_lines(whole: bytes) -> Iterator[NotedCall]:
    for line in whole.splitlines():
        # A line that a full disk cut is no call; the others are.
        with suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line[:_LONGEST_LINE], type=NotedCall)
