"""Folder commit: files of a folder, committed to a repository for one check."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from tempfile import TemporaryDirectory

from aop.adapters.git.process.neutral_dir import ATTRIBUTES
from aop.adapters.git.process.program import CHECKOUT_SECONDS, GitProgram
from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import Fault
from aop.core.ids import CommitId, ObjectId

_EXCLUDED = ("--exclude=/.aop/", "--exclude=/.worktrees/", "--exclude=/.git", "--exclude=__pycache__/*.pyc")
"""Untracked files that are never code of the project. A tracked file is never left out."""


@contextmanager
def committed_folder(folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[Repository, CommitId]]:
    """Commit the files of a folder into a repository beside all others; remove that afterwards.

    A rule of `.gitignore` hides no file that git tracks, and in a folder that git does not track it hides nothing.
    """
    program = GitProgram(environ)
    with TemporaryDirectory(prefix="aop-check-") as place:
        root = Path(place) / "repository"
        root.mkdir()
        _git(program, root, "init", "--quiet", "--template=", "--initial-branch=main", ".")
        info = root / ".git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_bytes(ATTRIBUTES)
        in_folder = (f"--work-tree={folder}", f"--git-dir={root / '.git'}")
        names = _tracked_and_new(program, folder) or _split(
            _git(program, folder, *in_folder, "ls-files", "-z", "--others", *_EXCLUDED)
        )
        files = b"".join(name + b"\0" for name in dict.fromkeys(names) if _is_file(os.fsencode(folder), name))
        _git(program, folder, *in_folder, "update-index", "--add", "-z", "--stdin", stdin=files)
        _git(program, root, "commit", "--quiet", "--allow-empty", "--message=The files as they are")
        commit = _git(program, root, "rev-parse", "HEAD").decode("ascii").strip()
        yield open_repository(root, environ), CommitId(ObjectId(commit))


def _tracked_and_new(program: GitProgram, folder: Path) -> list[bytes]:
    """Return the files that the folder's own repository tracks, and new ones that it does not ignore."""
    tracked = program.run(["ls-files", "-z", "--cached"], cwd=folder, environment={}, seconds=CHECKOUT_SECONDS)
    if tracked.code != 0 or not tracked.out:
        return []
    new = _git(program, folder, "ls-files", "-z", "--others", "--exclude-standard", *_EXCLUDED)
    return _split(tracked.out) + _split(new)


def _is_file(folder: bytes, name: bytes) -> bool:
    """Tell whether a name is that of a file or a link, and no folder above it is a link."""
    path = os.path.join(folder, name)
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    above = os.path.dirname(path)
    return (S_ISREG(mode) or S_ISLNK(mode)) and os.path.realpath(above) == above


def _split(names: bytes) -> list[bytes]:
    return names.split(b"\0")[:-1]


def _git(program: GitProgram, cwd: Path, *words: str, stdin: bytes = b"") -> bytes:
    ran = program.run(list(words), cwd=cwd, environment={}, stdin=stdin, seconds=CHECKOUT_SECONDS)
    if ran.code != 0:
        raise Fault(f"Git could not read the files: {ran.err.strip()[:500]}")
    return ran.out
