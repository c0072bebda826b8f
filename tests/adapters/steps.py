"""A worktree in which tests run real steps."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.processes import LocalProcesses
from aop.kernel.ports import Command, Ended


class Steps:
    """Runs commands in a worktree of its own, at one level of the sandbox: `bubblewrap`, `landlock` or `none`."""

    def __init__(
        self,
        folder: Path,
        level: str,
        *,
        environ: Mapping[str, str] | None = None,
        git_dirs: Sequence[Path] = (),
        worktree: Path | None = None,
    ) -> None:
        self.folder = folder
        self.level = level
        self.rungs = () if level == "none" else (level,)
        self.worktree = worktree or folder / "worktree"
        self.worktree.mkdir(parents=True, exist_ok=True)
        self.private_root = folder / "private"
        self.processes = LocalProcesses(
            {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **(environ or {})},
            lambda text: text.replace("tok_0123456789abcdef", "[token]"),
            private_root=self.private_root,
            git_dirs=git_dirs,
            grace_seconds=0.5,
            rungs=self.rungs,
        )
        if self.processes.sandbox_level("auto") != level:
            pytest.skip(f"{level} does not hold on this machine")

    def run(self, *argv: str, **fields: Any) -> tuple[Ended, str]:
        """Run a command; return how it ended and its log."""
        log_path = self.folder / "logs" / f"{os.urandom(4).hex()}.log"
        command = {
            "cwd": self.worktree,
            "worktree": self.worktree,
            "env": (),
            "env_allowlist": (),
            "timeout_seconds": 20.0,
            "log_path": log_path,
            **fields,
        }
        ended = self.processes.run(Command(argv=argv, **command))
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


def wait_until_dead(pids: Sequence[int], seconds: float = 5.0) -> None:
    """Wait for processes that are not our children to end."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ready, _, _ = select.select([descriptor], [], [], seconds)
        os.close(descriptor)
        assert ready, f"process {pid} still lives"
