"""Files port: the files that AOP writes from the record."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct


class FilePart(Struct, frozen=True, kw_only=True):
    """Some bytes of a file."""

    content: bytes = b""
    offset: int = 0
    size: int = 0
    """The size of the whole file."""


class Files(Protocol):
    """The files under the repository's root that AOP owns; paths are relative to that root."""

    @property
    def root(self) -> Path:
        """Return the root of the managed repository."""

    def read(self, path: str, *, limit: int) -> bytes | None:
        """Read a plain file, through no symlink; None if absent. Raises: Refusal if it is not plain or too large."""

    def fingerprint(self, path: str) -> str | None:
        """Return the SHA-256 of a file; None if it does not exist, a made-up one if it is not a plain file."""

    def read_tail(self, path: str, *, limit: int) -> bytes:
        """Read the last bytes of a plain file; empty if it is absent."""

    def read_part(self, path: str, *, offset: int | None, limit: int) -> FilePart:
        """Read a part of a plain file, from an offset on or at its end; empty if it is absent."""

    def matching(self, pattern: str, *, limit: int) -> tuple[str, ...]:
        """Return the plain files that a path or a glob names, sorted, at most so many; no link is followed."""

    def folders(self, path: str, *, limit: int) -> tuple[str, ...]:
        """Return the names in a folder that are not plain files, sorted, at most so many; none if it is not there."""

    def below(self, path: str, *, limit: int) -> tuple[str, ...]:
        """Return all files below a folder, sorted, through no link. Raises: Refusal if it is a link or a file."""

    def remove(self, path: str) -> None:
        """Remove a file, if it is there, and what a killed writer of it left."""

    def prune(self, path: str) -> None:
        """Remove a folder and the folders below it, as far as they hold nothing."""

    def write(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Put the content there as a whole: written beside and renamed; both fsynced if it must outlast a power cut."""

    def set_aside(self, path: str) -> str:
        """Move a file that is not AOP's to `.aop/quarantine/`, and return where it is now."""
