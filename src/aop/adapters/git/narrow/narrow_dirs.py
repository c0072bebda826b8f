"""Narrow git directory of a worktree, shown in place of the repository's.

It holds the objects that the feature and its base branch reach, their two branches, the tags that the base contains,
and the worktree's index. It has no other ref, no reflog, no stash, no hook and no setting of the user. It is made from
hard links to packs, and nothing that runs in a sandbox can write it.

Making one takes some thirty changes of the disk, so it is kept for the next step in the same worktree. It is used again
only if it would be made of the same files and bytes, and if nobody has touched it since.
"""

from __future__ import annotations

import os
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from msgspec import Struct

from aop.adapters.files.locks import locked_file
from aop.adapters.files.own_folders import held_folder, is_held_name, own_folder, remove_folder
from aop.adapters.git.feature_worktrees import FeatureWorktrees, RegisteredWorktree
from aop.adapters.git.narrow.base_packs import PACK_ENDINGS, BasePacks, history_lock, history_name
from aop.adapters.git.objects.store import Objects
from aop.adapters.git.process.output import object_id, raw_changes
from aop.adapters.git.process.program import GitDir
from aop.adapters.git.refs.branches import Branches
from aop.core.ids import CommitId, TreeId
from aop.kernel.ports.git import FileMode
from aop.kernel.ports.processes import ignore

_BRANCHES = "refs/heads/"
_FEATURES = "features"
_MOST_FEATURES = 64
_MOST_KEPT = 16
"""So many directories that no step uses now are kept in one process."""
_FOLDERS = ("info", "objects/info", "objects/pack", "refs/heads", "refs/tags")
_SHA1_DIGITS = 40
_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tbare = false\n"
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"


class LinkedFile(Struct, frozen=True, kw_only=True):
    """A file that gets a second name in a narrow git directory, as it was when the directory was planned."""

    path: Path
    state: tuple[int, ...]


Layout: TypeAlias = Mapping[str, bytes | LinkedFile]
"""The files of a narrow git directory by their paths in it: all that it depends on."""


class MadeDir(Struct, frozen=True, kw_only=True):
    """A narrow git directory on the disk."""

    folder: Path
    layout: Layout
    states: tuple[tuple[int, ...], ...]
    """The states of its files and folders when it was made: a changed one is not used again."""
    held: ExitStack
    """Removes it."""


class NarrowGitDirs:
    """Makes the narrow git directories of the worktrees of one repository."""

    def __init__(
        self,
        git: GitDir,
        neutral: Callable[[], GitDir],
        worktrees: FeatureWorktrees,
        objects: Objects,
        branches: Branches,
        *,
        root: Path,
        common: Path,
    ) -> None:
        self._git = git
        self._neutral = neutral
        self._worktrees = worktrees
        self._objects = objects
        self._branches = branches
        self._root = root
        self._common = common
        self._lock = threading.Lock()
        self._kept: dict[Path, MadeDir] = {}
        """The directories that no step uses now, by their worktrees; the one used last is the last."""
        weakref.finalize(self, _remove, self._kept)

    def close(self) -> None:
        """Remove the directories that are kept; the next step makes its own."""
        with self._lock:
            _remove(self._kept)

    @contextmanager
    def shown(self, folder: Path, base_branch: str, report: Callable[[str], None] = ignore) -> Iterator[Path | None]:
        """Show the narrow git directory of a worktree, and keep it afterwards; None if git knows none there.

        A first copy of a long history is reported before it begins.
        """
        worktree = self._worktrees.registered(folder)
        if worktree is None or self._branches.head(base_branch) is None:
            yield None
            return
        with locked_file(history_lock(self._root, history_name(base_branch))):
            # Read behind the lock: a commit that is older than the copy would look like a rewritten branch.
            tip = self._branches.head(base_branch) or worktree.commit
            packs = BasePacks(self._git, self._neutral(), root=self._root, common=self._common, branch=base_branch)
            note = packs.brought_to(tip, report)
            refs = {f"{_BRANCHES}{base_branch}": str(tip), **({worktree.ref: worktree.commit} if worktree.ref else {})}
            layout = {
                **_linked("objects/pack", [*packs.files_of(note), *self._feature_files(packs, worktree, tip)]),
                **self._shared_files(base_branch, refs | {ref.name: ref.oid for ref in note.refs}),
                **_own_files(worktree),
            }
            made = self._made_of(folder, layout)
        try:
            yield made.folder
        finally:
            if is_held_name(folder.name):
                # A scratch worktree: none is ever at its place again.
                made.held.close()
            else:
                self._keep(folder, made)

    def _made_of(self, folder: Path, layout: Layout) -> MadeDir:
        """Return a directory of this layout that no other step uses: the one that is kept, or a new one."""
        with self._lock:
            kept = self._kept.pop(folder, None)
        if kept is not None and kept.layout == layout and _states_of(kept.folder, layout) == kept.states:
            return kept
        if kept is not None:
            kept.held.close()
        with ExitStack() as held:
            made = held.enter_context(held_folder(own_folder(self._root, ".aop", "run"))) / "git"
            _make(made, layout)
            return MadeDir(folder=made, layout=layout, states=_states_of(made, layout), held=held.pop_all())

    def _keep(self, folder: Path, made: MadeDir) -> None:
        """Keep a directory for the next step in its worktree, in place of those that were used longest ago."""
        with self._lock:
            left = [self._kept.pop(folder)] if folder in self._kept else []
            self._kept[folder] = made
            left += [self._kept.pop(next(iter(self._kept))) for _ in range(len(self._kept) - _MOST_KEPT)]
        for each in left:
            each.held.close()

    def _feature_files(self, packs: BasePacks, worktree: RegisteredWorktree, tip: CommitId) -> list[Path]:
        """Return the pack of what a worktree reaches and the base does not; the last ones are kept."""
        kept = own_folder(packs.folder, _FEATURES)
        folder = kept / sha256(f"{worktree.commit} {worktree.tree}".encode("ascii")).hexdigest()[:32]
        try:
            os.utime(folder)
        except FileNotFoundError:
            _remove_oldest(kept, most=_MOST_FEATURES - 1)
            with held_folder(own_folder(self._root, ".aop", "tmp")) as beside:
                packs.pack(beside / "objects", sorted(self._new_objects(worktree.commit, worktree.tree, tip)))
                os.rename(beside / "objects" / "pack", folder)
        return [path for ending in PACK_ENDINGS for path in folder.glob(f"*{ending}")]

    def _new_objects(self, head: CommitId, tree: TreeId, tip: CommitId) -> set[str]:
        new: set[str] = set()
        if head != tip and not self._objects.is_ancestor(head, tip):
            listed = self._neutral().run("rev-list", "--objects", "--missing=allow-any", head, f"^{tip}").out
            new |= {line.partition(b" ")[0].decode("ascii") for line in listed.splitlines()}
        old = self._objects.tree_of(head)
        if tree != old:
            arguments = ("diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev", old, object_id(tree))
            found = raw_changes(self._neutral().run(*arguments).out)
            new |= {each.new_oid for each in found if each.status != "D" and each.new_mode != FileMode.GITLINK}
            new.add(tree)
        return new

    def _shared_files(self, base_branch: str, refs: Mapping[str, str]) -> dict[str, bytes]:
        """Return what the worktrees of a repository share."""
        is_sha1 = all(len(oid) == _SHA1_DIGITS for oid in refs.values())
        texts = {
            "HEAD": f"ref: {_BRANCHES}{base_branch}\n",
            "config": _CONFIG.format(version=0 if is_sha1 else 1) + ("" if is_sha1 else _SHA256),
            "packed-refs": "".join(f"{oid} {name}\n" for name, oid in sorted(refs.items())),
        }
        files = {name: os.fsencode(text) for name, text in texts.items()}
        for name in ("shallow", "info/exclude"):
            with suppress(FileNotFoundError):
                files[name] = (self._common / name).read_bytes()
        return files


