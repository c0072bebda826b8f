"""Parser of unified diffs, strict, and the canonical text that git gets."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from aop.core.paths.names import fold_path
from aop.kernel.patches.file_headers import FilePatch, scan_file
from aop.kernel.patches.file_names import git_spelling
from aop.kernel.patches.lines import PatchLines, PatchRules, invalid_patch
from aop.kernel.ports.git import FileMode


class Patch(Struct, frozen=True, kw_only=True):
    """A parsed diff: the change of each file, no file twice."""

    files: tuple[FilePatch, ...]


def parse_patch(text: bytes, rules: PatchRules) -> Patch:
    """Parse a text that is a diff from its first byte to its last. Raises: InvalidPatch, PathOutOfBounds."""
    lines = PatchLines(text, rules)
    files: list[FilePatch] = []
    names = _Names()
    while lines.skip_blank():
        at = lines.number
        if len(files) == rules.max_files:
            why = f"more than {rules.max_files} files are in one patch"
            raise invalid_patch(why, reason="too_many_files", line=at)
        files.append(scan_file(lines))
        names.add(files[-1], at)
    return Patch(files=tuple(files))


def render(patch: Patch) -> bytes:
    """Return the patch in canonical form, for `git apply --cached --unidiff-zero`."""
    return b"".join(line + b"\n" for file in patch.files for line in _render_file(file))


class _Names:
    """The names that a patch changes; each must mean one file on any file system."""

    def __init__(self) -> None:
        self._entered: dict[str, tuple[str, str]] = {}

    def add(self, patch: FilePatch, at: int) -> None:
        """Add the names of one file. Raises: InvalidPatch."""
        # The source of a copy is only read: it may be read again, or be changed elsewhere in the patch.
        changed = patch.paths - {patch.old_path} if patch.is_copy else patch.paths
        for path in sorted(changed):
            for end, character in enumerate(path):
                if character == "/":
                    self._enter(path[:end], "directory", at)
            self._enter(path, "file", at)

    def _enter(self, name: str, kind: str, at: int) -> None:
        spelled, known_as = self._entered.get(fold_path(name), (name, None))
        if spelled != name:
            why = f"`{name}` and `{spelled}` are one name where letter case does not count"
        elif known_as not in (None, kind):
            why = f"`{name}` is a file and a directory in one patch"
        elif known_as == "file":
            why = f"`{name}` is changed twice; put all of its hunks below one header"
        else:
            self._entered[fold_path(name)] = (name, kind)
            return
        raise invalid_patch(why, reason="names_collide", line=at, path=name)


def _render_file(file: FilePatch) -> Iterator[bytes]:
    old, new = str(file.old_path or file.new_path), str(file.new_path or file.old_path)
    yield b"diff --git " + git_spelling(f"a/{old}") + b" " + git_spelling(f"b/{new}")
    yield from _render_modes(file)
    if file.is_rename or file.is_copy:
        verb = b"rename" if file.is_rename else b"copy"
        yield verb + b" from " + git_spelling(old)
        yield verb + b" to " + git_spelling(new)
    if file.binary is not None:
        yield f"index {file.binary.old_oid}..{file.binary.new_oid}".encode()
        yield from (b"GIT binary patch", *file.binary.lines, b"")
    if file.hunks:
        yield b"--- " + (_render_name(f"a/{old}") if file.old_path else b"/dev/null")
        yield b"+++ " + (_render_name(f"b/{new}") if file.new_path else b"/dev/null")
    for hunk in file.hunks:
        yield f"{hunk.header} {hunk.section}".rstrip().encode()
        yield from hunk.lines


def _render_modes(file: FilePatch) -> Iterator[bytes]:
    if file.old_path is None:
        yield f"new file mode {file.new_mode or FileMode.FILE}".encode()
    elif file.new_path is None:
        yield f"deleted file mode {file.old_mode or FileMode.FILE}".encode()
    elif file.old_mode != file.new_mode:
        yield f"old mode {file.old_mode}".encode()
        yield f"new mode {file.new_mode}".encode()


def _render_name(name: str) -> bytes:
    # Like git: without the TAB, some programs would take a space for the end of the name.
    return git_spelling(name) + (b"\t" if " " in name else b"")
