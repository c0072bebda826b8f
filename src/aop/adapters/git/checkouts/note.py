"""Checkout note: the commit that the user's index shows while its branch is ahead.

AOP moves the base branch without the checkout. Before the first such move the note is written, and it stays until the
checkout was brought along. It is a claim, not a proof: the user's own git may have brought the files along since.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.files.own_folders import own_folder, small_content
from aop.core.ids import CommitId


class CheckoutNote(Struct, frozen=True, kw_only=True):
    """The place where the checkout stood when AOP first moved its branch."""

    branch: str
    shows: CommitId
    begun: bool = False
    """Whether files are being written; a killed git leaves an empty file and the lock of the index."""


class CheckoutNotes:
    """The file that holds the note."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, branch: str) -> CheckoutNote | None:
        """Return the note of a branch; None if there is none."""
        content = small_content(self._path)
        try:
            note = msgspec.json.decode(content or b"", type=CheckoutNote)
        except msgspec.DecodeError:
            return None
        return note if note.branch == branch else None

    def write(self, note: CheckoutNote) -> None:
        """Replace the note."""
        private = self._path.parent
        beside = own_folder(private.parent, private.name) / f"{self._path.name}.{os.getpid()}"
        beside.write_bytes(msgspec.json.encode(note) + b"\n")
        os.replace(beside, self._path)

    def remove(self) -> None:
        """Remove the note: the checkout shows its branch."""
        self._path.unlink(missing_ok=True)
