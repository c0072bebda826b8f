"""Program hashes: the installed programs that a gate verdict depends on."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable


def programs_hash(programs: Iterable[str], path: str) -> str:
    """Return a hash of the files of programs, with size and time; a new toolchain changes it."""
    digest = hashlib.sha256()
    for program in sorted(set(programs)):
        # A relative path leads nowhere: the kernel names programs of a worktree by their absolute paths.
        found = shutil.which(program, path=path) if os.path.isabs(program) or os.sep not in program else None
        digest.update(f"\0{program}\0{_installed_file(found)}".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _installed_file(found: str | None) -> str:
    if found is None:
        return "not on the path"
    file = os.path.realpath(found)
    status = os.stat(file)
    return f"{file}:{status.st_size}:{status.st_mtime_ns}"
