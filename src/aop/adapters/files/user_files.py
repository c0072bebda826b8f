"""Files that a person asked for by name: written whole or not at all, and never over another one by accident."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path

from aop.core.errors import InputPathNotFound, InvalidCliArgs


def put_file(path: Path, content: bytes, *, replace: bool) -> None:
    """Put the content at a path: written beside, fsynced, then moved there in one step.

    Raises: InvalidCliArgs if something is there already, InputPathNotFound if it cannot be written there.
    """
    beside = path.with_name(f".aop-{uuid.uuid4().hex}.tmp")
    try:
        with open(beside, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(beside, path)
        else:
            # A link, unlike a rename, never takes the place of a file that came in between.
            os.link(beside, path)
    except FileExistsError as error:
        raise InvalidCliArgs(f"`{path}` is there already.", hint="Pass `--force` to replace it.") from error
    except OSError as error:
        raise InputPathNotFound(f"`{path}` cannot be written: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            os.unlink(beside)
