"""Cache of the configuration in force, shared by processes until a source changes.

Reading the sources takes YAML and a dozen questions to git; checking that none has changed takes one question, and
after a branch has moved a comparison of its folder.
"""

from binascii import crc32
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from aop.adapters.config.locations import FOLDER, NAMES, bundled_content
from aop.adapters.files.locks import locked_file
from aop.adapters.files.repository_files import RepositoryFiles
from aop.core.errors import Fault, FileNotFound
from aop.core.ids import CommitId
from aop.core.version import VERSION
from aop.kernel.config.in_force import Config

if TYPE_CHECKING:
    from aop.adapters.config.reader import HeadOf, Trees

PATH = ".aop/cache/config.json"
LOCK = ".aop/locks/config.lock"
LARGEST = 4 * 1024 * 1024


class _SourceFiles(Struct, frozen=True, kw_only=True):
    """The sources of a configuration outside of git, byte for byte, so that comparing them needs no hash."""

    version: str
    bundled: tuple[bytes, ...]
    checkout: tuple[bytes | None, ...]


class _CacheEntry(Struct, frozen=True, kw_only=True):
    files: _SourceFiles
    heads: dict[str, CommitId | None]
    """The commits of the branches that it was read from."""
    config: Config


class _StoredEntry(Struct, frozen=True, kw_only=True):
    """A `_CacheEntry` as it is stored."""

    files: _SourceFiles
    heads: dict[str, CommitId | None]
    config: msgspec.Raw
    sum: int
    """The CRC-32 of the configuration, to notice damage."""


class CachedConfig:
    """Returns the configuration in force."""

    def __init__(self, head_of: "HeadOf", trees: "Trees", root: Path) -> None:
        self._head_of = head_of
        self._trees = trees
        self._root = root
        self._files = RepositoryFiles(root)
        self._entry: _CacheEntry | None = None

    def __call__(self) -> Config:
        """Return the cached configuration if it still holds, or read it again. Raises: as `read_config`."""
        files = self._source_files()
        entry = self._entry or self._stored_entry()
        current = self._current(entry) if entry is not None and entry.files == files else None
        if current is not None:
            self._entry = current
            return current.config
        # A cached configuration needs no YAML.
        from aop.adapters.config.reader import read_with_heads

        config, heads = read_with_heads(self._head_of, self._trees, self._root)
        if files is not None and files == self._source_files():
            self._entry = _CacheEntry(files=files, heads=heads, config=config)
            self._store(self._entry)
        return config

    def _current(self, entry: _CacheEntry) -> _CacheEntry | None:
        """Return an entry with the heads of now; None if a branch has other files, or came or went."""
        heads = {branch: self._head_of(branch) for branch in entry.heads}
        if heads == entry.heads:
            return entry
        if not all(self._has_same_files(old, heads[branch]) for branch, old in entry.heads.items()):
            return None
        moved = msgspec.structs.replace(entry, heads=heads)
        self._store(moved)
        return moved

    def _has_same_files(self, old: CommitId | None, new: CommitId | None) -> bool:
        if old is None or new is None or old == new:
            return old == new
        paths = [f"{FOLDER}/{name}.yaml" for name in NAMES]
        # The old commit may have been collected.
        with suppress(Fault):
            before, now = self._trees.tree_of(old), self._trees.tree_of(new)
            return all(self._trees.entry(before, path) == self._trees.entry(now, path) for path in paths)
        return False

    def _source_files(self) -> _SourceFiles | None:
        """Return the sources outside of git; None if a file cannot be read."""
        try:
            loose = self._files.read_each(FOLDER, [f"{name}.yaml" for name in NAMES], limit=LARGEST)
        except FileNotFound:
            return None
        return _SourceFiles(version=VERSION, bundled=tuple(map(bundled_content, NAMES)), checkout=tuple(loose))

    def _stored_entry(self) -> _CacheEntry | None:
        """Return what another process stored; None if there is nothing, or not what this AOP would write."""
        try:
            data = self._files.read(PATH, limit=LARGEST)
            stored = msgspec.json.decode(data, type=_StoredEntry) if data else None
            if stored is None or crc32(stored.config) != stored.sum:
                return None
            config = msgspec.json.decode(stored.config, type=Config)
        except (FileNotFound, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        # A key that is new since then, with its default, would be missing in the hash of the configuration.
        is_ours = msgspec.json.encode(config) == bytes(stored.config)
        return _CacheEntry(files=stored.files, heads=stored.heads, config=config) if is_ours else None

    def _store(self, entry: _CacheEntry) -> None:
        config = msgspec.json.encode(entry.config)
        stored = _StoredEntry(files=entry.files, heads=entry.heads, config=msgspec.Raw(config), sum=crc32(config))
        # It is read again next time: a full disk is not a reason to fail, and a power cut not one to wait for the disk.
        with suppress(Fault, FileNotFound, OSError), locked_file(self._root / LOCK):
            # Without the old file the new one is put in place by one rename: a kill leaves nothing that nobody removes.
            self._files.remove(PATH)
            self._files.write(PATH, msgspec.json.encode(stored), durable=False)
