"""First commit of the configuration: the person's own git, and only these files."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from aop.adapters.machine.own_environment import hidden_folders, without_folders

MESSAGE = "Let AOP manage this repository"
SECONDS = 300
# The places that a hook or a shell may have set for another repository.
_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


class CommitRefused(Exception):
    """Git did not make the commit, with the reason; the index is as before."""


def commit_files(root: Path, paths: Sequence[str], environ: Mapping[str, str]) -> str:
    """Commit these new files and nothing else, as the person would; return the commit. Raises: CommitRefused."""
    # The project's hooks run as well.
    visible = without_folders(environ, hidden_folders(root))
    env = {name: value for name, value in visible.items() if name not in _PLACES} | {"GIT_LITERAL_PATHSPECS": "1"}
    _git(root, env, "add", "--", *paths)
    try:
        _git(root, env, "commit", "--quiet", "--message", MESSAGE, "--only", "--", *paths)
    except CommitRefused:
        _git(root, env, "rm", "--quiet", "--cached", "--", *paths)
        raise
    return _git(root, env, "rev-parse", "HEAD")


def _git(root: Path, env: Mapping[str, str], *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=root,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise CommitRefused(f"`git {words[0]}` did not end within {SECONDS} s.") from expired
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise CommitRefused(f"`git {words[0]}` said: {said[:2000]}")
    return done.stdout.decode("utf-8", "replace").strip()
