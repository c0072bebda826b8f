"""Exchange: replaces a file without the disk flush that a rename can cause."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_EXCHANGE = 2
_HERE = -100


def put_in_place(beside: str, name: str, *, folder: int = _HERE) -> None:
    """Rename `beside` to `name` and remove the old file; both are names in the folder, or whole paths.

    A rename over an existing file makes ext4 flush the new one first. Use this only for files that are written again
    after a power cut.
    """
    libc = _libc()
    if libc.renameat2(folder, os.fsencode(beside), folder, os.fsencode(name), _EXCHANGE) == 0:
        os.unlink(beside, dir_fd=folder)
    else:
        # There is no old file, or this file system cannot exchange names.
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


@cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None)
