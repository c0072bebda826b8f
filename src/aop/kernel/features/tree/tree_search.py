"""Tree search: the lines of a tree's files that hold a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from aop.core.errors import FileNotFound
from aop.core.ids import TreeId
from aop.core.paths.names import RepoPath
from aop.core.structs import copy_fields
from aop.core.text.search import FirstMatch, Match, first_match, matching_lines
from aop.kernel.features.trees import is_at_or_below
from aop.kernel.gateway.calls import Kernel
from aop.kernel.ports.git import FileMode, GitObjects, TreeEntry

LARGEST_FILE = 4 * 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024
MOST_TEXT = 256 * 1024
_BINARY_BYTES = 8000


class SearchRequest(Struct, frozen=True, kw_only=True):
    """A text to find in the files of a tree."""

    query: str
    regex: bool = False
    ignore_case: bool = False
    paths: tuple[RepoPath, ...] = ()
    """Files and folders to search; all by default."""
    wants: Callable[[str], bool] = lambda _path: True
    """Tells whether a file is searched."""
    max_matches: int = 200


class FileMatch(Match, frozen=True, kw_only=True):
    path: str


class FoundLines(Struct, frozen=True, kw_only=True):
    """The lines that match, and the files that were not searched."""

    matches: tuple[FileMatch, ...]
    truncated: bool
    binary_files: int
    large_files: tuple[str, ...]


def search_tree(kernel: Kernel, tree: TreeId, request: SearchRequest) -> FoundLines:
    """Return the lines of a tree that match. Raises: FileNotFound, InvalidArguments."""
    first = first_match(request.query, regex=request.regex, ignore_case=request.ignore_case)
    sought = _SearchRun(kernel, first, room=request.max_matches)
    for entry in _candidate_files(kernel.git.objects, tree, request):
        if not sought.look_into(entry):
            break
    return FoundLines(
        matches=tuple(sought.matches),
        truncated=sought.truncated,
        binary_files=sought.binary_files,
        large_files=tuple(sought.large_files),
    )


def _candidate_files(objects: GitObjects, tree: TreeId, request: SearchRequest) -> Iterator[TreeEntry]:
    """Yield the plain files that may match, in the tree's order."""
    paths = request.paths
    for path in paths:
        if objects.entry(tree, path) is None:
            raise FileNotFound(f"There is nothing at `{path}`.", path=path)
    literal = not (request.regex or request.ignore_case)
    likely = objects.files_with(tree, request.query) if literal else None
    for entry in objects.entries(tree):
        is_file = entry.mode in (FileMode.FILE, FileMode.EXECUTABLE)
        is_wanted = not paths or any(is_at_or_below(entry.path, path) for path in paths)
        is_likely = likely is None or entry.path in likely
        if is_file and is_wanted and _is_text(entry.path) and is_likely and request.wants(entry.path):
            yield entry


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


class _SearchRun:
    """The matches so far, and the limits that are left."""

    def __init__(self, kernel: Kernel, first: FirstMatch, *, room: int) -> None:
        self._git = kernel.git
        self._mask = kernel.redact.mask_secrets
        self._first = first
        self._room = room
        self._text_left = MOST_TEXT
        self._bytes_left = MOST_BYTES
        self.matches: list[FileMatch] = []
        self.truncated = False
        self.binary_files = 0
        self.large_files: list[str] = []

    def look_into(self, entry: TreeEntry) -> bool:
        """Add the matches of a file; tell whether there is room for those of another."""
        size = self._git.objects.blob_size(entry.oid)
        if size > LARGEST_FILE:
            self.large_files.append(self._mask(entry.path))
            return True
        self._bytes_left -= size
        if self._bytes_left < 0:
            self.truncated = True
            return False
        content = self._git.objects.blob(entry.oid)
        if b"\0" in content[:_BINARY_BYTES]:
            self.binary_files += 1
            return True
        text = content.decode(errors="replace").replace("\r\n", "\n")
        # Masking costs more than searching. A match that exists only in a secret is gone once it is masked.
        return self._first(text) is None or self._add_matches(self._mask(entry.path), self._mask(text))

    def _add_matches(self, path: str, text: str) -> bool:
        for match in matching_lines(text, self._first):
            self._text_left -= len(match.text)
            if len(self.matches) == self._room or self._text_left < 0:
                self.truncated = True
                return False
            self.matches.append(copy_fields(FileMatch, match, path=path))
        return True
