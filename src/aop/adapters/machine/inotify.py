"""The Linux kernel's notices of what happens to files and folders, for which Python has no functions."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

MODIFIED, ATTRIBUTES, CLOSED_AFTER_WRITING = 0x2, 0x4, 0x8
MOVED_AWAY, MOVED_HERE, CREATED, DELETED = 0x40, 0x80, 0x100, 0x200
SELF_DELETED, SELF_MOVED = 0x400, 0x800
NO_LONGER_WATCHED = 0x8000
ONLY_A_FOLDER, NOT_THROUGH_A_LINK = 0x01000000, 0x02000000

# ext4, XFS, Btrfs, F2FS, tmpfs. Elsewhere another machine, or another layer, may change a file without a notice.
_LOCAL = frozenset((0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994))
_HEAD = struct.Struct("iIII")
_PIECE = 1 << 18


class Inotify:
    """One queue of notices. It holds every one, in order, or says that it did not."""

    def __init__(self) -> None:
        """Raises: OSError if this process may have no more of them."""
        # Few processes live long enough to watch anything.
        import ctypes

        self._ctypes = ctypes
        self._library = ctypes.CDLL(None, use_errno=True)
        self._add = self._library.inotify_add_watch
        self._add.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self._descriptor = self._checked(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path: bytes, kinds: int) -> int:
        """Watch what lies at a path now, wherever it is moved to; return the number that notices of it bear.

        Raises: OSError, also if there are too many already.
        """
        return self._checked(self._add(self._descriptor, path, kinds))

    def notices(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the notices up to now: the number, what happened, and the name of the entry if it is in a folder."""
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
        """Watch nothing any more."""
        os.close(self._descriptor)

    def sees_all_of(self, folder: bytes) -> bool:
        """Tell whether whatever changes files in a folder must go through this kernel."""
        described = self._ctypes.create_string_buffer(256)
        self._checked(self._library.statfs(folder, described))
        return int.from_bytes(described.raw[: self._ctypes.sizeof(self._ctypes.c_long)], "little") in _LOCAL

    def _checked(self, result: int) -> int:
        if result < 0:
            number = self._ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
