"""Scan ports: reading a commit, and asking registries for the newest versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from aop.core.ids import CommitId, TreeId
from aop.forge.scan.file_facts import Dependency
from aop.forge.scan.inventory import Inventory
from aop.kernel.gateway.calls import Kernel
from aop.kernel.ports.handed_in import Report

SCANNER = "scanner"
REGISTRIES = "registries"


class Scanner(Protocol):
    """Reads the sources, manifests and lock files of a commit; never the checkout."""

    def commit_named(self, ref: str) -> CommitId:
        """Return the commit that a branch, a tag or an id names. Raises: UnknownRef, FilesClosed."""

    def read(self, commit: CommitId, report: Report) -> Inventory:
        """Read the tree of a commit. A file that cannot be read is a warning, never a failure.

        Raises: ForgeSupportMissing.
        """

    def read_tree(self, tree: TreeId, report: Report) -> Inventory:
        """Read a tree that may have no commit yet, as `read` does."""


class Registries(Protocol):
    """Asks the registries that the machine's own package managers are set up for."""

    def latest(self, packages: Sequence[Dependency], report: Report) -> Mapping[str, str]:
        """Return the newest version of each package that one could be found for, by `ecosystem:name`."""


def scanner_of(kernel: Kernel) -> Scanner:
    """Return the scanner that was handed in."""
    return cast("Scanner", kernel.capabilities[SCANNER]())


def registries_of(kernel: Kernel) -> Registries:
    """Return the registries that were handed in."""
    return cast("Registries", kernel.capabilities[REGISTRIES]())
