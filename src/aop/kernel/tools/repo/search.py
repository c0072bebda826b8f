"""Tool `repo.search`: lines of a feature's tree that hold a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import FileNotFound
from aop.core.ids import TreeId
from aop.core.paths.names import RepoPath, canonical_path
from aop.core.structs import copy_fields
from aop.core.text.search import FirstMatch, Match, first_match, matching_lines
from aop.kernel.features.trees import is_at_or_below
from aop.kernel.gateway.calls import Call, FeatureArguments, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS
from aop.kernel.ports.git import FileMode, GitObjects, TreeEntry

LARGEST_FILE = 4 * 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024
MOST_MATCHES = 1000
MOST_TEXT = 256 * 1024
_BINARY_BYTES = 8000


class SearchArguments(FeatureArguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    """The text to find, literally unless `regex` is set."""
    regex: bool = False
    """Read the query as an RE2 pattern; `^` and `$` match the ends of a line."""
    ignore_case: bool = False
    """Ignore upper and lower case."""
    paths: Annotated[tuple[str, ...], Meta(max_length=200)] = ()
    """Files and folders to search; all by default."""
    max_matches: Annotated[int, Meta(ge=1, le=MOST_MATCHES)] = 200
    """The search ends after this many lines."""


class FileMatch(Match, frozen=True, kw_only=True):
    path: str


class SearchResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    tree: str
    matches: tuple[FileMatch, ...]
    """The lines that match, file by file."""
    truncated: bool
    """Whether there may be more matches; name `paths` to see the rest."""
    binary_files: int
    """How many files were not searched because they hold no text."""
    large_files: tuple[str, ...]
    """The files that were not searched because they are too large."""


def search(call: Call, arguments: SearchArguments) -> Outcome:
    """Find the lines of the feature's tree that hold a text, as `repo.read_file` shows them."""
    paths = tuple(canonical_path(path) for path in arguments.paths)
    first = first_match(arguments.query, regex=arguments.regex, ignore_case=arguments.ignore_case)
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
    return search_tree(call, state.tree, arguments, paths, first)


def search_tree(
    call: Call, tree: TreeId, arguments: SearchArguments, paths: tuple[RepoPath, ...], first: FirstMatch
) -> SearchResult:
    """Return the lines of a tree that match. Raises: FileNotFound."""
    sought = _SearchRun(call, first, room=arguments.max_matches)
    for entry in _candidate_files(call.kernel.git.objects, tree, paths, arguments):
        if not sought.look_into(entry):
            break
    return SearchResult(
        feature_id=arguments.feature_id,
        tree=tree,
        matches=tuple(sought.matches),
        truncated=sought.truncated,
        binary_files=sought.binary_files,
        large_files=tuple(sought.large_files),
    )


def _candidate_files(
    objects: GitObjects, tree: TreeId, paths: tuple[RepoPath, ...], arguments: SearchArguments
) -> Iterator[TreeEntry]:
    """Yield the plain files that may match, in the tree's order."""
    for path in paths:
        if objects.entry(tree, path) is None:
            raise FileNotFound(f"The tree of `{arguments.feature_id}` has nothing at `{path}`.", path=path)
    literal = not (arguments.regex or arguments.ignore_case)
    likely = objects.files_with(tree, arguments.query) if literal else None
    for entry in objects.entries(tree):
        is_file = entry.mode in (FileMode.FILE, FileMode.EXECUTABLE)
        is_wanted = not paths or any(is_at_or_below(entry.path, path) for path in paths)
        if is_file and is_wanted and _is_text(entry.path) and (likely is None or entry.path in likely):
            yield entry


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


class _SearchRun:
    """The matches so far, and the limits that are left."""

    def __init__(self, call: Call, first: FirstMatch, *, room: int) -> None:
        self._git = call.kernel.git
        self._mask = call.kernel.redact.mask_secrets
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


TOOLS = (
    Tool(
        name="repo.search",
        summary="Find the lines of the feature's files that hold a text, or match an RE2 pattern.",
        arguments=SearchArguments,
        output=SearchResult,
        roles=READERS,
        run=search,
    ),
)
