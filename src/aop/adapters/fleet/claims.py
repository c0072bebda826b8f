"""Claims: the runs that this worker takes out of its queues.

DBOS looks into a queue by a clock of its own and with one limit for all processes. A worker looks when the database
tells that a run waits, and has places of its own; claiming, executing and fencing are those of DBOS.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from dbos import DBOS
from dbos._core import execute_dequeued_workflow
from dbos._dbos import _get_dbos_instance

from aop.adapters.fleet.platform_shape import LEADS
from aop.adapters.fleet.rules import NEWCOMER_SECONDS, SHORTEST_PAUSE, pause_after_look, wait_for_notice

_GIVE_BACK = (
    "UPDATE dbos.workflow_status SET status = 'ENQUEUED', owner_xid = NULL, started_at_epoch_ms = NULL,"
    " updated_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    " WHERE status = 'PENDING' AND owner_xid = %s AND workflow_uuid <> ALL(%s::text[])"
)


class Claims:
    """Takes runs while there are free places, until told to stop."""

    def __init__(
        self, queues: Sequence[str], places: int, workers: Callable[[], int], executor: str, version: str
    ) -> None:
        self._queues = tuple(name for name in queues if name != LEADS)
        self._looks = len(queues)
        """Into how many queues this worker looks, here and elsewhere."""
        self._places = places
        self._workers = workers
        self._executor = executor
        self._version = version
        self._wake, self._at_once = threading.Event(), threading.Event()
        self._stopped = threading.Event()
        self._unheard: dict[str, list[str]] = {}
        """The tokens of claims without an answer; of each, the runs that were begun all the same."""

    def wake(self, *, at_once: bool = True) -> None:
        """Look soon: a run waits, or a place is free again. Not at once if others would have the run ready sooner."""
        if at_once:
            self._at_once.set()
        self._wake.set()

    def busy(self) -> int:
        """Return how many runs are active here."""
        active = _internals("_active_workflows_set")
        return sum(int(active.count_for_queue(name)) for name in self._queues)

    def stop(self) -> None:
        """Take no further run."""
        self._stopped.set()
        self.wake()

    def pause(self) -> float:
        """Return how long this worker looks into no queue after a look."""
        return pause_after_look(self._workers(), self._looks)

    def take(self) -> None:
        """Look into the queues until stopped; all workers together never look more often than they may."""
        while not self._stopped.is_set():
            pause = self.pause()
            if self._stopped.wait(pause):
                return
            if self._wake.wait(wait_for_notice(pause)):
                self._at_once.wait(NEWCOMER_SECONDS)
            self._wake.clear()
            self._at_once.clear()
            if not self._stopped.is_set() and self.busy() < self._places:
                self._look()

    def _look(self) -> None:
        for name in self._queues:
            try:
                self._claim(name)
            except Exception as error:  # noqa: BLE001 - whatever the database or DBOS says, the next look tries again
                DBOS.logger.warning(f"The queue {name} could not be looked into: {error}")
                time.sleep(SHORTEST_PAUSE)

    def _claim(self, name: str) -> None:
        database = _internals("_sys_db")
        self._give_back(database)
        queue = database.get_queue(name)
        if queue is None:
            return
        setattr(queue, "_worker_concurrency", self._places)  # noqa: B010 - the limit in the database is for all workers
        owner = str(uuid4())
        begun = self._unheard[owner] = []
        claimed, _ = database.start_queued_workflows(
            queue, self._executor, self._version, None, self.busy(), owner_xid=owner
        )
        for status in database.get_workflow_statuses(claimed) if claimed else ():
            begun.append(status["workflow_uuid"])
            execute_dequeued_workflow(_get_dbos_instance(), status, owner)
        del self._unheard[owner]

    def _give_back(self, database: Any) -> None:
        """Put runs back that the database gave to this worker, while the answer was lost with the connection."""
        for owner, begun in list(self._unheard.items()):
            with database.engine.begin() as connection:
                connection.exec_driver_sql(_GIVE_BACK, (owner, begun))
            del self._unheard[owner]


def _internals(name: str) -> Any:
    """Return a part of DBOS that is not public; a test pins what is used of it."""
    return getattr(_get_dbos_instance(), name)
