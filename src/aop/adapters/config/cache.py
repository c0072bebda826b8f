"""The configuration in force, kept from process to process until something that it was read from changes.

Reading it means YAML and a dozen questions to git; that nothing has changed since takes one question.
"""

from __future__ import annotations

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


class _ReadFrom(Struct, frozen=True, kw_only=True):
    """What a configuration is read from beside git, byte for byte: to compare them takes no hash to be made."""

    version: str
    bundled: tuple[bytes, ...]
    checkout: tuple[bytes | None, ...]


class _Kept(Struct, frozen=True, kw_only=True):
    files: _ReadFrom
    heads: dict[str, CommitId | None]
    """The branches that were looked at, and where they were."""
    config: Config


class _Stored(Struct, frozen=True, kw_only=True):
    """A `_Kept` as it is stored."""

    files: _ReadFrom
    heads: dict[str, CommitId | None]
    config: msgspec.Raw
    sum: int
    """The CRC-32 of the configuration, by which damage is noticed."""


class KeptConfig:
    """Returns the configuration as it is now."""

    def __init__(self, head_of: HeadOf, trees: Trees, root: Path) -> None:
        self._head_of = head_of
        self._trees = trees
        self._root = root
        self._files = RepositoryFiles(root)
        self._kept: _Kept | None = None

    def __call__(self) -> Config:
        """Return what is kept if it still holds, or else read it again.

        Raises: InvalidConfiguration, InvalidWorkspaceImplementation.
        """
        files = self._read_from()
        kept = self._kept or self._stored()
        if kept is not None and kept.files == files and self._are_there(kept.heads):
            self._kept = kept
            return kept.config
        # Whoever finds it kept needs no YAML.
        from aop.adapters.config.reader import read_with_heads

        config, heads = read_with_heads(self._head_of, self._trees, self._root)
        if files is not None and files == self._read_from():
            self._kept = _Kept(files=files, heads=heads, config=config)
            self._store(self._kept)
        return config

    def _are_there(self, heads: dict[str, CommitId | None]) -> bool:
        return all(self._head_of(branch) == head for branch, head in heads.items())

    def _read_from(self) -> _ReadFrom | None:
        """Return all that is read beside git; None if a file is there that cannot be read."""
        try:
            loose = self._files.read_each(FOLDER, [f"{name}.yaml" for name in NAMES], limit=LARGEST)
        except FileNotFound:
            return None
        return _ReadFrom(version=VERSION, bundled=tuple(map(bundled_content, NAMES)), checkout=tuple(loose))

    def _stored(self) -> _Kept | None:
        """Return what another process has stored; None if there is nothing, or nothing that this AOP would write."""
        try:
            data = self._files.read(PATH, limit=LARGEST)
            stored = msgspec.json.decode(data, type=_Stored) if data else None
            if stored is None or crc32(stored.config) != stored.sum:
                return None
            config = msgspec.json.decode(stored.config, type=Config)
        except (FileNotFound, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        # A key that has come since, with its default, would not be in the hash that the configuration has.
        is_ours = msgspec.json.encode(config) == bytes(stored.config)
        return _Kept(files=stored.files, heads=stored.heads, config=config) if is_ours else None

    def _store(self, kept: _Kept) -> None:
        config = msgspec.json.encode(kept.config)
        stored = _Stored(files=kept.files, heads=kept.heads, config=msgspec.Raw(config), sum=crc32(config))
        # Not stored, it is read again next time: a full disk is no reason to fail.
        with suppress(Fault, OSError), locked_file(self._root / LOCK):
            self._files.write(PATH, msgspec.json.encode(stored))
