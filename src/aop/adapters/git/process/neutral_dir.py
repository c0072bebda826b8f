"""Neutral git directory: AOP's own, with only the objects of the repository.

Git compares, merges, applies and writes file content here. The config, hooks, filters, drivers and attributes of the
managed repository are not read, so they can neither start a program nor change a byte.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from aop.adapters.files.locks import locked_file
from aop.adapters.files.own_folders import held_folder, own_folder
from aop.adapters.git.process.program import GitDir, GitProgram
from aop.core.errors import Fault

# Overrides any `.gitattributes`: files on disk are the bytes of the blob, no diff is hidden, no merge is changed.
ATTRIBUTES = b"* -text -ident !eol !filter !working-tree-encoding !diff !merge !whitespace !conflict-marker-size\n"
# Caches that tools hide with a `.gitignore` which is not part of the tree.
EXCLUDES = b".mypy_cache/\n.pytest_cache/\n.ruff_cache/\n"

_PARTS = {"info/attributes": ATTRIBUTES, "info/exclude": EXCLUDES}


def neutral_git_dir(program: GitProgram, *, root: Path, common: Path, object_format: str) -> GitDir:
    """Return the neutral git directory of a repository, and make it if it does not exist."""
    git_dir = own_folder(root, ".aop") / "git"
    if not _is_current(git_dir):
        with locked_file(own_folder(root, ".aop", "locks") / "git-neutral"):
            if not _is_current(git_dir):
                _make(program, root=root, git_dir=git_dir, object_format=object_format)
    return GitDir(
        program,
        git_dir=git_dir,
        work_tree=git_dir / "nothing",
        environment={
            "GIT_OBJECT_DIRECTORY": str(common / "objects"),
            "GIT_SHALLOW_FILE": str(common / "shallow"),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.excludesFile",
            "GIT_CONFIG_VALUE_0": str(common / "info" / "exclude"),
        },
        root=root,
    )


def _is_current(git_dir: Path) -> bool:
    try:
        return all((git_dir / name).read_bytes() == content for name, content in _PARTS.items())
    except FileNotFoundError:
        return False


def _make(program: GitProgram, *, root: Path, git_dir: Path, object_format: str) -> None:
    with held_folder(own_folder(root, ".aop", "tmp")) as folder:
        made = folder / "git"
        arguments = ["init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(made)]
        ran = program.run(arguments, cwd=folder, environment={})
        if ran.code != 0:
            raise Fault(f"`git init` ended with {ran.code}.")
        (made / "nothing").mkdir()
        (made / "info").mkdir()
        for name, content in _PARTS.items():
            (made / name).write_bytes(content)
        with suppress(FileNotFoundError):
            os.rename(git_dir, folder / "outdated")
        os.rename(made, git_dir)
