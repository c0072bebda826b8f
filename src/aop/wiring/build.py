"""Build: the adapter behind each port; settings are read here, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec import Struct

from aop.adapters.config.cache import CachedConfig
from aop.adapters.files.locks import FileLocks
from aop.adapters.files.private_files import check_private
from aop.adapters.files.repository_files import RepositoryFiles
from aop.adapters.files.signing_key import FileSigner
from aop.adapters.git.repository import Repository, open_repository
from aop.adapters.machine.agent_signs import sign_of_agent
from aop.adapters.machine.clock import SystemClock, new_id
from aop.adapters.reporting.call_log import FileCallLog
from aop.adapters.storage.record.choice import OpenRecord, database_secrets, open_record, place_of, without_database
from aop.adapters.storage.record.sqlite import SqliteRecord
from aop.core.errors import Fault
from aop.core.ids import OperationId
from aop.core.redaction.redactor import Redactor
from aop.core.roles import Role
from aop.kernel.config.in_force import Config
from aop.kernel.gateway.calls import FILES, Call, Kernel
from aop.kernel.gateway.gateway import Gateway
from aop.kernel.gateway.principals import Principal
from aop.wiring.catalogue import CATALOGUE
from aop.wiring.late_parts import MODULES as LATE_MODULES
from aop.wiring.late_parts import (
    gate_workers,
    joined_hub,
    late_processes,
    late_registries,
    late_remotes,
    late_scanner,
    late_signatures,
    late_syntax,
    late_tokenizer,
    late_worktree_extras,
    prove_contracts,
    question_ended,
    sends_work_to,
    show_workflow,
    workspace_of,
)

if TYPE_CHECKING:  # few commands need these, and what they take is imported by those that do
    from aop.adapters.agents.logins.destinations import Network
    from aop.adapters.git.refs.tree_hub import TreeHub
    from aop.adapters.reporting.telemetry import Telemetry
    from aop.adapters.storage.record.postgres.place import Place
    from aop.kernel.gateway.tokens import Tokens
    from aop.kernel.ports.reviewer import Reviewer

CALL_LOG = ".aop/calls.jsonl"
SPAN_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""One of these variables switches spans on."""

SECRET_NAMES = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "PRIVATE_KEY", "CREDENTIAL")


class Settings(Struct, frozen=True, kw_only=True):
    """The settings from the environment, read once at the entry point."""

    environ: Mapping[str, str]
    actor: str
    secrets: tuple[str, ...]
    network: Network | None = None
    """The way of log-ins to other machines; None is this machine's own."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str], *, secrets: Iterable[str] = ()) -> Settings:
        """Read the settings; further secrets, and values of variables named like one, are never shown anywhere."""
        user = environ.get("AOP_ACTOR") or environ.get("USER") or environ.get("LOGNAME") or "terminal"
        named = [value for name, value in environ.items() if any(word in name.upper() for word in SECRET_NAMES)]
        found = {*secrets, *named, *database_secrets(environ)}
        return cls(environ=dict(environ), actor=f"person:{user}", secrets=tuple(sorted(found)))


class App(Struct, frozen=True, kw_only=True):
    """One managed repository, ready for calls."""

    gateway: Gateway
    repository: Repository
    record: OpenRecord
    call_log: FileCallLog
    settings: Settings
    person: Principal
    """The person at the terminal."""
    telemetry: Telemetry | None = None
    hub: TreeHub | None = None
    """None where one machine alone works with the record."""

    @property
    def root(self) -> Path:
        """Return the root of the managed repository."""
        return self.repository.root

    @property
    def tokens(self) -> Tokens:
        """Return the desk where tokens are made and read; few commands go there."""
        from aop.kernel.gateway.tokens import Tokens

        kernel = self.gateway.kernel
        signer = FileSigner(self.root / ".aop" / "keys" / "token.key")
        return Tokens(record=kernel.record, signer=signer, clock=kernel.clock, new_id=kernel.new_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database, of the log of calls and of git's helpers."""
        self.record.close()
        self.call_log.close()
        if self.telemetry is not None:
            self.telemetry.close()
        self.repository.close()


