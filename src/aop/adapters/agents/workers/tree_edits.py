"""Tree edits: the tools with which a model reads and changes a scratch tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from aop.brains.conversation import Offer
from aop.brains.shapes import schema_of
from aop.core.errors import FileNotFound, InvalidArguments, PathOutOfBounds
from aop.core.paths.names import canonical_path
from aop.core.text.counts import count

LARGEST_FILE = 1024 * 1024
NamedPath = Annotated[str, Meta(description="A path from the root of the tree, such as `src/app.py`.")]


class ReadFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read a file as it is now, with your changes."""

    path: NamedPath


class ListFolder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """List the entries of a folder; the root is an empty path."""

    path: str = ""


class WriteFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Write a whole file, new or replaced."""

    path: NamedPath
    content: str


class ReplaceText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replace a text that occurs exactly once in a file."""

    path: NamedPath
    old: str
    new: str


class DeleteFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Delete a file."""

    path: NamedPath


class TreeEdits:
    """The files of one tree."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tools: Mapping[str, tuple[type[Struct], Callable[[Any], str]]] = {
            "tree.list_folder": (ListFolder, self._list),
            "tree.read_file": (ReadFile, self._read),
            "tree.write_file": (WriteFile, self._write),
            "tree.replace_text": (ReplaceText, self._replace),
            "tree.delete_file": (DeleteFile, self._delete),
        }

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Return the tools that the model is shown."""
        return tuple(
            Offer(name=name, description=str(shape.__doc__), schema=schema_of(shape))
            for name, (shape, _) in self._tools.items()
        )

    def execute(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Carry out one call. Raises: InvalidArguments, PathOutOfBounds, FileNotFound."""
        shape, carry_out = self._tools[name]
        try:
            given = msgspec.convert(arguments, shape)
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"The arguments of `{name}` do not fit: {error}.") from error
        return carry_out(given)

    def _list(self, given: ListFolder) -> str:
        folder = self._within(given.path) if given.path else self._folder
        if not folder.is_dir():
            raise FileNotFound(f"There is no folder `{given.path}`.")
        names = [f"{path.name}/" if path.is_dir() else path.name for path in folder.iterdir() if path.name != ".git"]
        return "\n".join(sorted(names))

    def _read(self, given: ReadFile) -> str:
        path = self._within(given.path)
        if not path.is_file():
            raise FileNotFound(f"There is no file `{given.path}`.")
        if path.stat().st_size > LARGEST_FILE:
            raise InvalidArguments(f"`{given.path}` has more than {LARGEST_FILE} bytes.")
        try:
            return path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise InvalidArguments(f"`{given.path}` is not valid UTF-8.") from error

    def _write(self, given: WriteFile) -> str:
        path = self._within(given.path)
        data = given.content.encode(errors="replace")
        if len(data) > LARGEST_FILE:
            raise InvalidArguments(f"`{given.path}` would have more than {LARGEST_FILE} bytes.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise InvalidArguments(
                f"`{given.path}` cannot be a file: a folder has that name, or a file has the name of its folder."
            ) from error
        return f"Wrote {len(data)} bytes to `{given.path}`."

    def _replace(self, given: ReplaceText) -> str:
        text = self._read(ReadFile(path=given.path))
        found = text.count(given.old) if given.old else 0
        if found != 1:
            raise InvalidArguments(
                f"The text occurs {count(found, 'time')} in `{given.path}`, not once.",
                hint="Give more of the surrounding text.",
            )
        return self._write(WriteFile(path=given.path, content=text.replace(given.old, given.new)))

    def _delete(self, given: DeleteFile) -> str:
        path = self._within(given.path)
        if not path.is_file():
            raise FileNotFound(f"There is no file `{given.path}`.")
        path.unlink()
        return f"Deleted `{given.path}`."

    def _within(self, text: str) -> Path:
        """Return the file of a path; paths through links are refused. Raises: PathOutOfBounds."""
        path = self._folder / canonical_path(text)
        above = [path, *path.parents]
        if any(each.is_symlink() for each in above[: above.index(self._folder)]):
            raise PathOutOfBounds(f"`{text[:200]}` leads through a link.")
        return path
