"""Which adapter stands behind which port, and which tools the gateway serves; settings are read here, once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from aop.adapters.configuration import read_config
from aop.adapters.file_locks import FileLocks
from aop.adapters.files import RepositoryFiles
from aop.adapters.git.repository import Repository, open_repository
from aop.adapters.processes import LocalProcesses
from aop.adapters.record.sqlite import SqliteRecord
from aop.adapters.signing import FileSigner
from aop.adapters.system import SystemClock, new_id
from aop.core.ids import CommitId
from aop.core.redaction import Redactor
from aop.core.roles import Role
from aop.kernel.calls import Kernel, Tool
from aop.kernel.config import Config
from aop.kernel.gateway import Gateway
from aop.kernel.principals import Principal
from aop.kernel.tools import evidence, feature, gates, merge, patch, plan, repo, report

CATALOGUE: tuple[Tool, ...] = (
    *feature.TOOLS,
    *plan.TOOLS,
    *repo.TOOLS,
    *patch.TOOLS,
    *gates.TOOLS,
    *evidence.TOOLS,
    *merge.TOOLS,
    *report.TOOLS,
)

SECRET_NAMES = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "PRIVATE_KEY", "CREDENTIAL")


class Settings(Struct, frozen=True, kw_only=True):
    """What the environment says, read once at the entry point."""

    environ: Mapping[str, str]
    actor: str
    secrets: tuple[str, ...]

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read the settings; values of variables that are named like secrets are never shown anywhere."""
        user = environ.get("AOP_ACTOR") or environ.get("USER") or environ.get("LOGNAME") or "terminal"
        secrets = [value for name, value in environ.items() if any(word in name.upper() for word in SECRET_NAMES)]
        return cls(environ=dict(environ), actor=f"person:{user}", secrets=tuple(sorted(secrets)))


class App(Struct, frozen=True, kw_only=True):
    """One managed repository, ready for calls."""

    gateway: Gateway
    repository: Repository
    record: SqliteRecord
    person: Principal
    """Whoever sits at the terminal."""

    @property
    def root(self) -> Path:
        """Return the root of the managed repository."""
        return self.repository.root

    def close(self) -> None:
        """Let go of the database and of git's helpers."""
        self.record.close()


def build(folder: Path, settings: Settings) -> App:
    """Open the repository that a folder lies in.

    Raises: NotARepository.
    """
    repository = open_repository(folder, settings.environ)
    private = repository.root / ".aop"
    repository.exclude_runtime_files()
    record = SqliteRecord(private / "record.db")
    redact = Redactor(settings.secrets)
    kernel = Kernel(
        record=record,
        git=repository,
        files=RepositoryFiles(repository.root),
        processes=LocalProcesses(
            environ=settings.environ,
            redact=redact,
            git_dirs=[repository.git_dir],
            private_root=private / "run",
        ),
        locks=FileLocks(private / "locks"),
        clock=SystemClock(),
        signer=FileSigner(private / "keys" / "approval.key"),
        redact=redact,
        new_id=new_id,
        config=_CurrentConfig(repository),
    )
    person = Principal(role=Role.ORCHESTRATOR, actor=settings.actor, person=True)
    return App(gateway=Gateway(kernel, CATALOGUE), repository=repository, record=record, person=person)


class _CurrentConfig:
    """The configuration, read again only after the base branch moved."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._config: Config | None = None
        self._read_at: CommitId | None = None

    def __call__(self) -> Config:
        config = self._config
        if config is None or self._head(config) != self._read_at:
            config = self._config = read_config(self._repository, self._repository.root)
            self._read_at = self._head(config)
        return config

    def _head(self, config: Config) -> CommitId | None:
        return self._repository.branch_head(config.policy.worktree.base_branch)