def _own_files(worktree: RegisteredWorktree) -> dict[str, bytes | LinkedFile]:
    """Return what one worktree has for itself."""
    own = f"worktrees/{worktree.folder.name}"
    head = f"ref: {worktree.ref}" if worktree.ref else worktree.commit
    return {
        f"{own}/HEAD": os.fsencode(f"{head}\n"),
        f"{own}/commondir": b"../..\n",
        **_linked(own, [worktree.folder / name for name in ("gitdir", "index")]),
    }


def _linked(folder: str, files: Iterable[Path]) -> dict[str, bytes | LinkedFile]:
    """Return the files that exist, in a folder; packs of the same objects have the same name."""
    # There may be no index.
    found = [(path, _file_state(path)) for path in files]
    return {f"{folder}/{path.name}": LinkedFile(path=path, state=state) for path, state in found if state}


def _make(made: Path, layout: Layout) -> None:
    for name in _folders_of(layout):
        (made / name).mkdir(parents=True, exist_ok=True)
    for name, content in layout.items():
        if isinstance(content, bytes):
            (made / name).write_bytes(content)
        else:
            _link(content.path, made / name)


def _link(file: Path, to: Path) -> None:
    """Give a file, if it is still there, a second name; or copy it, where the file system cannot."""
    try:
        os.link(file, to)
    except FileNotFoundError:
        return
    except OSError:
        shutil.copy2(file, to)


def _folders_of(layout: Layout) -> list[str]:
    """Return all folders of a directory, with itself, each before those below it."""
    below = {*(f"{name}/file" for name in _FOLDERS), *layout}
    return sorted({str(folder) for name in below for folder in PurePosixPath(name).parents})


def _states_of(made: Path, layout: Layout) -> tuple[tuple[int, ...], ...]:
    """Return the states of all files and folders; a file that is added or removed changes that of its folder."""
    linked = {name for name, content in layout.items() if not isinstance(content, bytes)}
    # A further name of a pack, in the directory of another worktree, changes the time of its last change.
    own = [_own_state(made / name) for name in (*_folders_of(layout), *sorted(set(layout) - linked))]
    return (*own, *(_file_state(made / name) for name in sorted(linked)))


def _own_state(path: Path) -> tuple[int, ...]:
    """Return the state that a write to the file, a rename, or a new entry of the folder changes."""
    try:
        found = path.lstat()
    except OSError:
        return ()
    return (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _file_state(path: Path) -> tuple[int, ...]:
    """Return the state that a write to the file or its replacement changes; empty if there is no file."""
    return _own_state(path)[:-1]


def _remove(kept: dict[Path, MadeDir]) -> None:
    while kept:
        kept.popitem()[1].held.close()


def _remove_oldest(folder: Path, *, most: int) -> None:
    found = sorted((path.stat().st_mtime_ns, path) for path in folder.iterdir())
    for _, path in found[: max(0, len(found) - most)]:
        remove_folder(path)
