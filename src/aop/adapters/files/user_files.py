"""User files: read from, or written whole to, a path that a person named."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path

from aop.core.errors import InputPathNotFound, InvalidCliArgs

MOST_BYTES = 8 * 1024 * 1024
"""The most that is read of a file that a person named."""


def read_text(path: Path) -> str:
    """Return the text of a file. Raises: InputPathNotFound, InvalidCliArgs if it is not UTF-8 or too large."""
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is not valid"
        raise InputPathNotFound(f"`{path}` cannot be read: {reason}.") from error
    if len(data) > MOST_BYTES:
        raise InvalidCliArgs(f"`{path}` has more than {MOST_BYTES} bytes.", hint="Name a smaller file.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidCliArgs(f"`{path}` is not UTF-8.") from error


def put_file(path: Path, content: bytes, *, replace: bool) -> None:
    """Write a new file: beside it, flushed, then moved. Raises: InvalidCliArgs if it exists, InputPathNotFound."""
    beside = path.with_name(f".aop-{uuid.uuid4().hex}.tmp")
    try:
        with open(beside, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(beside, path)
        else:
            # A link, unlike a rename, never replaces a file that appeared meanwhile.
            os.link(beside, path)
    except FileExistsError as error:
        raise InvalidCliArgs(f"`{path}` already exists.", hint="Pass `--force` to replace it.") from error
    except OSError as error:
        raise InputPathNotFound(f"`{path}` cannot be written: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            os.unlink(beside)
