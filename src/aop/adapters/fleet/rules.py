"""Rules of the fleet: when a worker beats, judges, is dead, looks, and ends.

They decide and do nothing else: moments, and what the database says, are handed in. Workers follow them, and so do the
workers of the simulation in `bench`, which has neither a database nor a clock.
"""

from __future__ import annotations

from collections.abc import Callable

BEAT_SECONDS = 0.8
DEAD_SECONDS = 3.0
"""A worker without a beat for so long is dead, whatever else."""
LOCK_SECONDS = 1.8
"""Without a beat for so long, a free lock is the sign of an ended session."""
FENCE_SECONDS = 2.4
"""A worker ends what reaches the network so long after its last beat: before another may begin it."""
ALONE_SECONDS = 60.0
"""For so long a worker goes on without the database; a restart of PostgreSQL costs no run."""
JUDGE_SECONDS = 1.8
"""The place of the judge is free when its holder has not asked for it again for so long."""
RECONNECT_SECONDS = 0.2
"""A database that refuses is asked a few times a second."""
WATCH_SECONDS = 0.2
MOST_LOOKS = 400
"""How often all workers together look into the queues, in a second."""
SHORTEST_PAUSE = 0.02
NEWCOMER_SECONDS = 0.25
"""So much later a worker looks that has no clone of the repository of which it is told: who has one comes first."""
IDLE_SECONDS = 1.0
"""A worker that is told of nothing looks all the same: a notice can get lost with a connection."""


class Contact:
    """A worker's contact with the database, by its own monotonic clock."""

    def __init__(self, now: float) -> None:
        self._seen = now
        """The moment before the last beat that the database took was sent."""
        self._since = now
        """Since when this worker has had the database without a break."""

    def beat(self, sent: float) -> None:
        """Note a beat that the database took, by the moment before it was sent."""
        if sent - self._seen > LOCK_SECONDS:
            # A break, whatever the reason: the beats of others may be as late as its own.
            self._since = sent
        self._seen = sent

    def connected_again(self, now: float) -> None:
        """Note that the connection was lost, and replaced."""
        self._since = now

    def is_cut_off(self, now: float) -> bool:
        """Tell whether what reaches the network must end: another worker may begin it soon."""
        return now - self._seen > FENCE_SECONDS

    def is_over(self, now: float) -> bool:
        """Tell whether this worker has been without the database for too long, and must end."""
        return now - self._seen > ALONE_SECONDS

    def may_judge(self, now: float) -> bool:
        """Tell whether it may judge: who was cut off a moment ago sees others as it left them, and judges nobody."""
        return now - self._since > DEAD_SECONDS


def is_dead(silent_seconds: float, *, has_free_lock: Callable[[], bool]) -> bool:
    """Judge a worker by the time since its last beat, and by the lock that ends with its session."""
    return silent_seconds > DEAD_SECONDS or (silent_seconds > LOCK_SECONDS and has_free_lock())


def pause_after_look(workers: int, queues: int) -> float:
    """Return how long a worker looks into no queue after it has looked: the longer, the more workers there are."""
    return max(SHORTEST_PAUSE, workers * queues / MOST_LOOKS)


def wait_for_notice(pause: float) -> float:
    """Return how long after its pause a worker waits for a notice, before it looks unasked."""
    return max(0.0, IDLE_SECONDS - pause)
