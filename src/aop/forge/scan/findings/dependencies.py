"""Dependencies: manifests beside their lock files, and where both disagree."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from aop.forge.scan.file_facts import Dependency, Ecosystem, LockFacts, normal_name
from aop.forge.scan.inventory import Inventory, ScanWarning
from aop.forge.scan.releases.versions import satisfies
from aop.forge.scan.report import PackageUse


def packages_of(inventory: Inventory) -> tuple[PackageUse, ...]:
    """Return every package that a manifest asks for, with the version that its lock file pins."""
    uses: list[PackageUse] = []
    for path, manifest in sorted(inventory.manifests.items()):
        locks = locks_for(inventory, path, manifest.ecosystem)
        for each in manifest.dependencies:
            pins = (_pinned(lock, each) for lock in locks.values())
            uses.append(
                PackageUse(
                    name=each.name,
                    ecosystem=each.ecosystem,
                    constraint=each.constraint,
                    locked=next(filter(None, pins), ""),
                    group=each.group,
                    file=path,
                    line=each.line,
                )
            )
    return tuple(uses)


def runtimes_of(inventory: Inventory) -> tuple[PackageUse, ...]:
    """Return the versions of languages that manifests ask for."""
    names = {"python": "python", "node": "node", "maven": "java", "go": "go", "rust": "rust"}
    return tuple(
        PackageUse(
            name=names[manifest.ecosystem],
            ecosystem="runtime",
            constraint=manifest.runtime,
            locked="",
            group="runtime",
            file=path,
            line=0,
        )
        for path, manifest in sorted(inventory.manifests.items())
        if manifest.runtime
    )


def locks_for(inventory: Inventory, manifest: str, ecosystem: Ecosystem) -> Mapping[str, LockFacts]:
    """Return the lock files of a manifest: those of the nearest folder at or above its own that has one."""
    folder = posixpath.dirname(manifest)
    while True:
        found = {
            path: lock
            for path, lock in inventory.locks.items()
            if posixpath.dirname(path) == folder and lock.ecosystem == ecosystem and not lock.problem
        }
        if found or not folder:
            return found
        folder = posixpath.dirname(folder)


def lies_of(inventory: Inventory) -> tuple[ScanWarning, ...]:
    """Return each place where a lock file does not pin what its manifest asks for."""
    return tuple(
        lie
        for path, manifest in sorted(inventory.manifests.items())
        if not posixpath.basename(path).startswith("requirements")
        for lock_path, lock in locks_for(inventory, path, manifest.ecosystem).items()
        for each in manifest.dependencies
        if each.group != "optional"
        for lie in _lies(path, lock_path, lock, each)
    )


def _lies(path: str, lock_path: str, lock: LockFacts, wanted: Dependency) -> Iterator[ScanWarning]:
    versions = lock.versions.get(normal_name(wanted.ecosystem, wanted.name), ())
    claimed = lock.claims.get(wanted.name)
    shown = wanted.constraint or "any version"
    if not versions:
        if not _is_local(wanted.constraint):
            detail = f"It asks for `{wanted.name}` ({shown}), and `{lock_path}` does not hold it."
            yield ScanWarning(code="lock_disagrees", file=path, line=wanted.line, detail=detail)
    elif claimed is not None and claimed != wanted.constraint:
        detail = f"It asks for `{wanted.name}` {shown}; `{lock_path}` was made for {claimed}."
        yield ScanWarning(code="lock_disagrees", file=path, line=wanted.line, detail=detail)
    elif all(satisfies(wanted.ecosystem, wanted.constraint, version) is False for version in versions):
        detail = f"It asks for `{wanted.name}` {shown}; `{lock_path}` pins {', '.join(versions)}."
        yield ScanWarning(code="lock_disagrees", file=path, line=wanted.line, detail=detail)


def _is_local(constraint: str) -> bool:
    """Tell whether a package comes from a folder or an address, which lock files write in many ways."""
    return constraint.startswith(("file:", "link:", "workspace:", "git", "http", "portal:", "catalog:")) or (
        "/" in constraint
    )


def _pinned(lock: LockFacts, wanted: Dependency) -> str:
    versions = lock.versions.get(normal_name(wanted.ecosystem, wanted.name), ())
    fitting = [each for each in versions if satisfies(wanted.ecosystem, wanted.constraint, each) is not False]
    return next(iter(fitting or versions), "")
