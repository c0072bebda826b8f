"""Supervisor lease: a lock that lets one supervisor at a time work, with its name."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

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
    host: str = ""
    """The machine of the process; empty for this one."""

    @property
    def name(self) -> str:
        """Return the process, with its machine if that is another one."""
        return f"process {self.pid} on {self.host}" if self.host else f"process {self.pid}"


class SupervisorLease(Protocol):
    """The right to supervise one repository, once it is held."""

    def sign(self, holder: LeaseHolder) -> None:
        """Write down the holder for other processes to read."""

    def leave_to_child(self) -> None:
        """Get ready for a fork: from now on a child holds it."""

    def go_on(self, leases: SupervisorLeases) -> None:
        """Hold it in the child."""

    def end(self) -> None:
        """Let others lead; it also ends with its process."""

    def stop(self) -> None:
        """Say that a person ended it: no worker takes the place."""

    def leave_to_worker(self) -> None:
        """Let a worker take the place, as if this process had died."""


class SupervisorLeases(Protocol):
    """The lease of one repository, as seen by any process."""

    def holder(self) -> LeaseHolder | None:
        """Return the process that supervises; None if there is none."""

    def last_holder(self) -> LeaseHolder | None:
        """Return the process that supervised last, alive or not; None if there was none."""

    def take(self) -> AbstractContextManager[SupervisorLease]:
        """Hold the right to supervise; it ends with its holder. Raises: SupervisorRunning."""

    def ask_to_stop(self) -> None:
        """Ask a holder on another machine to end."""


class FileLeases:
    """Implements `SupervisorLeases` by a lock file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def holder(self) -> LeaseHolder | None:
        return holder_of(self._path)

    def last_holder(self) -> LeaseHolder | None:
        return last_holder_of(self._path)

    def take(self) -> AbstractContextManager[SupervisorLease]:
        return hold_lease(self._path)

    def ask_to_stop(self) -> None:
        """Do nothing: the holder is on this machine, where it gets a signal."""


class FileLease:
    """Implements `SupervisorLease`: the lock belongs to the open file, which a forked child keeps."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def leave_to_child(self) -> None:
        """Do nothing."""

    def go_on(self, leases: SupervisorLeases) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing: no worker leads a record that is a file."""

    def leave_to_worker(self) -> None:
        """Do nothing."""

    def sign(self, holder: LeaseHolder) -> None:
        """Write down the holder for other processes to read."""
        note = msgspec.json.encode(holder)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, note, 0)


@contextmanager
def hold_lease(path: Path) -> Iterator[FileLease]:
    """Hold the lease; it ends with its holder, and a forked child keeps it. Raises: SupervisorRunning."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise supervisor_running(_note_in(descriptor)) from error
        yield FileLease(descriptor)
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


def supervisor_running(holder: LeaseHolder | None) -> SupervisorRunning:
    """Return the refusal of a second supervisor."""
    who = f"{holder.name}, since {holder.since}" if holder else "another process"
    return SupervisorRunning(
        f"A supervisor already works on this repository: {who}.",
        pid=holder.pid if holder else None,
        since=holder.since if holder else None,
        features=list(holder.features) if holder else [],
    )
