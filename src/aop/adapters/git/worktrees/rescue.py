"""Rescue of uncommitted work, as a commit below `refs/aop/rescue/`."""

from __future__ import annotations

from pathlib import Path

from aop.adapters.files.own_folders import held_folder, own_folder
from aop.adapters.git.process.discovery import find_checkout
from aop.adapters.git.process.neutral_dir import neutral_git_dir
from aop.adapters.git.process.program import CHECKOUT_SECONDS, GitDir, GitProgram
from aop.core.ids import CommitId

RESCUE = "refs/aop/rescue"


class Rescuer:
    """Commits work that would be lost, so that `git log` finds it."""

    def __init__(self, program: GitProgram, root: Path) -> None:
        found = find_checkout(program, root)
        self._git = GitDir(program, git_dir=found.git_dir, work_tree=found.root, environment={}, root=found.root)
        self._neutral = neutral_git_dir(
            program, root=found.root, common=found.git_dir, object_format=found.object_format
        )
        self._tmp = own_folder(found.root, ".aop", "tmp")

    def unsaved_tree(self, folder: Path, head: CommitId) -> str | None:
        """Return the files of a folder as a tree, without ignored ones; None if a commit holds the same."""
        with held_folder(self._tmp) as private:
            index = private / "index"
            self._neutral.run("read-tree", head, index=index)
            self._neutral.run("add", "--all", work_tree=folder, index=index, seconds=CHECKOUT_SECONDS)
            tree = _word(self._neutral.run("write-tree", index=index).out)
        return None if tree == _word(self._git.run("rev-parse", f"{head}^{{tree}}").out) else tree

    def keep_tree(self, name: str, tree: str, head: CommitId) -> str:
        """Commit a tree on top of the commit that it was made from; return the ref."""
        message = f"What was in the worktree of `{name}`"
        commit = _word(self._neutral.run("commit-tree", "-p", head, "-m", message, tree).out)
        return self.keep_commit(name, commit)

    def keep_commit(self, name: str, commit: str) -> str:
        """Keep a commit and its history; return the ref."""
        listed = self._git.run("for-each-ref", "--format=%(objectname) %(refname)", f"{RESCUE}/{name}/").out.decode()
        kept = dict(line.split(" ")[::-1] for line in listed.splitlines())
        known = next((ref for ref, oid in kept.items() if oid == commit), None)
        if known is not None:
            return known
        numbers = [int(number) for ref in kept if (number := ref.rpartition("/")[2]).isdecimal()]
        ref = f"{RESCUE}/{name}/{1 + max(numbers, default=0)}"
        self._git.run("update-ref", "-m", "aop", "--", ref, commit, "0" * len(commit))
        return ref


def _word(out: bytes) -> str:
    return out.decode("ascii").strip()
