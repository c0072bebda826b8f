"""Narrow git directory of a worktree, shown in place of the repository's.

It holds the objects that the feature and its base branch reach, their two branches, the tags that the base contains,
and the worktree's index. It has no other ref, no reflog, no stash, no hook and no setting of the user. It is made for
each step from hard links to packs, and nothing that runs can write it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from aop.adapters.files.locks import locked_file
from aop.adapters.files.own_folders import held_folder, own_folder, remove_folder
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
_FOLDERS = ("info", "objects/info", "objects/pack", "refs/heads", "refs/tags")
_SHA1_DIGITS = 40
_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tbare = false\n"
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"


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

    @contextmanager
    def shown(self, folder: Path, base_branch: str, report: Callable[[str], None] = ignore) -> Iterator[Path | None]:
        """Make the narrow git directory of a worktree, and remove it afterwards; None if git knows none there.

        A first copy of a long history is reported before it begins.
        """
        worktree = self._worktrees.registered(folder)
        if worktree is None or self._branches.head(base_branch) is None:
            yield None
            return
        with held_folder(own_folder(self._root, ".aop", "run")) as held:
            made, own = held / "git", f"worktrees/{worktree.folder.name}"
            for name in (*_FOLDERS, own):
                (made / name).mkdir(parents=True)
            with locked_file(history_lock(self._root, history_name(base_branch))):
                # Read behind the lock: a commit that is older than the copy would look like a rewritten branch.
                tip = self._branches.head(base_branch) or worktree.commit
                packs = BasePacks(self._git, self._neutral(), root=self._root, common=self._common, branch=base_branch)
                note = packs.brought_to(tip, report)
                for file in (*packs.files_of(note), *self._feature_files(packs, worktree, tip)):
                    _link(file, made / "objects" / "pack" / file.name)
            refs = {f"{_BRANCHES}{base_branch}": str(tip), **({worktree.ref: worktree.commit} if worktree.ref else {})}
            self._write_common(made, base_branch, refs | {ref.name: ref.oid for ref in note.refs})
            _write_own(made / own, worktree)
            yield made

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

    def _write_common(self, made: Path, base_branch: str, refs: Mapping[str, str]) -> None:
        """Write what the worktrees of a repository share."""
        is_sha1 = all(len(oid) == _SHA1_DIGITS for oid in refs.values())
        files = {
            "HEAD": f"ref: {_BRANCHES}{base_branch}\n",
            "config": _CONFIG.format(version=0 if is_sha1 else 1) + ("" if is_sha1 else _SHA256),
            "packed-refs": "".join(f"{oid} {name}\n" for name, oid in sorted(refs.items())),
        }
        for name, text in files.items():
            (made / name).write_bytes(os.fsencode(text))
        for name in ("shallow", "info/exclude"):
            with suppress(FileNotFoundError):
                shutil.copyfile(self._common / name, made / name)


def _write_own(own: Path, worktree: RegisteredWorktree) -> None:
    """Write what one worktree has for itself."""
    head = f"ref: {worktree.ref}" if worktree.ref else worktree.commit
    (own / "HEAD").write_bytes(os.fsencode(f"{head}\n"))
    (own / "commondir").write_bytes(b"../..\n")
    for name in ("gitdir", "index"):
        _link(worktree.folder / name, own / name)


def _link(file: Path, to: Path) -> None:
    """Give a file, if there is one, a second name; or copy it, where the file system cannot."""
    try:
        os.link(file, to)
    except (FileNotFoundError, FileExistsError):
        # There may be no index; and packs of the same objects have the same name.
        return
    except OSError:
        shutil.copy2(file, to)


def _remove_oldest(folder: Path, *, most: int) -> None:
    found = sorted((path.stat().st_mtime_ns, path) for path in folder.iterdir())
    for _, path in found[: max(0, len(found) - most)]:
        remove_folder(path)
