"""Write tools: `write_file` and `edit_file`, judged like a patch."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from aop.core.errors import FileNotCited, FileNotFound, InvalidArguments, InvalidPatch, PatchDoesNotApply
from aop.core.ids import TreeId
from aop.core.paths.names import RepoPath, exact_path
from aop.core.roles import Role
from aop.core.text.counts import count
from aop.forge.builds.workspace.build_workspace import OpenBuild, held_build
from aop.forge.builds.workspace.judged_tree import LARGEST_FILE, judged_files, store_tree
from aop.kernel.features.trees import is_free_in
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool
from aop.kernel.patches.checks import refuse_secret_name
from aop.kernel.ports.git import FileContent, FileMode, GitObjects
from aop.kernel.record.port import Transaction

WRITERS = frozenset({Role.FORGE_BUILDER, Role.CODER, Role.SYSTEM})
EDITORS = WRITERS | {Role.FIXER}


class WriteFile(Arguments, frozen=True, kw_only=True):
    path: str
    """The path from the root of the workspace."""
    content: str
    """The whole new content."""


class Edit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old: Annotated[str, Meta(min_length=1)]
    """A text that the file holds exactly once."""
    new: str
    """The text in its place."""


class EditFile(Arguments, frozen=True, kw_only=True):
    path: str
    """The path from the root of the workspace."""
    edits: Annotated[tuple[Edit, ...], Meta(min_length=1, max_length=200)]
    """The edits, one after the other; all of them or none."""


class FileWritten(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    path: str
    """The file."""
    changed: bool
    """Whether the content differs from before."""
    created: bool
    """Whether the file is new."""
    bytes: int
    """The size of the file."""
    tree: str
    """The tree of the build from now on."""
    version: int
    """The number of changes in this workspace."""


def write_file(call: Call, arguments: WriteFile) -> Outcome:
    """Put a file into the build's tree, in place of the one that was there."""
    path = _named(call.kernel, arguments.path)
    content = _bytes(arguments.content, "content")
    with held_build(call) as build:
        return _store(call, build, path, _file_at(call.kernel.git.objects, build.state.tree, path), content)


def edit_file(call: Call, arguments: EditFile) -> Outcome:
    """Replace texts of a file, each of which it holds exactly once."""
    path = _named(call.kernel, arguments.path)
    with held_build(call) as build:
        _refuse_uncited(call, build, path)
        known = _file_at(call.kernel.git.objects, build.state.tree, path)
        if known is None:
            raise FileNotFound(f"There is no file `{path}`.", path=path)
        return _store(call, build, path, known, edited(known[1], arguments.edits, path))


def _refuse_uncited(call: Call, build: OpenBuild, path: RepoPath) -> None:
    """Refuse a fixer that changes a file which no finding cites. Raises: FileNotCited."""
    cited = sorted({each.file_path for each in build.cycle.current.crew.findings})
    if call.principal.role is Role.FIXER and path not in cited:
        raise FileNotCited(f"No finding cites `{path}`. Cited: {', '.join(cited) or 'none'}.", path=path)


def edited(content: bytes, edits: tuple[Edit, ...], path: str) -> bytes:
    """Return a content after edits. Raises: PatchDoesNotApply, InvalidArguments."""
    for number, edit in enumerate(edits, start=1):
        old, new = _bytes(edit.old, "old"), _bytes(edit.new, "new")
        found = content.count(old)
        if found != 1:
            raise PatchDoesNotApply(
                f"Edit {number} of `{path}` does not apply: the file holds its `old` text {count(found, 'time')}."
                " Nothing was changed.",
                hint="Read the file again, and give enough of the lines around the place that they occur once.",
                path=path,
                edit=number,
                found=found,
            )
        content = content.replace(old, new)
    return content


def _store(call: Call, build: OpenBuild, path: RepoPath, known: FileContent | None, content: bytes) -> Outcome:
    mode = FileMode.FILE if known is None else known[0]
    judged = judged_files(call, build.state, {path: (mode, content)})
    call.kernel.send_work(judged.after)

    def decide(tx: Transaction) -> Outcome:
        stored = store_tree(tx, call, build.cycle, judged)
        return FileWritten(
            build_id=build.cycle.build_id,
            path=path,
            changed=bool(judged.changes),
            created=known is None,
            bytes=len(content),
            tree=stored.tree,
            version=stored.version,
        )

    return call.commit(decide)


def _named(kernel: Kernel, text: str) -> RepoPath:
    """Return the path of a file to write. Raises: PathOutOfBounds, SecretDetected."""
    refuse_secret_name(text, kernel.redact)
    return exact_path(text.removeprefix("./"))


def _file_at(objects: GitObjects, tree: TreeId, path: str) -> FileContent | None:
    """Return the plain file at a path; None if the path is free. Raises: InvalidPatch."""
    entry = objects.entry(tree, path)
    if entry is not None and entry.mode in (FileMode.FILE, FileMode.EXECUTABLE):
        return entry.mode, objects.blob(entry.oid)
    if entry is not None or not is_free_in(objects, tree, path):
        raise InvalidPatch(f"`{path}` is not a plain file, or lies below one or below a link.", path=path)
    return None


def _bytes(text: str, name: str) -> bytes:
    """Return a text as bytes. Raises: InvalidArguments."""
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments(f"`{name}` is not Unicode text: {error.reason}.") from error
    if len(content) > LARGEST_FILE:
        raise InvalidArguments(
            f"`{name}` has {len(content):,} bytes, and a file has at most {LARGEST_FILE:,}.",
            hint="Split the file, or leave generated data out of the repository.",
        )
    return content


TOOLS = (
    Tool(
        name="write_file",
        summary="Write a file of your build, whole.",
        arguments=WriteFile,
        output=FileWritten,
        roles=WRITERS,
        run=write_file,
        mutates=True,
        lean=True,
    ),
    Tool(
        name="edit_file",
        summary="Replace texts in a file of your build; each `old` must occur exactly once.",
        arguments=EditFile,
        output=FileWritten,
        roles=EDITORS,
        run=edit_file,
        mutates=True,
        lean=True,
    ),
)
