"""Fault files: tracebacks of AOP's own defects; a person sees only a reference."""

from __future__ import annotations

import errno
import os
import tempfile
import traceback
import uuid
from pathlib import Path

from aop.adapters.files.closed_places import closed_place
from aop.adapters.storage.full_disk import causes, full_disk
from aop.core.errors import DiskFull, Fault, FilesClosed, InternalError, Refusal
from aop.core.redaction.redactor import Redactor
from aop.wiring.build import Settings

UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


def store_fault(fault: Exception, folder: str) -> Refusal:
    """Write the redacted traceback to a file, if the disk allows it; return the refusal that names the file.

    A fault in a repository with files that are closed to this user is theirs to repair, and nothing is stored.
    """
    if isinstance(fault, Fault | OSError) and (closed := closed_place(Path(folder).absolute())):
        return FilesClosed(closed)
    if full := full_disk(fault):
        return DiskFull(f"The disk cannot be written: {full}.")
    reference = uuid.uuid4().hex[:12]
    private = Path(folder).absolute() / ".aop"
    place = private / "faults" if private.is_dir() else Path(tempfile.gettempdir())
    path = place / f"aop-fault-{reference}.txt"
    text = Redactor(Settings.from_env(os.environ).secrets)("".join(traceback.format_exception(fault)))
    report = f"If it happens again, run `aop doctor`, or report it with `{path.name}` from `{place.name}`."
    refused = _refused_by_disk(fault)
    try:
        place.mkdir(exist_ok=True)
        path.write_text(text)
    except OSError as error:
        report = f"The traceback could not be stored: {error.strerror}."
        refused = refused or error.strerror
    retry = f"the disk cannot be written ({refused}); fix that, then repeat" if refused else "repeat"
    return InternalError(
        f"AOP failed unexpectedly ({type(fault).__name__}); reference `{reference}`.",
        hint=f"Nothing was left half done: {retry} the command. {report}",
        reference=reference,
    )


def _refused_by_disk(fault: Exception) -> str | None:
    """Return the system's reason, if the cause is a file that could not be written."""
    return next(
        (each.strerror for each in causes(fault) if isinstance(each, OSError) and each.errno in UNWRITABLE), None
    )
