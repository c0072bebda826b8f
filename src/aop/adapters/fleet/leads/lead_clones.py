"""Lead clones: whole clones of hubs, in which a worker's supervisors work."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from aop.adapters.fleet.leads.directory import NAME
from aop.adapters.git.process.program import CHECKOUT_SECONDS, GitProgram, GitResult
from aop.adapters.git.refs.hub import default_branch
from aop.adapters.git.refs.remotes import network_settings
from aop.core.errors import Fault, HubUnavailable


class LeadClones:
    """The clones below one folder; several workers of a machine may share it.

    What lies beside a clone has a `~` in its name, as no repository has.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._program = GitProgram(environ)

    def ready(self, name: str, hub: str) -> tuple[Path, int]:
        """Return a clone with the hub's base branch checked out, and its lock. Raises: HubUnavailable, Fault."""
        if not NAME.fullmatch(name):
            raise Fault(f"No repository is called {name[:80]!a}.")
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        root, lock = self._free_clone(name)
        try:
            branch = default_branch(hub, self._environ, self._folder)
            if (root / ".git").is_dir():
                self._follow(root, hub, branch)
            else:
                self._clone(root, hub)
        except BaseException:
            os.close(lock)
            raise
        return root, lock

    def _free_clone(self, name: str) -> tuple[Path, int]:
        """Return the first clone of a repository that no process works in: one that was frozen may go on in its own."""
        for number in itertools.count(1):
            place = self._folder / (name if number == 1 else f"{name}~{number}")
            lock = os.open(f"{place}~lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            # The repository's folder is not its name in the database, which the environment gives.
            return place, lock
        raise AssertionError("unreachable")

    def _clone(self, root: Path, hub: str) -> None:
        beside = root.with_name(f"{root.name}~new")
        shutil.rmtree(beside, ignore_errors=True)
        self._reach(self._folder, "clone", "--quiet", "--no-tags", "--", hub, str(beside))
        beside.rename(root)

    def _follow(self, root: Path, hub: str, branch: str) -> None:
        """Have the base branch of the hub, unless this clone's own is further; files follow it."""
        theirs, ours = f"refs/remotes/origin/{branch}", f"refs/heads/{branch}"
        self._reach(root, "fetch", "--quiet", "--no-tags", "--", hub, f"+{ours}:{theirs}")
        if self._run(root, "merge-base", "--is-ancestor", ours, theirs).code == 0:
            self._checked(self._run(root, "update-ref", ours, theirs))
        self._checked(self._run(root, "reset", "--quiet", "--hard", ours, seconds=CHECKOUT_SECONDS))

    def _reach(self, folder: Path, *words: str) -> None:
        options, own = network_settings(self._environ)
        try:
            ran = self._program.run([*options, *words], cwd=folder, environment=own, seconds=CHECKOUT_SECONDS)
        except Fault as fault:
            raise HubUnavailable(f"The hub cannot be read: {fault}") from fault
        if ran.code:
            raise HubUnavailable(f"The hub cannot be read: {ran.err.strip()[:500]}")

    def _run(self, root: Path, *words: str, seconds: float = 120.0) -> GitResult:
        return self._program.run(
            [f"--git-dir={root / '.git'}", f"--work-tree={root}", *words], cwd=root, environment={}, seconds=seconds
        )

    def _checked(self, ran: GitResult) -> None:
        if ran.code:
            raise Fault(f"The clone could not be brought up to date: {ran.err.strip()[:500]}")
