"""Full disk: tells a fault that a disk without space caused from any other."""

from __future__ import annotations

import errno
from collections.abc import Iterator

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_DATABASE = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")


def full_disk(fault: BaseException) -> str | None:
    """Return the system's reason, if the cause is a disk without space."""
    for cause in causes(fault):
        if isinstance(cause, OSError) and cause.errno in FULL:
            return cause.strerror
        # Of `sqlite3`, which is not imported for this.
        if getattr(cause, "sqlite_errorname", "") in _FULL_DATABASE:
            return str(cause)
    return None


def causes(fault: BaseException | None) -> Iterator[BaseException]:
    """Yield a fault and what led to it, the newest first."""
    while fault is not None:
        yield fault
        fault = fault.__cause__ or fault.__context__
