"""Reads a project from its base branch, and asks each known language for a guess at its gates."""

from __future__ import annotations

from collections.abc import Mapping

from aop.adapters.git.command import GitDir, GitProgram
from aop.adapters.git.repository import Repository
from aop.adapters.projects import python
from aop.adapters.projects.view import Guess, Language, Project
from aop.core.errors import BaseBranchUnusable
from aop.core.ids import TreeId
from aop.kernel.ports import FileMode, Git

LANGUAGES: tuple[Language, ...] = (Language(name="Python", reads=python.reads, guess=python.guess),)
"""The first that recognises a project guesses its gates."""

MOST_TEXTS = 40
LARGEST_TEXT = 256 * 1024
USUAL_BASES = ("main", "master")


def guess_gates(project: Project) -> tuple[Language, Guess] | None:
    """Return the first language that recognises the project, and its guess; None if none does."""
    guesses = ((language, language.guess(project)) for language in LANGUAGES)
    return next(((language, guess) for language, guess in guesses if guess is not None), None)


def read_project(git: Git, tree: TreeId) -> Project:
    """Read the names of all files of a tree, and the texts of the few that guesses depend on."""
    entries = {entry.path: entry for entry in git.entries(tree) if entry.mode in (FileMode.FILE, FileMode.EXECUTABLE)}
    wanted = [path for path in entries if any(language.reads(path) for language in LANGUAGES)]
    chosen = sorted(wanted, key=lambda path: (path.count("/"), path))[:MOST_TEXTS]
    small = [path for path in chosen if git.blob_size(entries[path].oid) <= LARGEST_TEXT]
    texts = {path: git.blob(entries[path].oid).decode("utf-8", "replace") for path in small}
    return Project(paths=frozenset(entries), texts=texts)


def checked_out_branch(repository: Repository, environ: Mapping[str, str]) -> str | None:
    """Return the branch that the user's checkout is on, even one without a commit; None if it is on none."""
    git = GitDir(
        GitProgram(environ),
        git_dir=repository.git_dir,
        work_tree=repository.root,
        environment={},
        root=repository.root,
    )
    ref = git.run("symbolic-ref", "--quiet", "HEAD", fine=(0, 1)).out.decode("utf-8", "replace").strip()
    return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None


def guess_base_branch(git: Git, checked_out: str | None) -> str:
    """Return the branch that features are cut from: main or master, the checkout's own first; else the checkout's own.

    Raises: BaseBranchUnusable if there is no commit, or no branch to choose.
    """
    candidates = sorted(USUAL_BASES, key=lambda branch: branch != checked_out)
    if checked_out is not None:
        candidates.append(checked_out)
    for branch in candidates:
        if git.branch_head(branch):
            return branch
    if checked_out is None:
        raise BaseBranchUnusable(
            "The checkout is on no branch, and there is neither `main` nor `master` to cut features from.",
            hint="Check out the branch that features are to be merged into, and run `aop init` again.",
        )
    raise BaseBranchUnusable(
        f"The branch `{checked_out}` has no commit yet, so there is nothing to cut features from.",
        hint="Commit something first, then run `aop init` again.",
        base_branch=checked_out,
    )
