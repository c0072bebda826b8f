"""Every history of one lock with three features, up to a depth: what must hold, holds in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec import Struct

from aop.core.errors import LockNotHeld
from aop.core.ids import FeatureId, OperationId
from aop.kernel.config.policy import Backoff
from aop.kernel.locks.leases import (
    Busy,
    Grant,
    IsRunning,
    LockRequest,
    Now,
    is_live,
    pauses,
    request_lease,
    with_waiter,
    without_lease,
    without_waiter,
)
from aop.kernel.record.documents.locks import Lease, Lock

TTL = 2
FEATURES = ("a", "b", "c")
Decide = Callable[..., Grant | Busy]
NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


class World(Struct, frozen=True, kw_only=True):
    """All that a history leads to; two histories that lead to the same are one."""

    lock: Lock = Lock(version=1, resource="openapi")
    boot: int = 1
    seconds: int = 0
    wall: int = 0
    running: frozenset[str] = frozenset()
    """Features whose call is alive: it asks, or waits in line."""
    fences: tuple[tuple[str, int], ...] = ()
    """Every grant so far, as (feature, number)."""

    @property
    def now(self) -> Now:
        wall = NOON + timedelta(seconds=self.wall)
        return Now(wall=wall, boot_id=f"boot-{self.boot}", seconds=float(self.seconds))

    def is_running(self, operation_id: OperationId) -> bool:
        return operation_id in self.running


def asker(name: str) -> LockRequest:
    return LockRequest(feature_id=FeatureId(name), actor=f"agent:{name}", operation_id=OperationId(name))


def holder(world: World) -> Lease | None:
    lease = world.lock.lease
    return lease if lease is not None and is_live(lease, world.now) else None


def attempts(world: World, name: str, decide: Decide) -> World:
    """Ask once: hold the lock afterwards, or stand in line."""
    alive = msgspec.structs.replace(world, running=world.running | {name})
    answer = decide(alive.lock, asker(name), alive.now, ttl=TTL, is_running=alive.is_running)
    check_answer(alive, name, answer)
    if isinstance(answer, Busy):
        return msgspec.structs.replace(
            alive, lock=with_waiter(alive.lock, asker(name), alive.now, is_running=alive.is_running)
        )
    granted = (name, answer.lease.fence)
    fences = alive.fences if granted in alive.fences else (*alive.fences, granted)
    return msgspec.structs.replace(alive, lock=answer.lock, running=alive.running - {name}, fences=fences)


def check_answer(world: World, name: str, answer: Grant | Busy) -> None:
    """Nobody gets what another holds, nor before somebody who waits longer; and nobody is kept from what is free."""
    held = holder(world)
    tickets = {each.feature_id: each.ticket for each in world.lock.waiters if each.operation_id in world.running}
    first = [each for each in tickets if each != name and tickets[each] < tickets.get(FeatureId(name), 1 << 30)]
    mine = held is not None and held.feature_id == name
    free = held is None and not first
    assert isinstance(answer, Busy) is not (mine or free)
    if isinstance(answer, Busy):
        assert answer.lease == held
        assert [each.feature_id for each in answer.ahead] == sorted(first, key=lambda each: tickets[each])


def gives_up(world: World, name: str) -> World:
    lock = without_waiter(world.lock, OperationId(name))
    return msgspec.structs.replace(world, lock=lock, running=world.running - {name})


def dies(world: World, name: str) -> World:
    return msgspec.structs.replace(world, running=world.running - {name})


def lets_go(world: World, name: str) -> World:
    lease = world.lock.lease
    if lease is None or lease.feature_id != name:
        with pytest.raises(LockNotHeld):
            without_lease(world.lock, FeatureId(name))
        return world
    return msgspec.structs.replace(world, lock=without_lease(world.lock, FeatureId(name)))


def next_worlds(world: World, decide: Decide) -> Iterator[tuple[str, World]]:
    for name in FEATURES:
        yield f"{name} asks", attempts(world, name, decide)
        yield f"{name} releases", lets_go(world, name)
        if name in world.running:
            yield f"{name} gives up", gives_up(world, name)
            yield f"{name} is killed", dies(world, name)
    yield "a second passes", msgspec.structs.replace(world, seconds=world.seconds + 1, wall=world.wall + 1)
    yield "the wall clock goes back", msgspec.structs.replace(world, wall=world.wall - 3600)
    yield "the machine restarts", msgspec.structs.replace(world, boot=world.boot + 1, seconds=0, running=frozenset())


def check_world(before: World, after: World) -> None:
    """What holds in every world, and from one to the next."""
    lock = after.lock
    numbers = [fence for _name, fence in after.fences]
    assert numbers == sorted(set(numbers)), "a number was given twice"
    assert lock.last_fence == max(numbers, default=0)
    tickets = [each.ticket for each in lock.waiters]
    assert tickets == sorted(set(tickets))
    assert lock.last_ticket >= max(tickets, default=0)
    if lock.lease is not None:
        assert (lock.lease.feature_id, lock.lease.fence) == after.fences[-1], "not the newest grant"
    old = holder(before)
    new = holder(after)
    if old is not None and new is not None and old.feature_id != new.feature_id:
        raise AssertionError("a live lease was taken")


def key(world: World) -> bytes:
    """Return what decides about the future: histories that differ in nothing else are not followed twice."""
    return msgspec.json.encode([world.lock, world.boot, world.seconds, sorted(world.running), world.fences])


def search(decide: Decide, *, depth: int) -> int:
    """Follow every history to a depth; return how many worlds there are."""
    frontier = {key(World()): World()}
    seen = set(frontier)
    for _step in range(depth):
        found: dict[bytes, World] = {}
        for before in frontier.values():
            for _what, after in next_worlds(before, decide):
                check_world(before, after)
                if key(after) not in seen:
                    found[key(after)] = after
        seen.update(found)
        frontier = found
    return len(seen)


@pytest.mark.req("AOP-218", "AOP-219", "AOP-220")
def test_no_history_of_a_lock_breaks_a_promise() -> None:
    assert search(request_lease, depth=7) > 25_000


def overtakes(lock: Lock, who: LockRequest, now: Now, *, ttl: float, is_running: IsRunning) -> Grant | Busy:
    return request_lease(msgspec.structs.replace(lock, waiters=()), who, now, ttl=ttl, is_running=is_running)


def believes_the_dead(lock: Lock, who: LockRequest, now: Now, *, ttl: float, is_running: IsRunning) -> Grant | Busy:
    return request_lease(lock, who, now, ttl=ttl, is_running=lambda _: True)


def forgets_the_boot(lock: Lock, who: LockRequest, now: Now, *, ttl: float, is_running: IsRunning) -> Grant | Busy:
    boot_id = lock.lease.boot_id if lock.lease else now.boot_id
    return request_lease(lock, who, msgspec.structs.replace(now, boot_id=boot_id), ttl=ttl, is_running=is_running)


def steals(lock: Lock, who: LockRequest, now: Now, *, ttl: float, is_running: IsRunning) -> Grant | Busy:
    return request_lease(msgspec.structs.replace(lock, lease=None), who, now, ttl=ttl, is_running=is_running)


def counts_from_one(lock: Lock, who: LockRequest, now: Now, *, ttl: float, is_running: IsRunning) -> Grant | Busy:
    return request_lease(msgspec.structs.replace(lock, last_fence=0), who, now, ttl=ttl, is_running=is_running)


@pytest.mark.parametrize("broken", [overtakes, believes_the_dead, forgets_the_boot, steals, counts_from_one])
def test_the_search_finds_what_would_break_one(broken: Decide) -> None:
    with pytest.raises(AssertionError):
        search(broken, depth=5)


@pytest.mark.req("AOP-240")
def test_pauses_grow_to_a_limit_and_are_the_same_for_the_same_call() -> None:
    backoff = Backoff(initial_seconds=0.5, multiplier=2.0, max_seconds=30.0, jitter=0.2)

    def first(operation: str) -> list[float]:
        waits = pauses(backoff, OperationId(operation))
        return [next(waits) for _ in range(10)]

    most = [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert first("op-1") == first("op-1") != first("op-2")
    assert all(0.8 * top <= pause <= top for pause, top in zip(first("op-1"), most, strict=True))
    steady = pauses(msgspec.structs.replace(backoff, jitter=0.0), OperationId("op-1"))
    assert [next(steady) for _ in range(8)] == most[:8]
