"""User files: written whole to a path that a person named, or not at all."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path

from aop.core.errors import InputPathNotFound, InvalidCliArgs


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
