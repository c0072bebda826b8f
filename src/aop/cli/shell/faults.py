"""Keeps what is known of a breakage where a developer can find it, and shows a person only a reference."""

from __future__ import annotations

import errno
import os
import tempfile
import traceback
import uuid
from pathlib import Path

from aop.core.errors import InternalError
from aop.core.redaction.redactor import Redactor
from aop.wiring.build import Settings

UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT)


def kept_fault(fault: Exception, folder: str) -> InternalError:
    """Write the traceback, redacted, to a file of its own, if the disk takes it; return the answer that names it."""
    reference = uuid.uuid4().hex[:12]
    private = Path(folder).absolute() / ".aop"
    place = private / "faults" if private.is_dir() else Path(tempfile.gettempdir())
    path = place / f"aop-fault-{reference}.txt"
    text = Redactor(Settings.from_env(os.environ).secrets)("".join(traceback.format_exception(fault)))
    report = f"If it breaks again, `aop doctor` may say why; report it with `{path.name}` from `{place.name}`."
    refused = _refused_by_disk(fault)
    try:
        place.mkdir(exist_ok=True)
        path.write_text(text)
    except OSError as error:
        report = f"What is known of it could not be kept: {error.strerror}."
        refused = refused or error.strerror
    retry = f"the disk refuses to be written ({refused}); repair that, then send" if refused else "send"
    return InternalError(
        f"AOP broke while doing this ({type(fault).__name__}); reference `{reference}`.",
        hint=f"Nothing half-done is kept: {retry} the call again. {report}",
        reference=reference,
    )


def _refused_by_disk(fault: BaseException | None) -> str | None:
    """Return what the system says, if what broke is that a file could not be written."""
    while fault is not None:
        if isinstance(fault, OSError) and fault.errno in UNWRITABLE:
            return fault.strerror
        fault = fault.__cause__ or fault.__context__
    return None
