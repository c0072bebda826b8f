"""Archives: several files written as one archive or folder, whole or not at all."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from aop.adapters.files.user_files import put_file
from aop.core.errors import InputPathNotFound, InvalidCliArgs

ARCHIVES = (".tar.gz", ".tgz")
SUMS = "SHA256SUMS"


def add_checksums(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Add the file of checksums that `sha256sum -c` reads."""
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
    return {**files, SUMS: sums.encode()}


def put_files(path: Path, files: Mapping[str, bytes], *, folder: str) -> None:
    """Write files as an archive or a folder, by the path's name. Raises: InvalidCliArgs, InputPathNotFound."""
    if os.path.lexists(path):
        raise InvalidCliArgs(f"`{path}` already exists.", hint="Name another path with `--output`, or move it away.")
    if path.name.endswith(ARCHIVES):
        put_file(path, pack_archive(files, folder=folder), replace=False)
    else:
        put_folder(path, files)


def pack_archive(files: Mapping[str, bytes], *, folder: str) -> bytes:
    """Return a compressed archive; the same files always give the same bytes."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mode, member.mtime = len(content), 0o644, 0
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def put_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files as a new folder, or into an empty one. Raises: InvalidCliArgs, InputPathNotFound."""
    beside = path.with_name(f".aop-{uuid.uuid4().hex}.tmp")
    try:
        for name, content in files.items():
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            (beside / name).write_bytes(content)
        # Nothing but an empty folder is replaced.
        os.rename(beside, path)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR) and os.path.lexists(path):
            hint = "Name a new folder, or empty this one."
            raise InvalidCliArgs(f"`{path}` already exists and is not an empty folder.", hint=hint) from error
        raise InputPathNotFound(f"`{path}` cannot be written: {error.strerror}.") from error
