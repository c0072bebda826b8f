"""Puts a new file in the place of an old one without the wait for the disk that some file systems add to a rename."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_EXCHANGE = 2
_HERE = -100


def put_in_place(beside: str, name: str, *, folder: int = _HERE) -> None:
    """Let a file take the name of another one, which is gone; the names are those of the folder, or whole paths.

    A rename over an existing file makes ext4 write the new one out first. Nobody who may ask for this depends on that:
    what a power cut takes is written again.
    """
    libc = _libc()
    if libc.renameat2(folder, os.fsencode(beside), folder, os.fsencode(name), _EXCHANGE) == 0:
        os.unlink(beside, dir_fd=folder)
    else:
        # There is no old one, or this file system cannot do it.
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


@cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None)
