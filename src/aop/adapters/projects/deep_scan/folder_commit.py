"""Folder commit: files of a folder, committed to a repository for one check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aop.adapters.git.process.neutral_dir import ATTRIBUTES
from aop.adapters.git.process.program import CHECKOUT_SECONDS, GitProgram
from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import Fault
from aop.core.ids import CommitId, ObjectId

_EXCLUDES = b"/.aop/\n/.worktrees/\n/.git\n"


@contextmanager
def committed_folder(folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[Repository, CommitId]]:
    """Commit what a folder holds and does not ignore, into a repository beside all others; remove that afterwards."""
    program = GitProgram(environ)
    with TemporaryDirectory(prefix="aop-check-") as place:
        root = Path(place) / "repository"
        root.mkdir()
        _git(program, root, "init", "--quiet", "--template=", "--initial-branch=main", ".")
        info = root / ".git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_bytes(ATTRIBUTES)
        (info / "exclude").write_bytes(_EXCLUDES)
        _git(program, root, f"--work-tree={folder}", f"--git-dir={root / '.git'}", "add", "--all", cwd=folder)
        _git(program, root, "commit", "--quiet", "--allow-empty", "--message=The files as they are")
        commit = _git(program, root, "rev-parse", "HEAD").decode("ascii").strip()
        yield open_repository(root, environ), CommitId(ObjectId(commit))


def _git(program: GitProgram, root: Path, *words: str, cwd: Path | None = None) -> bytes:
    ran = program.run(list(words), cwd=cwd or root, environment={}, seconds=CHECKOUT_SECONDS)
    if ran.code != 0:
        raise Fault(f"Git could not read the files: {ran.err.strip()[:500]}")
    return ran.out
