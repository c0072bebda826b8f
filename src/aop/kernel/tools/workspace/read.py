"""Read tools: `read_file`, `list_directory`, `search_code` in a workspace."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct

from aop.core.errors import FileNotFound, InvalidArguments
from aop.core.paths import globs
from aop.core.paths.names import canonical_path
from aop.core.roles import Role
from aop.kernel.features.tree.tree_search import SearchRequest, search_tree
from aop.kernel.features.trees import masked_bytes, masked_names, text_or_base64
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.gateway.workspaces import Workspace

READERS = frozenset(
    {Role.SWE, Role.FORGE_BUILDER, Role.SCOUT, Role.CODER, Role.AUDITOR, Role.FIXER, Role.SYSTEM},
)
T = TypeVar("T")
Text = Annotated[str, Meta(min_length=1, max_length=1000)]


class ReadFile(Arguments, frozen=True, kw_only=True):
    file_path: str | None = None
    """The path from the root of the workspace."""
    path: str | None = None
    """The same as `file_path`."""


class FileState(Struct, frozen=True, kw_only=True):
    file_path: str
    """The path from the root of the workspace."""
    version: int
    """The number of changes in this workspace."""
    sha256: str
    """The hash of the whole content; for a missing file, of empty content."""
    content: str
    """The content, in this encoding; secrets are masked."""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    """The encoding of `content`: text, or base64 if the file is not UTF-8."""
    exists: bool = True
    """Whether the file exists."""
    truncated: bool = False


class FileRead(FileState, frozen=True, kw_only=True):
    next_call: str = ""
    """The next call; empty if there is no order."""


class ListDirectory(Arguments, frozen=True, kw_only=True):
    path: str = ""
    """A folder; empty for the root."""


class DirectoryListed(Struct, frozen=True, kw_only=True):
    path: str
    """The folder."""
    entries: tuple[str, ...]
    """The names; those of folders end with `/`."""
    next_call: str = ""
    """The next call; empty if there is no order."""


class SearchCode(Arguments, frozen=True, kw_only=True):
    query: Text | None = None
    """The text to find, taken literally unless `regex` is set."""
    pattern: Text | None = None
    """An RE2 pattern to find, in place of `query`."""
    regex: bool = False
    """Read `query` as an RE2 pattern."""
    paths: Annotated[tuple[str, ...], Meta(max_length=200)] | None = None
    """The files and folders to search; without them, all."""
    glob: Annotated[str, Meta(min_length=1, max_length=globs.MAX_LENGTH)] | None = None
    """The files to search, such as `src/**/*.py`, in place of `paths`."""


class Line(Struct, frozen=True, kw_only=True):
    path: str
    """The file."""
    line: int
    """The number of the line, from 1."""
    text: str
    """The line; secrets are masked."""


class CodeFound(Struct, frozen=True, kw_only=True):
    matches: tuple[Line, ...]
    """The lines that match, file by file."""
    truncated: bool
    next_call: str = ""
    """The next call; empty if there is no order."""


@contextmanager
def _workspace(call: Call) -> Iterator[Workspace]:
    with call.kernel.record.read() as view:
        yield call.kernel.workspace_of(view, call.principal)


def state_of(kernel: Kernel, workspace: Workspace, path: str, content: bytes | None) -> FileState:
    """Return a file's state for an answer."""
    shown = masked_bytes(content or b"", kernel.redact)
    text, encoding = text_or_base64(shown[: workspace.largest_read])
    return FileState(
        file_path=kernel.redact.mask_secrets(path),
        version=workspace.version,
        sha256=hashlib.sha256(content or b"").hexdigest(),
        content=text,
        encoding="utf-8" if encoding == "utf-8" else "base64",
        exists=content is not None,
        truncated=len(shown) > workspace.largest_read,
    )


def read_file(call: Call, arguments: ReadFile) -> Outcome:
    """Read a file, with the hash of its content."""
    path = canonical_path(_either("file_path", arguments.file_path, "path", arguments.path))
    with _workspace(call) as workspace:
        content = workspace.content(call.kernel.git.objects, path)
        if content is None:
            missing = call.kernel.redact.mask_secrets(path)
            raise FileNotFound(f"There is no file `{missing}`.", path=missing)
        shown = state_of(call.kernel, workspace, path, content)
        fields = {name: getattr(shown, name) for name in FileState.__struct_fields__}
        return FileRead(**fields, next_call=workspace.next_call)


def list_directory(call: Call, arguments: ListDirectory) -> Outcome:
    """List a folder."""
    path = canonical_path(arguments.path) if arguments.path not in ("", ".", "./") else ""
    with _workspace(call) as workspace:
        names = workspace.names(call.kernel.git.objects, path)
        if not names and path:
            raise FileNotFound(f"There is no folder `{path}`.", path=path)
        shown = tuple(masked_names(names, call.kernel.redact))
        return DirectoryListed(path=path, entries=shown, next_call=workspace.next_call)


def search_code(call: Call, arguments: SearchCode) -> Outcome:
    """Find the lines that hold a text or match an RE2 pattern."""
    if arguments.paths is not None and arguments.glob is not None:
        raise InvalidArguments("Give `paths` or `glob`, not both.")
    query = _either("query", arguments.query, "pattern", arguments.pattern)
    with _workspace(call) as workspace:
        request = SearchRequest(
            query=query,
            regex=arguments.regex or arguments.pattern is not None,
            paths=tuple(canonical_path(path) for path in arguments.paths or ()),
            wants=_wanted(arguments.glob),
            max_matches=workspace.most_matches,
        )
        found = search_tree(call.kernel, workspace.tree, request)
        lines = tuple(Line(path=each.path, line=each.line, text=each.text) for each in found.matches)
        return CodeFound(matches=lines, truncated=found.truncated, next_call=workspace.next_call)


def _either(name: str, value: T | None, other_name: str, other: T | None) -> T:
    """Return the one of two spellings of an argument that was given. Raises: InvalidArguments."""
    given = [each for each in (value, other) if each is not None]
    if len(given) != 1:
        raise InvalidArguments(f"Give `{name}` or `{other_name}`, and only one of them.")
    return given[0]


def _wanted(glob: str | None) -> Callable[[str], bool]:
    """Return what tells the files that a glob names; one without `/` names files in every folder."""
    if glob is None:
        return lambda _path: True
    pattern = "/".join(globs.collapse_gaps((glob if "/" in glob else f"{globs.GAP}/{glob}").split("/")))
    if flaw := globs.flaw_in(pattern.split("/")):
        raise InvalidArguments(f"`glob` cannot be used: {flaw}.")
    return lambda path: globs.matches(pattern, path)


TOOLS = (
    Tool(
        name="read_file",
        summary="Read a file of your workspace, with the hash of its content.",
        arguments=ReadFile,
        output=FileRead,
        roles=READERS,
        run=read_file,
        lean=True,
    ),
    Tool(
        name="list_directory",
        summary="List a folder of your workspace.",
        arguments=ListDirectory,
        output=DirectoryListed,
        roles=READERS,
        run=list_directory,
        lean=True,
    ),
    Tool(
        name="search_code",
        summary="Find the lines of your workspace that hold a text, or match an RE2 pattern.",
        arguments=SearchCode,
        output=CodeFound,
        roles=READERS,
        run=search_code,
        lean=True,
    ),
)
