"""Worker: claims runs of the platform's queues, and carries them out by kind."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from aop.adapters.fleet.clones import Clones
from aop.adapters.fleet.connections import platform_address, refuse_pooler
from aop.adapters.fleet.leads.lead_clones import LeadClones
from aop.adapters.fleet.leads.lead_process import LeadProcess
from aop.adapters.fleet.leads.leads import Leads, environment_of
from aop.adapters.fleet.liveness import Liveness, WorkerIdentity
from aop.adapters.fleet.platform import Platform
from aop.adapters.fleet.platform_shape import LEADS
from aop.adapters.fleet.runs.run_context import RunContext, RunKind
from aop.adapters.fleet.worker_engine import WorkerEngine
from aop.adapters.processes.orphans import end_orphans
from aop.adapters.storage.record.choice import database_secrets, without_database


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """A worker as it is asked for."""

    queues: Sequence[str]
    places: int
    labels: Mapping[str, str]
    cache: Path


class Worker:
    """One worker: it claims runs, carries them out, and ends when told to."""

    def __init__(
        self,
        environ: Mapping[str, str],
        options: WorkerOptions,
        kinds: Mapping[str, RunKind],
        say: Callable[[str], None],
    ) -> None:
        """Take the kinds of runs that its queues hold, by name."""
        url = platform_address(environ)
        _check_platform(url, options.queues)
        self._say = say
        self._kinds = kinds
        self._options = options
        host = socket.gethostname()
        identity = WorkerIdentity(
            id=f"{host}-{os.urandom(4).hex()}",
            host=host,
            queues=options.queues,
            places=options.places,
            labels=options.labels,
        )
        self.liveness = Liveness(url, identity)
        self._environ = without_database(environ)
        self._secrets = (*database_secrets(environ), self.liveness.password)
        self._engine = WorkerEngine(url, identity.id, options.queues, options.places, lambda: self.liveness.workers)
        self._ended = threading.Event()
        self._leads = self._made_leads(environ)

    def run(self) -> None:
        """Work until told to end, or until the platform has runs of another shape."""
        self.liveness.start()
        self._options.cache.mkdir(parents=True, exist_ok=True)
        for clone in self._options.cache.iterdir():
            end_orphans(clone)
        clones = Clones(self._options.cache, self._environ)
        context = RunContext(
            clones=clones,
            places=self._options.places,
            liveness=self.liveness,
            engine=self._engine,
            environ=self._environ,
            secrets=self._secrets,
            say=self._say,
        )
        self._engine.start({name: kind(context) for name, kind in self._kinds.items()})
        if self._leads is not None:
            self._leads.start()
        self.liveness.on_queued, self.liveness.busy = partial(self._wake, clones), self._busy
        self.liveness.forget, self.liveness.judges = self._engine.forget, True
        self._engine.claims.wake()
        self._say(f"Worker {self.liveness.id} takes {', '.join(self._options.queues)}, {self._options.places} at once.")
        while not self._ended.wait(0.2):
            if self.liveness.drains or self.liveness.platform_runs is not None:
                break
        if self._leads is not None:
            self._leads.stop()
        self._engine.drain()
        self.liveness.leave()
        self._engine.close()

    def end(self) -> None:
        """End as soon as the active runs have ended."""
        self._ended.set()

    def _wake(self, clones: Clones, run: str) -> None:
        """Look for a run that waits; if others may have its repository already, a little later."""
        repository = run.rpartition("/")[0]
        self._engine.claims.wake(at_once=not repository or clones.has(repository))
        if self._leads is not None:
            self._leads.wake()

    def _busy(self) -> int:
        return self._engine.claims.busy() + (self._leads.busy() if self._leads is not None else 0)

    def _made_leads(self, environ: Mapping[str, str]) -> Leads | None:
        """Return what leads repositories here; None if that was not asked for."""
        if LEADS not in self._options.queues:
            return None
        worker, clones = self.liveness.id, LeadClones(self._options.cache / f"{LEADS}~", self._environ)

        def begin(name: str, hub: str) -> LeadProcess:
            root, lock = clones.ready(name, hub)
            return LeadProcess(root, environment_of(environ, name, hub, worker), lock)

        return Leads(
            self._engine.ask,
            begin,
            worker=worker,
            places=self._options.places,
            pause=self._engine.claims.pause,
            say=self._say,
        )


def _check_platform(url: str, queues: Sequence[str]) -> None:
    """Check what a worker relies on.

    Raises: DatabaseUnavailable, PoolerUnsupported, PlatformMissing, WorkerVersion, InvalidCliArgs, DatabaseRights.
    """
    with Platform(url) as platform:
        refuse_pooler(platform.connection, url)
        platform.check()
        platform.check_queues(queues)
        if LEADS in queues:
            platform.check_leading()
