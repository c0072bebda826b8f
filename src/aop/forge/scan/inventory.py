"""Inventory: all files of a commit that a scan read, with their facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from aop.forge.scan.file_facts import Language, LockFacts, ManifestFacts, SourceFacts

VENDORED = "vendored"
"""The code of a warning about code of others."""


class SourceFile(Struct, frozen=True, kw_only=True, gc=False):
    """A source file, and what it holds."""

    path: str
    language: Language
    facts: SourceFacts
    is_test: bool = False


class ScanWarning(Struct, frozen=True, kw_only=True, gc=False):
    """Something that the scan could not read or does not believe."""

    code: str
    file: str
    detail: str
    line: int = 0


class Inventory(Struct, frozen=True, kw_only=True):
    """The files of one commit, or of a tree that has none yet."""

    commit: str = ""
    """Empty for a tree that was read by itself."""
    sources: tuple[SourceFile, ...]
    manifests: Mapping[str, ManifestFacts] = {}
    """By path."""
    locks: Mapping[str, LockFacts] = {}
    paths: tuple[str, ...] = ()
    """Every file of the tree, links and submodules too."""
    readme: str = ""
    """The first paragraph of the README; empty if there is none."""
    bytes: int = 0
    """The size of all files together."""
    warnings: tuple[ScanWarning, ...] = ()
    settings: tuple[SourceFile, ...] = ()
    """Files with settings: no sources, but secrets may stand in them."""
    unread: Mapping[str, str] = {}
    """Source files that were not read, each with the code of its warning: `vendored`, `too_large`, `unreadable`."""


def files_of(inventory: Inventory, language: Language) -> Iterator[SourceFile]:
    """Return the source files in one language."""
    return (each for each in inventory.sources if each.language == language)
