"""A worktree in which tests run real steps."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.git.repository import Repository, open_repository
from aop.adapters.processes.runner import LocalProcesses
from aop.adapters.processes.sandbox.shown_git import HiddenRepository
from aop.kernel.ports.processes import Command, CommandResult


def hidden_repository(repository: Repository) -> HiddenRepository:
    """Return what steps see of a repository, whose base branch is `main`."""
    return HiddenRepository(
        root=repository.root,
        git_dir=repository.git_dir,
        show=lambda worktree, report: repository.narrow.shown(worktree, "main", report),
    )


class SinceFirstWord:
    """A clock that begins to run with what a step prints: a busy machine starts it late, and that is not its time."""

    def __init__(self) -> None:
        self._began: float | None = None

    def __call__(self) -> float:
        return 0.0 if self._began is None else time.monotonic() - self._began

    def heard(self, text: str) -> str:
        """Take a line of the step's log."""
        if self._began is None:
            self._began = time.monotonic()
        return text


class Steps:
    """Runs commands in a worktree of its own, at one level of the sandbox: `bubblewrap`, `landlock` or `none`."""

    def __init__(
        self,
        folder: Path,
        level: str,
        *,
        environ: Mapping[str, str] | None = None,
        repository: Path | None = None,
        worktree: Path | None = None,
        hidden: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.level = level
        self.rungs = () if level == "none" else (level,)
        self.worktree = worktree or folder / "worktree"
        self.worktree.mkdir(parents=True, exist_ok=True)
        self.private_root = folder / "private"
        self._environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **(environ or {})}
        self._repository = None if repository is None else open_repository(repository, os.environ)
        self._hidden = hidden
        self.processes = self._local(lambda text: text.replace("tok_0123456789abcdef", "[token]"))
        if self.processes.sandbox_level("auto") != level:
            pytest.skip(f"{level} does not hold on this machine")

    def _local(self, redact: Callable[[str], str], **words: Any) -> LocalProcesses:
        if self._repository is not None:
            words["repository"] = hidden_repository(self._repository)
        return LocalProcesses(
            self._environ,
            redact,
            private_root=self.private_root,
            hidden=self._hidden,
            rungs=self.rungs,
            **words,
        )

    def run_too_long(self, script: str, *, grace_seconds: float) -> tuple[CommandResult, str]:
        """Run a script whose time is over when it has printed its first line; return how it ended and its log."""
        clock = SinceFirstWord()
        processes = self._local(clock.heard, clock_seconds=clock, grace_seconds=grace_seconds)
        return self._ran(processes, "sh", "-c", script, timeout_seconds=0.2)

    def run(self, *argv: str, **fields: Any) -> tuple[CommandResult, str]:
        """Run a command; return how it ended and its log."""
        return self._ran(self.processes, *argv, **fields)

    def _ran(self, processes: LocalProcesses, *argv: str, **fields: Any) -> tuple[CommandResult, str]:
        log_path = self.folder / "logs" / f"{os.urandom(4).hex()}.log"
        command = {
            "cwd": self.worktree,
            "worktree": self.worktree,
            "env": (),
            "env_allowlist": (),
            "timeout_seconds": 300,
            "log_path": log_path,
            **fields,
        }
        ended = processes.run(Command(argv=argv, **command))
        return ended, log_path.read_text(encoding="utf-8")

    def output(self, *argv: str, **fields: Any) -> str:
        """Run a command that must succeed; return its log."""
        ended, log = self.run(*argv, **fields)
        assert (ended.exit_code, ended.problem) == (0, ""), log
        return log


def processes_with(text: str) -> list[int]:
    """Return the living processes whose command line holds a text."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        if text.encode() in words and int(name) != os.getpid():
            found.append(int(name))
    return found


def wait_until_dead(pids: Sequence[int], seconds: float = 300.0) -> None:
    """Wait for processes that are not our children to end."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ready, _, _ = select.select([descriptor], [], [], seconds)
        os.close(descriptor)
        assert ready, f"process {pid} still lives"
