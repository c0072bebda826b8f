"""DBOS engine: durable runs, with steps, queues and answers as rows of a database.

DBOS exists once in a process, so there is one engine at a time. The lease of the supervisor makes sure that one process
at a time works on the SQLite file. Values are stored as portable JSON, never as a pickle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import dbos
from dbos import DBOS, SetEnqueueOptions, SetWorkflowID, WorkflowHandleAsync
from dbos import error as dbos_error

from aop.adapters.storage.engine.database import bring_up_to_date, supply_subseconds
from aop.core.errors import Json
from aop.core.ids import RunId
from aop.core.run import Kind, RunBroke, RunState

APPLICATION = "aop"
VERSION = "runs-1"
"""Pinned: by default DBOS takes a hash of the source, and never continues runs of an older source."""

QUEUE_SECONDS = 0.1
ANSWER_SECONDS = 0.1
LOOK_AGAIN_SECONDS = 2.0
"""The time after which a waiting run looks into the database, because another process may run the other one."""
_Function = Callable[[Json], Coroutine[Any, Any, Json]]
_RECOVERIES = 1_000_000
_DAY = 86_400.0

_STATES = {
    "ENQUEUED": RunState.QUEUED,
    "DELAYED": RunState.QUEUED,
    "PENDING": RunState.ACTIVE,
    "SUCCESS": RunState.DONE,
    "CANCELLED": RunState.CANCELLED,
}


class DurableEngine:
    """Implements `aop.core.run.Engine` on a SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._url = f"sqlite:///{path}"
        self._functions: dict[str, _Function] = {}
        self._ended: dict[RunId, asyncio.Event] = {}
        """Set when a child of a run ends in this process; removed with the run that waits for it."""

    def start(self, kinds: Mapping[str, Kind]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        supply_subseconds()
        serializer = dbos.DBOSPortableJSONSerializer()
        self._prepare(kinds, serializer)
        config: dbos.DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": self._url,
            "executor_id": "local",
            "application_version": VERSION,
            "enable_patching": True,
            "serializer": serializer,
            "log_level": "CRITICAL",
            "notification_listener_polling_interval_sec": ANSWER_SECONDS,
            "run_migrations": False,
        }
        DBOS(config=config)
        for name, kind in kinds.items():
            self._functions[name] = self._workflow(name, kind)
        DBOS.launch()

    def _prepare(self, kinds: Mapping[str, Kind], serializer: dbos.DBOSPortableJSONSerializer) -> None:
        """Migrate the database and set the limits of the queues, which are served from the launch on."""
        bring_up_to_date(self._path)
        client = dbos.DBOSClient(system_database_url=self._url, serializer=serializer, application_name=APPLICATION)
        try:
            for name, kind in kinds.items():
                client.register_queue(
                    name,
                    global_concurrency=kind.limit,
                    worker_concurrency=kind.limit,
                    polling_interval_sec=QUEUE_SECONDS,
                    on_conflict="always_update",
                )
        finally:
            client.destroy()

    def _workflow(self, name: str, kind: Kind) -> _Function:
        async def perform(payload: Json) -> Json:
            run = _DurableRun(self, RunId(str(DBOS.workflow_id)))
            try:
                return await kind.pipeline(run, payload)
            finally:
                if (ended := self._ended.get(run.run_id)) is not None:
                    ended.set()
                for child in run.children:
                    self._ended.pop(child, None)

        return DBOS.workflow(name=name, max_recovery_attempts=_RECOVERIES)(perform)

    def submit(self, kind: str, payload: Json, *, key: str, priority: int) -> RunId:
        with SetWorkflowID(key), SetEnqueueOptions(priority=priority):
            DBOS.enqueue_workflow(kind, self._functions[kind], payload)
        return RunId(key)

    async def submit_from_run(self, kind: str, payload: Json, *, key: str, priority: int) -> WorkflowHandleAsync[Json]:
        """Queue a run from within another."""
        with SetWorkflowID(key), SetEnqueueOptions(priority=priority):
            return await DBOS.enqueue_workflow_async(kind, self._functions[kind], payload)

    def answer(self, run_id: RunId, topic: str, answer: Json) -> None:
        DBOS.send(run_id, {"answer": answer}, topic=topic, idempotency_key=f"{run_id}:{topic}")

    def cancel(self, run_id: RunId) -> None:
        DBOS.cancel_workflow(run_id, cancel_children=True)

    def states(self, prefix: str = "") -> dict[RunId, RunState]:
        rows = DBOS.list_workflows(workflow_id_prefix=prefix or None, load_input=False, load_output=False)
        return {RunId(row.workflow_id): _STATES.get(row.status, RunState.BROKEN) for row in rows}

    def result(self, run_id: RunId) -> Json:
        try:
            found: Json = DBOS.retrieve_workflow(run_id).get_result(polling_interval_sec=ANSWER_SECONDS)
        except Exception as error:
            raise RunBroke(run_id, str(error)) from error
        return found

    def forget(self, run_id: RunId) -> None:
        DBOS.delete_workflow(run_id, delete_children=True)

    def close(self) -> None:
        DBOS.destroy(destroy_registry=True)

    def event_of_end(self, run_id: RunId) -> asyncio.Event:
        """Return the event that is set when the child of a run ends in this process."""
        return self._ended.setdefault(run_id, asyncio.Event())


class _DurableRun:
    """Implements `aop.core.run.Run`."""

    def __init__(self, engine: DurableEngine, run_id: RunId) -> None:
        self._engine = engine
        self.run_id = run_id
        self.children: dict[RunId, WorkflowHandleAsync[Json]] = {}

    async def step(self, name: str, do: Callable[[], Awaitable[Json]]) -> Json:
        async def perform() -> Json:
            return await do()

        return await DBOS.run_step_async({"name": name, "preemptible": True}, perform)

    async def spawn(self, kind: str, payload: Json, *, key: str, priority: int) -> RunId:
        child = RunId(f"{self.run_id}/{key}")
        self._engine.event_of_end(child)
        self.children[child] = await self._engine.submit_from_run(kind, payload, key=child, priority=priority)
        return child

    async def result(self, run_id: RunId) -> Json:
        await self._until_ended(run_id)
        try:
            return await self.children[run_id].get_result(polling_interval_sec=0.01)
        except dbos_error.DBOSWorkflowCancelledError:
            raise
        except Exception as error:
            raise RunBroke(run_id, str(error)) from error

    async def ask(self, topic: str) -> Json:
        message: Any = None
        while message is None:
            message = await DBOS.recv_async(topic, timeout_seconds=_DAY)
        answer: Json = message["answer"]
        return answer

    async def _until_ended(self, run_id: RunId) -> None:
        """Wait for a run of this process without polling the database."""
        event, loop = self._engine.event_of_end(run_id), asyncio.get_running_loop()
        while not event.is_set():
            # Not `to_thread`, which copies the context of this run: the query would count as a step.
            row = await loop.run_in_executor(None, DBOS.get_workflow_status, run_id)
            if row is None or row.status not in ("ENQUEUED", "DELAYED", "PENDING"):
                return
            try:
                await asyncio.wait_for(event.wait(), LOOK_AGAIN_SECONDS)
            except TimeoutError:
                continue
