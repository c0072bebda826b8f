"""Commit scanner: reads the sources, manifests and lock files of a commit's tree."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec

from msgspec import Struct
from msgspec.structs import replace

from aop.adapters.files.closed_places import closed_place
from aop.adapters.git.objects.bulk import SizedEntry, commit_named, read_blobs, sized_entries
from aop.adapters.git.process.output import bytes_of
from aop.adapters.git.repository import Repository
from aop.adapters.projects.deep_scan.facts_cache import FactsCache
from aop.adapters.projects.deep_scan.file_kinds import (
    LARGEST_LOCK,
    LARGEST_MANIFEST,
    LARGEST_SETTINGS,
    LARGEST_SOURCE,
    is_lock,
    is_manifest,
    is_test,
    is_vendored,
    language_of,
    settings_in,
)
from aop.adapters.projects.deep_scan.manifests.manifest_reader import read_lock, read_manifest
from aop.adapters.projects.deep_scan.parse_pool import ParsedFile, Unread, read_all
from aop.core.errors import FilesClosed, ForgeSupportMissing, UnknownRef
from aop.core.ids import CommitId, TreeId
from aop.core.text.counts import count, list_some
from aop.core.text.visible import escape
from aop.forge.scan.file_facts import Language, LockFacts, ManifestFacts, SourceFacts
from aop.forge.scan.inventory import VENDORED, Inventory, ScanWarning, SourceFile
from aop.kernel.ports.git import FileMode
from aop.kernel.ports.handed_in import Report

CACHE = ".aop/scan.db"
GRAMMAR_PACKAGES = (
    "tree_sitter",
    "tree_sitter_go",
    "tree_sitter_java",
    "tree_sitter_javascript",
    "tree_sitter_python",
    "tree_sitter_rust",
    "tree_sitter_typescript",
)
MOST_WORKERS = 4
MOST_SETTINGS = 2_000
"""Files with settings in which secrets are looked for; more come only from programs."""
READMES = ("README.md", "README.rst", "README.txt", "README")
_README_BYTES = 16_384
_README_CHARACTERS = 500
_FILES_A_WORKER = 100
_KEPT_AT_ONCE = 1_000
_REPORTS = 10


class _Sorted(Struct):
    """The files of a tree by what is done with them."""

    sources: list[tuple[SizedEntry, Language]] = []
    settings: list[tuple[SizedEntry, Language]] = []
    manifests: list[SizedEntry] = []
    locks: list[SizedEntry] = []
    readmes: list[SizedEntry] = []
    paths: list[str] = []
    warnings: list[ScanWarning] = []
    vendored: dict[str, int] = {}
    unread: dict[str, str] = {}
    size: int = 0


class CommitScanner:
    """Implements `aop.forge.scan.ports.Scanner` for the managed repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._cache = FactsCache(repository.root / CACHE)

    def commit_named(self, ref: str) -> CommitId:
        try:
            return commit_named(self._repository.git, ref)
        except UnknownRef as unknown:
            # To git, a branch or an object that it may not open does not exist.
            if closed := closed_place(self._repository.root):
                raise FilesClosed(closed) from unknown
            raise

    def read(self, commit: CommitId, report: Report) -> Inventory:
        return replace(self.read_tree(self._repository.objects.tree_of(commit), report), commit=commit)

    def read_tree(self, tree: TreeId, report: Report) -> Inventory:
        if missing := [name for name in GRAMMAR_PACKAGES if find_spec(name) is None]:
            raise ForgeSupportMissing(f"Sources cannot be parsed: {list_some(missing)} not installed.")
        found = _sort(sized_entries(self._repository.git, tree))
        facts = self._facts(found, report)
        manifests = {
            shown_path(entry.path): read_manifest(entry.path, content)
            for entry, content in self._contents(found.manifests, found.warnings)
        }
        locks = {
            shown_path(entry.path): read_lock(entry.path, content)
            for entry, content in self._contents(found.locks, found.warnings)
        }
        readmes = [content for _, content in self._contents(found.readmes[:1], found.warnings)]
        sources, settings = _with_facts(found.sources, facts), _with_facts(found.settings, facts)
        return Inventory(
            sources=sources,
            settings=settings,
            manifests=manifests,
            locks=locks,
            paths=tuple(found.paths),
            readme=first_paragraph(readmes[0]) if readmes else "",
            bytes=found.size,
            unread=found.unread
            | {
                shown_path(entry.path): "unreadable"
                for entry, language in found.sources
                if (entry.oid, language) not in facts
            },
            warnings=(*found.warnings, *_problems(sources, manifests, locks)),
        )

    def _facts(self, found: _Sorted, report: Report) -> dict[tuple[str, Language], SourceFacts]:
        files = [*found.sources, *found.settings]
        keys = list(dict.fromkeys((entry.oid, language) for entry, language in files))
        facts = self._cache.known(keys)
        missing = [key for key in keys if key not in facts]
        known = sum((entry.oid, language) in facts for entry, language in found.sources)
        if known:
            report(f"{count(known, 'source file')} known from an earlier scan")
        step = max(500, len(missing) // _REPORTS)
        workers = min(MOST_WORKERS, os.cpu_count() or 1, 1 + len(missing) // _FILES_A_WORKER)
        kept: list[ParsedFile] = []
        for number, read in enumerate(read_all(self._unread(missing, found), workers=workers), start=1):
            facts[read.oid, read.language] = read.facts
            if not read.failed:
                kept.append(read)
            if len(kept) >= _KEPT_AT_ONCE:
                self._keep(kept)
            if number % step == 0:
                report(f"{number} of {count(len(missing), 'file')} read")
        self._keep(kept)
        return facts

    def _unread(self, missing: Sequence[tuple[str, Language]], found: _Sorted) -> Iterator[Unread]:
        languages: dict[str, list[Language]] = {}
        for oid, language in missing:
            languages.setdefault(oid, []).append(language)
        for oid, content in read_blobs(self._repository.git, list(languages)):
            for language in languages[oid]:
                if content is not None:
                    yield Unread(oid, language, content)
                else:
                    found.warnings.append(_unreadable(oid, found))

    def _keep(self, kept: list[ParsedFile]) -> None:
        if kept:
            self._cache.keep((each.oid, each.language, each.facts) for each in kept)
            self._cache.trim()
            kept.clear()

    def _contents(
        self, entries: Sequence[SizedEntry], warnings: list[ScanWarning]
    ) -> Iterator[tuple[SizedEntry, bytes]]:
        read = dict(read_blobs(self._repository.git, list(dict.fromkeys(entry.oid for entry in entries))))
        for entry in entries:
            content = read[entry.oid]
            if content is not None:
                yield entry, content
            else:
                warnings.append(_warning("unreadable", entry, "Git cannot read it, or its content is damaged."))


def _with_facts(
    files: Sequence[tuple[SizedEntry, Language]], facts: Mapping[tuple[str, Language], SourceFacts]
) -> tuple[SourceFile, ...]:
    return tuple(
        SourceFile(path=shown_path(entry.path), language=language, facts=known, is_test=is_test(entry.path))
        for entry, language in files
        if (known := facts.get((entry.oid, language))) is not None
    )


def first_paragraph(content: bytes) -> str:
    """Return the first paragraph of a README that is neither a heading nor a row of badges."""
    blocks = content[:_README_BYTES].decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n")
    plain = (" ".join(block.split()) for block in blocks)
    return next((text[:_README_CHARACTERS] for text in plain if text and text[0].isalnum()), "")


def _sort(entries: Iterator[SizedEntry]) -> _Sorted:
    found = _Sorted()
    for entry in entries:
        found.paths.append(shown_path(entry.path))
        found.size += entry.size
        if entry.mode is FileMode.GITLINK:
            found.warnings.append(_warning("submodule", entry, "Another repository; it is not read."))
        elif entry.mode in (FileMode.FILE, FileMode.EXECUTABLE):
            _sort_file(entry, found)
            _sort_settings(entry, found)
    found.warnings += [
        ScanWarning(code=VENDORED, file=folder, detail=f"{count(files, 'file')} of others, which are not read.")
        for folder, files in found.vendored.items()
    ]
    return found


def _sort_file(entry: SizedEntry, found: _Sorted) -> None:
    """Put a file where it belongs; what is too large is named, and never read."""
    language = language_of(entry.path)
    if is_vendored(entry.path):
        folder = shown_path(_vendored_folder(entry.path))
        found.vendored[folder] = found.vendored.get(folder, 0) + 1
        if language is not None:
            found.unread[shown_path(entry.path)] = VENDORED
    elif is_lock(entry.path):
        _add(entry, LARGEST_LOCK, found.locks, found)
    elif is_manifest(entry.path):
        _add(entry, LARGEST_MANIFEST, found.manifests, found)
    elif entry.path in READMES and entry.size <= LARGEST_MANIFEST:
        found.readmes.append(entry)
    elif language is not None and entry.size > LARGEST_SOURCE:
        found.warnings.append(_too_large(entry, LARGEST_SOURCE))
        found.unread[shown_path(entry.path)] = "too_large"
    elif language is not None:
        found.sources.append((entry, language))


def _sort_settings(entry: SizedEntry, found: _Sorted) -> None:
    """Put a file with settings where secrets are looked for, also one that is a manifest."""
    kind = settings_in(entry.path)
    is_own = kind is not None and not is_vendored(entry.path) and not is_lock(entry.path)
    if kind is not None and is_own and entry.size <= LARGEST_SETTINGS and len(found.settings) < MOST_SETTINGS:
        found.settings.append((entry, kind))


def _add(entry: SizedEntry, largest: int, kind: list[SizedEntry], found: _Sorted) -> None:
    if entry.size > largest:
        found.warnings.append(_too_large(entry, largest))
    else:
        kind.append(entry)


def _vendored_folder(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[: next(n for n in range(1, len(parts)) if is_vendored("/".join(parts[: n + 1])))])


def _too_large(entry: SizedEntry, largest: int) -> ScanWarning:
    return _warning("too_large", entry, f"It has {entry.size} bytes; at most {largest} are read.")


def _unreadable(oid: str, found: _Sorted) -> ScanWarning:
    entry = next(entry for entry, _ in (*found.sources, *found.settings) if entry.oid == oid)
    return _warning("unreadable", entry, "Git cannot read it, or its content is damaged.")


def _warning(code: str, entry: SizedEntry, detail: str) -> ScanWarning:
    return ScanWarning(code=code, file=shown_path(entry.path), detail=detail)


def _problems(
    sources: Sequence[SourceFile], manifests: dict[str, ManifestFacts], locks: dict[str, LockFacts]
) -> Iterator[ScanWarning]:
    for source in sources:
        if source.facts.problem:
            yield ScanWarning(code="not_parsed", file=source.path, detail=f"Not parsed: {source.facts.problem}.")
    problems = [(path, facts.problem) for path, facts in manifests.items()]
    problems += [(path, lock.problem) for path, lock in locks.items()]
    for path, problem in problems:
        if problem:
            yield ScanWarning(code="not_parsed", file=path, detail=f"Not read: {problem}.")


def shown_path(path: str) -> str:
    """Return a path as text without characters that steer a terminal; bytes that are no text are shown as `\\xNN`."""
    text = path if path.isascii() else bytes_of(path).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(each if each.isprintable() else escape(each) for each in text)
