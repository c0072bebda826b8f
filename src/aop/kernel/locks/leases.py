"""Leases: locks that expire by one clock, with a fencing number and a queue.

Nothing here reads a clock or the record: every function takes a lock and returns the changed one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from aop.core.clock import Clock, later, timestamp
from aop.core.errors import LockNotHeld, LockOrderViolation, UnknownLockResource
from aop.core.ids import FeatureId, OperationId
from aop.core.text.suggestions import did_you_mean
from aop.kernel.config.policy import Backoff, LockRules
from aop.kernel.record.documents.locks import Lease, Lock, Waiter

IsRunning = Callable[[OperationId], bool]


class Now(Struct, frozen=True, kw_only=True):
    """One moment: wall time for people, and the clock of leases for deadlines."""

    wall: datetime
    boot_id: str
    """The start of the machine, or the database whose clock it is."""
    seconds: float

    @property
    def at(self) -> str:
        """Return the time of day as AOP writes it."""
        return timestamp(self.wall)


def read_clock(clock: Clock) -> Now:
    """Read a clock once."""
    boot_id, seconds = clock.lease_seconds()
    return Now(wall=clock.now(), boot_id=boot_id, seconds=seconds)


class LockRequest(Struct, frozen=True, kw_only=True):
    """A request for a lock: the feature, the actor and the call."""

    feature_id: FeatureId
    actor: str
    operation_id: OperationId


class Grant(Struct, frozen=True, kw_only=True):
    """A lock that was granted or renewed."""

    lock: Lock
    lease: Lease
    outcome: Literal["acquired", "renewed"]
    stale: Lease | None = None
    """The expired lease that was never released."""


class Busy(Struct, frozen=True, kw_only=True):
    """A lock that is not free yet."""

    lease: Lease | None
    ahead: tuple[Waiter, ...]
    """Earlier requests that still wait."""


def is_live(lease: Lease, now: Now) -> bool:
    """Tell whether a lease is live; by boot time none survives a restart of the machine."""
    return not _of_another_clock(lease, now) and now.seconds < lease.expires_boot


def why_ended(lease: Lease, now: Now) -> str:
    """Return why a lease that is not live ended."""
    return "the machine was started again" if _of_another_clock(lease, now) else "it was not renewed in time"


def _of_another_clock(lease: Lease, now: Now) -> bool:
    # Without a name of the start, a restart is noticed because the seconds went back. With one they may go back a
    # little, as those of a database do when its clock is set; by more than a lease lasts, they are of another start.
    lasts = lease.expires_boot - lease.renewed_boot if now.boot_id else 0.0
    return lease.boot_id != now.boot_id or lease.renewed_boot - now.seconds > lasts


def request_lease(lock: Lock, request: LockRequest, now: Now, *, ttl: float, is_running: IsRunning) -> Grant | Busy:
    """Grant a free lock, renew one that the feature holds, or return who is ahead.

    An expired lease is free for the next request. Its former holder continues under the same number if no other
    feature took the lock in between and none waits: then nothing that it guards can have changed.
    """
    ahead = _waiters_ahead(lock, request, is_running)
    lease = lock.lease
    live = lease is not None and is_live(lease, now)
    if lease is not None and lease.feature_id == request.feature_id and (live or not ahead):
        renewed = _new_lease(request, now, ttl, fence=lease.fence, acquired_at=lease.acquired_at)
        return Grant(
            lock=_with_lease(lock, renewed, request), lease=renewed, outcome="renewed", stale=None if live else lease
        )
    if live or ahead:
        return Busy(lease=lease if live else None, ahead=ahead)
    fresh = _new_lease(request, now, ttl, fence=lock.last_fence + 1, acquired_at=now.at)
    return Grant(lock=_with_lease(lock, fresh, request), lease=fresh, outcome="acquired", stale=lease)


def with_waiter(lock: Lock, request: LockRequest, now: Now, *, is_running: IsRunning) -> Lock:
    """Add a call to the end of the queue, once; dead calls lose their places."""
    living = tuple(each for each in lock.waiters if is_running(each.operation_id))
    if any(each.operation_id == request.operation_id for each in living):
        return msgspec.structs.replace(lock, waiters=living)
    ticket = lock.last_ticket + 1
    waiter = Waiter(ticket=ticket, operation_id=request.operation_id, feature_id=request.feature_id, since=now.at)
    return msgspec.structs.replace(lock, waiters=(*living, waiter), last_ticket=ticket)


def without_waiter(lock: Lock, operation_id: OperationId) -> Lock:
    """Remove a call from the queue."""
    left = tuple(each for each in lock.waiters if each.operation_id != operation_id)
    return msgspec.structs.replace(lock, waiters=left)


def without_lease(lock: Lock, feature_id: FeatureId) -> Lock:
    """Return the lock without its holder. Raises: LockNotHeld."""
    if lock.lease is None or lock.lease.feature_id != feature_id:
        raise LockNotHeld(
            f"`{feature_id}` does not hold `{lock.resource}`.",
            hint="There is nothing to release; `index.json` shows who holds which lock.",
            resource=lock.resource,
            holder=lock.lease.feature_id if lock.lease else None,
        )
    return msgspec.structs.replace(lock, lease=None)


def check_resource(resource: str, rules: LockRules) -> None:
    """Refuse a resource that the policy does not name. Raises: UnknownLockResource."""
    if resource not in rules.resources:
        shown = ascii(resource[:80])[1:-1]
        raise UnknownLockResource(
            f"The policy names no resource `{shown}`.{did_you_mean(resource, rules.resources)}",
            resource=shown,
            known_resources=sorted(rules.resources),
        )


def check_order(resource: str, held: Collection[str]) -> None:
    """Refuse a lock that sorts before one that the feature holds: one order for all prevents deadlocks."""
    later_ones = sorted(name for name in held if name > resource)
    if later_ones and resource not in held:
        raise LockOrderViolation(
            f"`{resource}` comes before {', '.join(f'`{name}`' for name in later_ones)}, which the feature holds.",
            resource=resource,
            held=sorted(held),
            release_first=later_ones,
            acquire_in_order=sorted({resource, *held}),
        )


def pauses(backoff: Backoff, operation_id: OperationId) -> Iterator[float]:
    """Yield the seconds to wait before each further attempt; the same for the same call."""
    longest, attempt = backoff.initial_seconds, 0
    while True:
        digest = hashlib.sha256(f"{operation_id}:{attempt}".encode()).digest()
        chance = int.from_bytes(digest[:8]) / 2**64
        yield longest * (1 - backoff.jitter * chance)
        longest, attempt = min(longest * backoff.multiplier, backoff.max_seconds), attempt + 1


def _waiters_ahead(lock: Lock, request: LockRequest, is_running: IsRunning) -> tuple[Waiter, ...]:
    own = [each.ticket for each in lock.waiters if each.operation_id == request.operation_id]
    before = own[0] if own else lock.last_ticket + 1
    return tuple(
        each
        for each in lock.waiters
        if each.ticket < before and each.feature_id != request.feature_id and is_running(each.operation_id)
    )


def _new_lease(request: LockRequest, now: Now, ttl: float, *, fence: int, acquired_at: str) -> Lease:
    return Lease(
        feature_id=request.feature_id,
        holder=request.actor,
        fence=fence,
        acquired_at=acquired_at,
        renewed_at=now.at,
        expires_at=timestamp(later(now.wall, ttl)),
        boot_id=now.boot_id,
        renewed_boot=now.seconds,
        expires_boot=now.seconds + ttl,
    )


def _with_lease(lock: Lock, lease: Lease, request: LockRequest) -> Lock:
    fenced = msgspec.structs.replace(lock, lease=lease, last_fence=max(lock.last_fence, lease.fence))
    return without_waiter(fenced, request.operation_id)
