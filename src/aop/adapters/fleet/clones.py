"""Clones: a worker's own repositories, which only ever fetch from a hub."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from aop.adapters.git.process.program import ANY_CODE, GitProgram
from aop.adapters.git.refs.hub import Hub
from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import Fault
from aop.core.ids import CommitId

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Clones:
    """The clones below one folder, one for each repository; threads share them."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ
        self._guard = threading.Lock()
        self._fetching: dict[str, threading.Lock] = {}
        self._open: dict[str, Repository] = {}

    def clone(self, name: str) -> Repository:
        """Return the clone of a repository, made at first use."""
        if not _NAME.fullmatch(name):
            raise Fault(f"No repository is called {name[:80]!a}.")
        with self._guard:
            if name not in self._open:
                root = self._folder / name
                if not (root / ".git").exists():
                    self._make(root)
                repository = open_repository(root, self._environ)
                repository.exclude_runtime_files()
                repository.sweep_leftovers()
                self._open[name] = repository
            return self._open[name]

    def has(self, name: str) -> bool:
        """Tell whether a repository was cloned before."""
        return name in self._open or (self._folder / name / ".git").exists()

    def _make(self, root: Path) -> None:
        """Make an empty clone, whole or not at all: a disk may be full."""
        root.parent.mkdir(parents=True, exist_ok=True)
        # No repository has such a name.
        making = root.with_name(f".{root.name}")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        made = GitProgram(self._environ).run(["init", "-q", "-b", "aop-worker", "."], cwd=making, environment={})
        if made.code:
            shutil.rmtree(making, ignore_errors=True)
            raise Fault(f"A clone could not be made: {made.err.strip()[:500]}")
        shutil.rmtree(root, ignore_errors=True)
        making.rename(root)

    def have(self, name: str, hub: str, ref: str, commit: CommitId) -> Repository:
        """Return the clone of a repository with a commit in it. Raises: HubUnavailable."""
        repository = self.clone(name)
        with self._guard:
            fetching = self._fetching.setdefault(name, threading.Lock())
        # Two runs that fetch at once would fetch the same objects twice.
        with fetching:
            Hub(repository.git, self._environ, hub, repository.objects.flush_names).fetch(commit, ref)
        return repository

    def follow_base(self, repository: Repository, branch: str, commit: CommitId) -> None:
        """Have the base branch at a commit, unless it is at a newer one: a sandbox shows what it reaches."""
        head = repository.branches.head(branch)
        if head is not None and repository.objects.is_ancestor(commit, head):
            return
        ref = f"refs/heads/{branch}"
        repository.git.run("update-ref", ref, commit, *((head,) if head else ()), fine=ANY_CODE)
