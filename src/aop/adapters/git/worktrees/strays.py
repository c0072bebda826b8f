"""Strays: files in a worktree that its tree neither holds nor ignores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from aop.adapters.files.own_folders import held_folder
from aop.adapters.git.objects.store import Objects
from aop.adapters.git.objects.trees import side_at
from aop.adapters.git.process.output import bytes_of, join_names, split_names
from aop.adapters.git.process.program import GitDir
from aop.adapters.git.worktrees.extras import read_placed_paths
from aop.adapters.git.worktrees.files import WorktreeFiles
from aop.core.ids import TreeId
from aop.core.paths import globs
from aop.kernel.ports.git import FileMode

_WITH_PATTERNS = {"GIT_LITERAL_PATHSPECS": "0"}


class Strays:
    """Finds strays by the `.gitignore` files of the tree: a program can write those on disk to hide its files."""

    def __init__(self, neutral: GitDir, objects: Objects, files: WorktreeFiles, *, tmp: Path, placed: Path) -> None:
        self._neutral = neutral
        self._objects = objects
        self._files = files
        self._tmp = tmp
        self._placed = placed

    def among(self, others: set[str], tree: TreeId) -> tuple[str, ...]:
        """Return the strays among the paths beside a tree; a nested repository is one, and ends with a slash."""
        placed = read_placed_paths(self._placed)
        others = others - placed
        if not others:
            return ()
        with held_folder(self._tmp) as rules:
            self._write_rules(tree, others, rules)
            suspects = self._not_ignored(others, rules)
            folders = {path for path in suspects if path.endswith("/")}
            inside = {path for folder in folders for path in self._files.below(folder)} - placed
            return tuple(sorted((suspects - folders) | self._not_ignored(inside, rules)))

    def not_placed(self, others: set[str]) -> set[str]:
        """Return paths without those that AOP placed; a folder may still hold some."""
        return others - read_placed_paths(self._placed)

    def unkept(self, others: Iterable[str], keep: Sequence[str]) -> list[str]:
        """Return the paths beside a tree that nothing keeps; a folder of which a part is kept, file by file."""
        kept = _Kept((*keep, *read_placed_paths(self._placed)))
        found: list[str] = []
        for path in sorted(others):
            if path in kept:
                continue
            if path.endswith("/") and kept.may_lie_in(path):
                inside = self._files.below(path)
                rest = [each for each in inside if each not in kept]
                found += [path] if len(rest) == len(inside) else rest
            else:
                found.append(path)
        return found

    def _not_ignored(self, paths: set[str], rules: Path) -> set[str]:
        if not paths:
            return set()
        # This command takes no literal names: `./` before each keeps a leading `:` from being read as a pattern.
        ran = self._neutral.run(
            *("check-ignore", "--no-index", "-z", "--stdin"),
            stdin=join_names(f"./{path}" for path in sorted(paths)),
            work_tree=rules,
            environment=_WITH_PATTERNS,
            fine=(0, 1),
        )
        return paths.difference(path.removeprefix("./") for path in split_names(ran.out))

    def _write_rules(self, tree: TreeId, paths: Iterable[str], rules: Path) -> None:
        """Write the `.gitignore` files of the tree that apply to the paths."""
        for folder in {folder for path in paths for folder in _folders_above(path)}:
            side = side_at(self._objects.tree, tree, bytes_of(f"{folder}.gitignore"))
            if side is not None and side[0] in (FileMode.FILE, FileMode.EXECUTABLE):
                (rules / folder).mkdir(parents=True, exist_ok=True)
                (rules / folder / ".gitignore").write_bytes(self._objects.blob(side[1]))


class _Kept:
    """Paths and patterns that are kept, with all that lies below; a set-up may leave thousands of paths."""

    def __init__(self, kept: Sequence[str]) -> None:
        self._paths = {each.rstrip("/") for each in kept}
        self._patterns = [each for each in kept if globs.is_glob(each)]
        self._folders = {folder for each in self._paths for folder in _folders_above(each)}

    def __contains__(self, path: str) -> bool:
        plain = path.rstrip("/")
        above = (folder.rstrip("/") for folder in _folders_above(plain))
        if plain in self._paths or any(folder in self._paths for folder in above if folder):
            return True
        return any(globs.matches(pattern, plain) for pattern in self._patterns)

    def may_lie_in(self, folder: str) -> bool:
        """Tell whether something below a folder may be kept."""
        return bool(self._patterns) or folder in self._folders


def _folders_above(path: str) -> Iterator[str]:
    """Return the folders above a path, from the root (empty); the others end with a slash."""
    return accumulate(path.split("/")[:-1], "{}{}/".format, initial="")
