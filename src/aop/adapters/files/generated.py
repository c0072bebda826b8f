"""Generated files: compared with what the code generates, and rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from aop.adapters.files.user_files import put_file
from aop.core.errors import InputPathNotFound, PathOutOfBounds


class Drift(Struct, frozen=True, kw_only=True):
    """A file that differs from what the code generates."""

    path: str
    how: Literal["missing", "different", "left over"]


def drift_of(root: Path, files: Mapping[str, bytes], *, folders: Iterable[str]) -> tuple[Drift, ...]:
    """Return the differences below a root, where no other schema may lie. Raises: PathOutOfBounds for a link out."""
    wrong = [found for path, content in files.items() if (found := _difference(root, path, content))]
    extra = [Drift(path=path, how="left over") for path in _schemas_in(root, folders) if path not in files]
    return tuple(sorted((*wrong, *extra), key=lambda drift: drift.path))


def rewrite_files(root: Path, drifted: Iterable[Drift], files: Mapping[str, bytes]) -> None:
    """Write the files that differ, and remove those left over. Raises: InputPathNotFound."""
    for drift in drifted:
        target = root / drift.path
        try:
            if drift.how == "left over":
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputPathNotFound(f"`{drift.path}` cannot be written: {error.strerror}.") from error
        put_file(target, files[drift.path], replace=drift.how == "different")


def _difference(root: Path, path: str, content: bytes) -> Drift | None:
    target = root / path
    if not target.parent.resolve().is_relative_to(root.resolve()):
        raise PathOutOfBounds(f"A link leads `{path}` out of its folder.", path=path)
    try:
        return None if target.read_bytes() == content else Drift(path=path, how="different")
    except OSError:
        return Drift(path=path, how="missing")


def _schemas_in(root: Path, folders: Iterable[str]) -> Iterator[str]:
    """Yield the schemas in the folders; other files there belong to the user."""
    for folder in folders:
        yield from (path.relative_to(root).as_posix() for path in (root / folder).rglob("*.schema.json"))
