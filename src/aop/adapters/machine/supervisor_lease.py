"""Supervisor lease: a lock that lets one supervisor at a time work, with its name."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.core.errors import SupervisorRunning

_LARGEST_NOTE = 64 * 1024


class LeaseHolder(Struct, frozen=True, kw_only=True):
    """The process that supervises."""

    pid: int
    since: str
    features: tuple[str, ...] = ()
    url: str = ""
    """Of a server: its address."""


class SupervisorLease:
    """The right to supervise one repository, once it is held."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def sign(self, holder: LeaseHolder) -> None:
        """Write down the holder for other processes to read."""
        note = msgspec.json.encode(holder)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, note, 0)


@contextmanager
def hold_lease(path: Path) -> Iterator[SupervisorLease]:
    """Hold the lease; it ends with its holder, and a forked child keeps it. Raises: SupervisorRunning."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _refusal_for(_note_in(descriptor)) from error
        yield SupervisorLease(descriptor)
    finally:
        os.close(descriptor)


def holder_of(path: Path) -> LeaseHolder | None:
    """Return the holder of the lease, or None."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _note_in(descriptor) or LeaseHolder(pid=0, since="")
    else:
        return None
    finally:
        os.close(descriptor)


def last_holder_of(path: Path) -> LeaseHolder | None:
    """Return the process that signed the lease last, alive or not; None before the first."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        return _note_in(descriptor)
    finally:
        os.close(descriptor)


def _note_in(descriptor: int) -> LeaseHolder | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, _LARGEST_NOTE, 0), type=LeaseHolder)
    except msgspec.MsgspecError:
        # It was taken a moment ago and is not signed yet.
        return None


def _refusal_for(holder: LeaseHolder | None) -> SupervisorRunning:
    who = f"process {holder.pid}, since {holder.since}" if holder else "another process"
    return SupervisorRunning(
        f"A supervisor already works on this repository: {who}.",
        pid=holder.pid if holder else None,
        since=holder.since if holder else None,
        features=list(holder.features) if holder else [],
    )
