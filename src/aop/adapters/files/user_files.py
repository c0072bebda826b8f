"""User files: read from, or written whole to, a path that a person named."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from errno import ELOOP
from pathlib import Path
from stat import S_ISREG

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


def read_plain_file(path: Path, *, most: int) -> bytes | None:
    """Return at most so many bytes of a file, None if there is none; a link, a pipe or a device is not followed.

    Raises: InputPathNotFound.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = "it is a link" if error.errno == ELOOP else error.strerror
        raise InputPathNotFound(f"`{path}` cannot be read: {reason}.") from error
    try:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise InputPathNotFound(f"`{path}` cannot be read: it is not a plain file.")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def put_plain_file(path: Path, content: bytes) -> None:
    """Write a file whole, in place of one that is there, but not of a link, a pipe or a device.

    Raises: InputPathNotFound.
    """
    with suppress(FileNotFoundError):
        if not S_ISREG(os.lstat(path).st_mode):
            raise InputPathNotFound(f"`{path}` cannot be written: it is a link, or not a plain file.")
    put_file(path, content, replace=True)


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