def build(folder: Path, settings: Settings, *, to_read: bool = False, reviewer: Reviewer | None = None) -> App:
    """Open the repository of a folder; `to_read` allows a read-only or full disk, `reviewer` asks a model.

    Raises: NotARepository, FilesExposed, RecordUnavailable, RecordTooNew, RecordMoved, DatabaseUnavailable.
    """
    repository = open_repository(folder, settings.environ)
    private = repository.root / ".aop"
    check_private(private)
    place = place_of(repository.root, settings.environ)
    redact = Redactor(settings.secrets)
    record, is_copy = open_record(repository.root, place, to_read=to_read, learn=redact.learn)
    if not is_copy:
        repository.exclude_runtime_files()
        repository.sweep_leftovers()
    locks, clock = _locks_and_clock(private / "locks", record, place)
    is_shared = place is not None and place.is_shared
    hub = joined_hub(record, repository, settings.environ, to_read=to_read) if is_shared else None
    call_log = FileCallLog(repository.root / CALL_LOG)
    config = CachedConfig(repository.branches.head, repository.objects, repository.root)
    seen = settings.environ if place is None else without_database(settings.environ)
    kernel = Kernel(
        record=record,
        git=repository,
        files=RepositoryFiles(repository.root),
        processes=late_processes(repository, seen, redact, lambda: config().policy.worktree.base_branch),
        locks=locks,
        worktree_extras=late_worktree_extras(repository.git, repository),
        calls=call_log,
        clock=clock,
        disk=place.home if place is not None and is_shared else FILES,
        is_shared=is_shared,
        send_work=sends_work_to(hub),
        hub=hub,
        signer=FileSigner(private / "keys" / "approval.key"),
        redact=redact,
        new_id=new_id,
        config=config,
        signatures=late_signatures(settings.environ),
        remotes=late_remotes(repository, settings.environ),
        tokenizer=late_tokenizer(),
        gate_workers=None if to_read else gate_workers(repository, settings.environ),
        capabilities={
            "scanner": lambda: late_scanner(repository),
            "registries": lambda: late_registries(settings.environ),
            "syntax": late_syntax,
        },
        tools=CATALOGUE,
        show_workflow=show_workflow,
        question_ended=question_ended,
        workspace_of=workspace_of,
        prove_contracts=prove_contracts,
        reviewer=reviewer,
    )
    sign = sign_of_agent(settings.environ)
    person = Principal(role=Role.ORCHESTRATOR, actor=settings.actor, person=not sign, agent_sign=sign)
    spans = _telemetry(settings)
    gateway = Gateway(kernel if spans is None else spans.trace_kernel(kernel), CATALOGUE, settles=not is_copy)
    return App(
        gateway=gateway,
        repository=repository,
        record=record,
        call_log=call_log,
        settings=settings,
        person=person,
        telemetry=spans,
        hub=hub,
    )


def _locks_and_clock(folder: Path, record: OpenRecord, place: Place | None) -> tuple[FileLocks, SystemClock]:
    """Return the locks and the clock: of this machine, or of the database that machines share."""
    if place is None:
        return FileLocks(folder), SystemClock()
    # A record on SQLite pays nothing for this.
    from aop.adapters.storage.record.postgres.postgres_clock import PostgresClock
    from aop.adapters.storage.record.postgres.postgres_locks import PostgresLocks
    from aop.adapters.storage.record.postgres.postgres_record import PostgresRecord

    if not isinstance(record, PostgresRecord):
        raise Fault("The record is not in the database that the settings name.")
    return PostgresLocks(folder, record.locks), PostgresClock(record)


def worker_call(
    settings: Settings, repository: Repository, base_branch: str, run: str, report: Callable[[str], None]
) -> Call:
    """Return the call in which a worker carries out a run: in a clone, whose record holds nothing."""
    kernel = worker_kernel(settings, repository, repository.root, _no_config, base_branch)
    who = Principal(role=Role.SYSTEM, actor="worker")
    return Call(kernel=kernel, principal=who, tool=CATALOGUE["gates.run"], operation_id=OperationId(run), report=report)


def worker_kernel(
    settings: Settings,
    repository: Repository,
    root: Path,
    config: Callable[[], Config],
    base_branch: str,
) -> Kernel:
    """Return the kernel of a worker's run: in a clone, with record, files and locks below a root."""
    private, redact = root / ".aop", Redactor(settings.secrets)
    return Kernel(
        record=SqliteRecord(private / "record.db"),
        git=repository,
        files=RepositoryFiles(root),
        processes=late_processes(repository, settings.environ, redact, lambda: base_branch),
        locks=FileLocks(private / "locks"),
        worktree_extras=late_worktree_extras(repository.git, repository),
        calls=FileCallLog(private / "calls.jsonl"),
        clock=SystemClock(),
        signer=FileSigner(private / "keys" / "approval.key"),
        redact=redact,
        new_id=new_id,
        config=config,
    )


def _no_config() -> Config:
    raise Fault("A worker has no configuration: its orders carry what they need.")


def _telemetry(settings: Settings) -> Telemetry | None:
    """Return the maker of spans, imported only if it is configured."""
    if not any(settings.environ.get(name) for name in SPAN_ENDPOINTS):
        return None
    from aop.adapters.reporting.telemetry import telemetry

    return telemetry(settings.environ)


def make_ready_for_threads() -> None:
    """Build the decoder of every shape, before a second thread starts: two that first use one at once crash msgspec."""
    for name in LATE_MODULES:
        import_module(name)
    tuple(CATALOGUE.values())
    for shape in _shapes_below(Struct):
        # A shape that cannot be built is never decoded.
        with suppress(TypeError, NameError):
            msgspec.json.Decoder(shape)


def _shapes_below(shape: type[Struct]) -> Iterator[type[Struct]]:
    for narrower in shape.__subclasses__():
        yield narrower
        yield from _shapes_below(narrower)
