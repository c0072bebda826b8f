"""Sample repository: a temporary repository for `aop demo`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from aop.adapters.git.process.program import GitDir, GitProgram

NAME, EMAIL = "Demo Person", "demo@example.org"
IDENTITY = {
    "GIT_AUTHOR_NAME": NAME,
    "GIT_AUTHOR_EMAIL": EMAIL,
    "GIT_COMMITTER_NAME": NAME,
    "GIT_COMMITTER_EMAIL": EMAIL,
}


class SampleRepository:
    """A repository with a working tree and its own git user; the settings of this machine's user are ignored."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self.root = root
        self._git = GitDir(GitProgram(environ), git_dir=root / ".git", work_tree=root, environment=IDENTITY, root=root)

    def make(self, files: Mapping[str, bytes]) -> None:
        """Create the repository, with these files in the first commit of `main`."""
        self.root.mkdir()
        self._git.run("init", "--quiet", "--template=", "--initial-branch=main")
        self._git.run("config", "user.name", NAME)
        self._git.run("config", "user.email", EMAIL)
        for path, content in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(content)
        self.commit("A small shop")

    def commit(self, message: str) -> None:
        """Commit all files of the working tree."""
        self._git.run("add", "--all")
        self._git.run("commit", "--quiet", "--message", message)

    def history(self, branch: str) -> str:
        """Return the commits of a branch as a graph."""
        return self._git.run("log", "--graph", "--oneline", "--no-color", branch, "--").out.decode("utf-8", "replace")


def sample_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Put the Python that AOP's own environment was made from first on the PATH, and name the demo as approver."""
    path = os.pathsep.join([os.path.join(sys.base_prefix, "bin"), environ.get("PATH", os.defpath)])
    return {**environ, "PATH": path, "AOP_ACTOR": "demo"}


def sample_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a shipped sample; each has the suffix `.txt`, so that tools do not treat it as code."""
    return {
        path.relative_to(folder).as_posix().removesuffix(".txt"): path.read_bytes()
        for path in sorted(folder.rglob("*.txt"))
    }
