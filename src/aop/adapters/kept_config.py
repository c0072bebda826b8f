"""The configuration in force, kept from process to process until something that it was read from changes.

Reading it means YAML and a dozen questions to git; that nothing has changed since takes one question.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from aop.adapters.config_files import FOLDER, NAMES, bundled_content
from aop.adapters.file_locks import locked_file
from aop.adapters.files import RepositoryFiles
from aop.core.errors import Fault, FileNotFound
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.core.version import VERSION
from aop.kernel.config import Config, hash_of
from aop.kernel.ports import TreeEntry

if TYPE_CHECKING:
    from aop.adapters.configuration import Branches

PATH = ".aop/cache/config.json"
LOCK = ".aop/locks/config.lock"
LARGEST = 4 * 1024 * 1024


class _Kept(Struct, frozen=True, kw_only=True):
    files: str
    """What this AOP and the files of the checkout say, as a hash."""
    heads: dict[str, CommitId | None]
    """The branches that were looked at, and where they were."""
    config: Config


class KeptConfig:
    """Returns the configuration as it is now."""

    def __init__(self, git: Branches, root: Path) -> None:
        self._git = git
        self._root = root
        self._files = RepositoryFiles(root)
        self._kept: _Kept | None = None
        self._hashed: tuple[list[bytes | None], str] = ([], "")

    def __call__(self) -> Config:
        """Return what is kept if it still holds, or else read it again.

        Raises: InvalidConfiguration, InvalidWorkspaceImplementation.
        """
        files = self._digest()
        kept = self._kept or self._stored()
        if kept is not None and kept.files == files and self._are_there(kept.heads):
            self._kept = kept
            return kept.config
        # Whoever finds it kept needs no YAML.
        from aop.adapters.configuration import read_config

        seen = _SeenOnce(self._git)
        config = read_config(seen, self._root)
        if files is not None and files == self._digest():
            self._kept = _Kept(files=files, heads=seen.heads, config=config)
            self._store(self._kept)
        return config

    def _are_there(self, heads: dict[str, CommitId | None]) -> bool:
        return all(self._git.branch_head(branch) == head for branch, head in heads.items())

    def _digest(self) -> str | None:
        """Return a hash of all that is read beside git; None if a file is there that cannot be read."""
        try:
            loose = self._files.read_each(FOLDER, [f"{name}.yaml" for name in NAMES], limit=LARGEST)
        except FileNotFound:
            return None
        content, digest = self._hashed
        if loose != content:
            own = list(map(bundled_content, NAMES))
            digest = hashlib.sha256(msgspec.json.encode([VERSION, own, loose])).hexdigest()
            self._hashed = (loose, digest)
        return digest

    def _stored(self) -> _Kept | None:
        """Return what another process has stored; None if there is nothing, or nothing that this AOP would write."""
        try:
            data = self._files.read(PATH, limit=LARGEST)
            kept = msgspec.json.decode(data, type=_Kept) if data else None
        except (FileNotFound, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return kept if kept and _is_whole(kept.config) else None

    def _store(self, kept: _Kept) -> None:
        # Not stored, it is read again next time: a full disk is no reason to fail.
        with suppress(Fault, OSError), locked_file(self._root / LOCK):
            self._files.write(PATH, msgspec.json.encode(kept))


def _is_whole(config: Config) -> bool:
    return config.hash == hash_of(config.policy, config.gates, config.agents)


class _SeenOnce:
    """Git in one moment: where a branch is, is asked once."""

    def __init__(self, git: Branches) -> None:
        self._git = git
        self.heads: dict[str, CommitId | None] = {}

    def branch_head(self, branch: str) -> CommitId | None:
        if branch not in self.heads:
            self.heads[branch] = self._git.branch_head(branch)
        return self.heads[branch]

    def tree_of(self, commit: CommitId) -> TreeId:
        return self._git.tree_of(commit)

    def entry(self, tree: TreeId, path: str) -> TreeEntry | None:
        return self._git.entry(tree, path)

    def blob(self, oid: ObjectId) -> bytes:
        return self._git.blob(oid)
