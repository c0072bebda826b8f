"""Processes port: running one command, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct

from aop.kernel.config.policy import NO_LIMITS, StepLimits

T = TypeVar("T")


class Ending(StrEnum):
    """The end of a process."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    NOT_STARTED = "not_started"
    OUT_OF_MEMORY = "out_of_memory"


def ignore(_line: str) -> None:
    """Report nothing."""


class Command(Struct, frozen=True, kw_only=True):
    """One process to run, without a shell."""

    argv: tuple[str, ...]
    cwd: Path
    worktree: Path
    """The only folder of the repository that the process may write."""
    env: tuple[tuple[str, str], ...]
    """Variables that the step adds to the allow-listed environment."""
    env_allowlist: tuple[str, ...]
    timeout_seconds: float
    log_path: Path
    error_log_path: Path | None = None
    """The log of its standard error; None: it is part of the other one."""
    max_log_bytes: int = 8 * 1024 * 1024
    kept_output_bytes: int = 0
    """How much of what it prints its result has, as it was printed."""
    sandbox: str = "auto"
    """`auto`, `require` or `off` (`execution.sandbox`)."""
    network: str = "none"
    """`none` or `host` (`execution.network`), or `ports`: only those below where that can be had, else `host`."""
    ports: tuple[int, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    """Paths in the worktree that bubblewrap closes to writing; no other sandbox can."""
    limits: StepLimits = NO_LIMITS
    ends_early: Callable[[float], str] | None = None
    """Asked now and then, with how long it has printed nothing: why it is ended before its time; empty if it is not."""
    report: Callable[[str], None] = ignore
    """Told what takes long before the process begins."""


class CommandResult(Struct, frozen=True, kw_only=True):
    """The result of a process."""

    ending: Ending
    exit_code: int | None
    seconds: float
    sandbox_level: str
    """`bubblewrap`, `landlock` or `none`."""
    log_bytes: int
    log_truncated: bool
    problem: str = ""
    transient: bool = False
    """Whether it did not start for a reason of the moment, such as no room for another process."""
    output: bytes = b""
    """The beginning of what it printed, if that was asked for; it may hold secrets, and is not to be stored."""


class Processes(Protocol):
    """Runs gate steps."""

    def sandbox_level(self, sandbox: str) -> str:
        """Return the level that the self-test proves. Raises: SandboxUnavailable under `require` if there is none."""

    def why_ports_stay_open(self, sandbox: str) -> str:
        """Return why a command cannot be kept to some ports; empty if it can. Raises: as `sandbox_level`."""

    def identity(self, sandbox: str, programs: Sequence[str]) -> str:
        """Return the part of this machine in a verdict: sandbox level and program hashes."""

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Carry out tasks that each run commands at the same time; return their results in order."""

    def run(self, command: Command) -> CommandResult:
        """Run one command to its end, within its time limit; its redacted output goes to the log file."""
