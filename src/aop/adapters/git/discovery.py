"""Finds the repository that a folder belongs to."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from aop.adapters.git.command import GitProgram
from aop.adapters.git.records import text_of
from aop.core.errors import NotARepository


class FoundCheckout(Struct, frozen=True, kw_only=True):
    """The user's own checkout of a repository."""

    root: Path
    git_dir: Path
    object_format: str


def find_checkout(program: GitProgram, path: Path) -> FoundCheckout:
    """Return the main checkout of the repository that a folder lies in.

    Raises: NotARepository.
    """
    git_dir, common, object_format, top = _ask(program, path)
    if git_dir != common:
        # A linked worktree. The main one lies around the shared git directory, wherever git keeps a record of it.
        git_dir, main, object_format, top = _ask(program, Path(common).parent)
        if not git_dir == main == common:
            raise NotARepository(f"`{path}` is a worktree of a repository that has no checkout of its own.")
    return FoundCheckout(root=Path(top), git_dir=Path(common), object_format=object_format)


def _ask(program: GitProgram, path: Path) -> tuple[str, str, str, str]:
    # The owner of a mounted repository is often somebody else. What git fears there, it cannot do here: no hook, no
    # alias and no filter of that repository is ever run.
    arguments = (
        *("-c", "safe.directory=*", "rev-parse", "--path-format=absolute"),
        *("--git-dir", "--git-common-dir", "--show-object-format", "--show-toplevel"),
    )
    try:
        ran = program.run(arguments, cwd=path, environment={})
    except OSError as error:
        raise NotARepository(f"`{path}` is not a folder.") from error
    lines = text_of(ran.out).splitlines()
    if ran.code != 0 or len(lines) != 4:
        raise NotARepository(f"`{path}` is not in a git repository with a work tree.")
    git_dir, common, object_format, top = lines
    return git_dir, common, object_format, top
