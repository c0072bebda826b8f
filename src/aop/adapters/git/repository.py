"""Repository: the managed repository and its parts (`aop.kernel.ports.git.Git`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from aop.adapters.files.own_folders import abandoned_folders, remove_folder
from aop.adapters.git.feature_worktrees import FeatureWorktrees
from aop.adapters.git.objects.loose import LooseObjects
from aop.adapters.git.objects.write_ahead_log import ObjectLog
from aop.adapters.git.process.discovery import find_checkout
from aop.adapters.git.process.neutral_dir import neutral_git_dir
from aop.adapters.git.process.output import is_plain_path
from aop.adapters.git.process.program import GitDir, GitProgram
from aop.adapters.git.refs.branches import Branches
from aop.adapters.git.repository_objects import RepositoryObjects
from aop.adapters.git.worktrees.excludes import exclude_runtime_files
from aop.adapters.git.worktrees.registrations import Registrations
from aop.adapters.machine.clock import SystemClock
from aop.core.errors import InvalidConfiguration
from aop.core.ids import CommitId

if TYPE_CHECKING:
    # Few commands merge, or run code of a feature.
    from aop.adapters.git.checkouts.user_checkout import UserCheckout
    from aop.adapters.git.narrow.narrow_dirs import NarrowGitDirs
    from aop.adapters.git.objects.merges import Merges

DIGEST_SIZES = {"sha1": 20, "sha256": 32}


class Repository:
    """One repository with a work tree. Only `checkout` writes the user's files and index; nothing HEAD or config."""

    def __init__(
        self, program: GitProgram, *, root: Path, git_dir: Path, object_format: str, worktrees: str = ".worktrees"
    ) -> None:
        self.root = root
        """The top folder of the user's own checkout."""
        self.git_dir = git_dir
        """The git directory that all worktrees share."""
        self._program = program
        self._digest_size = digest_size = DIGEST_SIZES[object_format]
        self._worktrees_folder = worktrees
        self._checkout_note = root / ".aop" / "checkout.json"
        # Refs and single objects are read here. Commands that look into files run in the neutral git directory.
        self.git = git = GitDir(program, git_dir=git_dir, work_tree=root, environment={}, root=root)
        self._neutral = neutral = cache(
            partial(neutral_git_dir, program, root=root, common=git_dir, object_format=object_format)
        )
        self._loose = LooseObjects(git_dir / "objects", ObjectLog(root, SystemClock().boot_id))
        self._registrations = Registrations(git, root=root, common=git_dir)
        self.objects = RepositoryObjects(git, neutral, self._loose, root=root)
        self.branches = Branches(
            git,
            root=root,
            common=git_dir,
            before_move=self._note_checkout,
        )
        self.worktrees = FeatureWorktrees(
            self._registrations,
            self.objects,
            self.branches,
            neutral,
            root=root,
            folder=worktrees,
            digest_size=digest_size,
        )

    @cached_property
    def merges(self) -> Merges:
        """Return what merges commits."""
        from aop.adapters.git.objects.merges import Merges

        return Merges(
            self._neutral(),
            self.objects,
            self._loose,
            root=self.root,
            folder=self.git_dir / "objects",
            digest_size=self._digest_size,
        )

    @cached_property
    def narrow(self) -> NarrowGitDirs:
        """Return the maker of the git directories that sandboxes show."""
        from aop.adapters.git.narrow.narrow_dirs import NarrowGitDirs

        return NarrowGitDirs(
            self.git,
            self._neutral,
            self.worktrees,
            self.objects,
            self.branches,
            root=self.root,
            common=self.git_dir,
        )

    @cached_property
    def checkout(self) -> UserCheckout:
        """Return the person's own checkout."""
        from aop.adapters.git.checkouts.user_checkout import UserCheckout

        personal = GitDir(
            self._program.personal(), git_dir=self.git_dir, work_tree=self.root, environment={}, root=self.root
        )
        return UserCheckout(
            personal,
            self.objects,
            self.branches,
            self._registrations,
            root=self.root,
            git_dir=self.git_dir,
            note=self._checkout_note,
            digest_size=self._digest_size,
        )

    def checkout_behind(self, branch: str) -> str | None:
        """Say how to update the person's checkout if it is on the branch and shows older files."""
        # `aop status` asks each time, and few checkouts have a note.
        return self.checkout.behind(branch) if os.path.lexists(self._checkout_note) else None

    def _note_checkout(self, branch: str, old: CommitId) -> None:
        self.checkout.note_move(branch, old)

    def close(self) -> None:
        """End the git processes and remove the git directories that stay; a later call makes them again."""
        self.objects.close()
        self.branches.close()
        self.worktrees.close()
        if "narrow" in vars(self):
            self.narrow.close()

    def sweep_leftovers(self) -> None:
        """Remove what killed processes left behind, and write the objects again that a power cut has taken."""
        self._loose.restore()
        self.branches.drop_stale_locks()
        private = self.root / ".aop"
        for folder in abandoned_folders(private / "scratch"):
            self._registrations.forget(folder)
            remove_folder(folder)
        for parent in ("tmp", "run"):
            for folder in abandoned_folders(private / parent):
                remove_folder(folder)
        self._registrations.forget_gone(private / "scratch")

    def exclude_runtime_files(self) -> None:
        """Keep the files that AOP writes out of the user's `git status`, through `info/exclude`."""
        exclude_runtime_files(self.git_dir / "info" / "exclude", worktrees=self._worktrees_folder)


def open_repository(path: Path, environ: Mapping[str, str], *, worktrees: str = ".worktrees") -> Repository:
    """Open the repository that a folder or linked worktree lies in.

    Raises: NotARepository, FilesClosed, InvalidConfiguration.
    """
    if not is_plain_path(worktrees):
        raise InvalidConfiguration(
            f"The worktrees must lie in a folder of the repository, and {worktrees[:80]!a} does not name one."
        )
    program = GitProgram(environ)
    found = find_checkout(program, path)
    return Repository(
        program, root=found.root, git_dir=found.git_dir, object_format=found.object_format, worktrees=worktrees
    )
