"""Inotify: notices of the Linux kernel about changes of files and folders."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

MODIFIED, ATTRIBUTES, CLOSED_AFTER_WRITING = 0x2, 0x4, 0x8
MOVED_AWAY, MOVED_HERE, CREATED, DELETED = 0x40, 0x80, 0x100, 0x200
SELF_DELETED, SELF_MOVED = 0x400, 0x800
NO_LONGER_WATCHED = 0x8000
ONLY_A_FOLDER, NOT_THROUGH_A_LINK = 0x01000000, 0x02000000

# ext4, XFS, Btrfs, F2FS, tmpfs. On others, another machine or layer may change a file without a notice.
_LOCAL = frozenset((0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994))
_HEAD = struct.Struct("iIII")
_PIECE = 1 << 18


class Inotify:
    """One queue of notices, in order; it says so when it lost some."""

    def __init__(self) -> None:
        """Raises: OSError if this process has too many queues."""
        # Few processes watch anything.
        import ctypes

        self._ctypes = ctypes
        self._library = ctypes.CDLL(None, use_errno=True)
        self._add = self._library.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self._descriptor = self._check_result(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path: bytes, kinds: int) -> int:
        """Watch a file or folder, even when moved; return the number on its notices. Raises: OSError."""
        return self._check_result(self._add(self._descriptor, path, kinds))

    def notices(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the notices up to now: number, kinds of change, and name in a watched folder."""
        while True:
            try:
                piece = os.read(self._descriptor, _PIECE)
            except BlockingIOError:
                return
            at = 0
            while at < len(piece):
                number, kinds, _, length = _HEAD.unpack_from(piece, at)
                at += _HEAD.size + length
                yield number, kinds, piece[at - length : at].rstrip(b"\0")

    def close(self) -> None:
        """End all watches."""
        os.close(self._descriptor)

    def sees_all_of(self, folder: bytes) -> bool:
        """Tell whether every change of a file in a folder goes through this kernel."""
        described = self._ctypes.create_string_buffer(256)
        self._check_result(self._library.statfs(folder, described))
        return int.from_bytes(described.raw[: self._ctypes.sizeof(self._ctypes.c_long)], "little") in _LOCAL

    def _check_result(self, result: int) -> int:
        if result < 0:
            number = self._ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
