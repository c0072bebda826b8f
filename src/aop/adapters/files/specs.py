"""Spec files on disk: found by name or below a folder, and read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from aop.core.errors import InputPathNotFound, InvalidCliArgs, SpecIngestFailed

LARGEST_SPEC = 256 * 1024


def named_spec(path: Path, root: Path) -> dict[str, Path]:
    """Return one spec file by its name. Raises: InputPathNotFound, InvalidCliArgs."""
    if not path.exists():
        raise InputPathNotFound(f"There is no file `{path}`.", path=str(path))
    if not path.is_file():
        raise InvalidCliArgs(f"`{path}` is not a file.", hint="Name a folder of specs with `-fl`.", path=str(path))
    return {_name(path, root): path}


def specs_below(folder: Path, root: Path) -> dict[str, Path]:
    """Return the Markdown files below a folder, none hidden, sorted. Raises: InputPathNotFound, InvalidCliArgs."""
    if not folder.exists():
        raise InputPathNotFound(f"There is no folder `{folder}`.", path=str(folder))
    if not folder.is_dir():
        raise InvalidCliArgs(f"`{folder}` is not a folder.", hint="Name one spec with `-fi`.", path=str(folder))
    return {_name(path, root): path for path in sorted(_markdown(folder))}


def read_spec(path: Path) -> str:
    """Return the text of a spec. Raises: SpecIngestFailed."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise SpecIngestFailed(f"`{path.name}` cannot be read: {error.strerror}.", path=path.name) from error
    except UnicodeDecodeError as error:
        raise SpecIngestFailed(f"`{path.name}` is not UTF-8.", path=path.name) from error
    if len(data) > LARGEST_SPEC:
        raise SpecIngestFailed(f"`{path.name}` has more than {LARGEST_SPEC} bytes.", path=path.name)
    if not text.strip():
        raise SpecIngestFailed(f"`{path.name}` is empty.", path=path.name, hint="Describe the feature in it.")
    return text


def _markdown(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent) / name for name in names if name.endswith(".md") and not name.startswith("."))


def _name(path: Path, root: Path) -> str:
    """Return the path from the root of the repository, or the plain name of a file outside of it."""
    absolute = path.absolute()
    real = absolute.parent.resolve() / absolute.name
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else path.name
