"""Real repositories for the tests of the git adapter."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from aop.adapters.git.repository import Repository, open_repository
from aop.core.ids import CommitId, FeatureId, ObjectId, TreeId, feature_id

ALICE = feature_id("alice")
BASE = {"README.md": "hello\n", "src/a.txt": "one\ntwo\nthree\n", "src/deep/b.txt": "b\n"}
CREATE_C = b"""diff --git a/src/c.txt b/src/c.txt
new file mode 100644
--- /dev/null
+++ b/src/c.txt
@@ -0,0 +1 @@
+see
"""
CHANGE_A = b"""diff --git a/src/a.txt b/src/a.txt
--- a/src/a.txt
+++ b/src/a.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
"""
DELETE_B = b"""diff --git a/src/deep/b.txt b/src/deep/b.txt
deleted file mode 100644
--- a/src/deep/b.txt
+++ /dev/null
@@ -1 +0,0 @@
-b
"""


def git(folder: Path, *arguments: str, stdin: str = "") -> str:
    """Run the user's git in a folder, as a person would."""
    identity = ("-c", "user.name=Person", "-c", "user.email=person@example.org")
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def make_repository(root: Path, files: Mapping[str, str] = BASE, *, object_format: str = "sha1") -> Repository:
    """Make a repository with one commit on `main`, and open it."""
    root.mkdir(parents=True)
    git(root, "init", "--quiet", "-b", "main", f"--object-format={object_format}")
    write_files(root, files)
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "-m", "base")
    return open_repository(root, os.environ)


def write_files(root: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)


def head(repository: Repository, branch: str = "main") -> CommitId:
    """Return the commit of a branch that is there."""
    commit = repository.branches.head(branch)
    assert commit is not None
    return commit


def base_tree(repository: Repository) -> TreeId:
    """Return the tree of `main`."""
    return repository.objects.tree_of(head(repository))


def tree_with(repository: Repository, files: Mapping[str, str | None]) -> TreeId:
    """Return the tree of `main` with some files otherwise (None: not there), made without AOP's own code."""
    index = {"GIT_INDEX_FILE": str(repository.git_dir / "index-of-a-test")}
    environment = {**os.environ, **index}

    def plumb(*arguments: str, stdin: str = "") -> str:
        return subprocess.run(
            ["git", *arguments], cwd=repository.root, env=environment, input=stdin, capture_output=True, text=True,
            check=True, timeout=300,
        ).stdout.strip()  # fmt: skip

    plumb("read-tree", "main")
    for path, content in files.items():
        if content is None:
            plumb("update-index", "--force-remove", "--", path)
        else:
            blob = plumb("hash-object", "-w", "--stdin", stdin=content)
            plumb("update-index", "--add", "--replace", "--cacheinfo", f"100644,{blob},{path}")
    return TreeId(ObjectId(plumb("write-tree")))


def patched(repository: Repository, tree: TreeId, patch: bytes) -> TreeId:
    """Apply a patch whose names are plain to a tree."""
    named = re.findall(rb"^(?:---|\+\+\+) [ab]/(.*)$", patch, re.MULTILINE)
    named += [name for pair in re.findall(rb"^diff --git a/(.*) b/(.*)$", patch, re.MULTILINE) for name in pair]
    return repository.objects.apply_to_tree(tree, patch, paths={name.decode() for name in named})


def start(repository: Repository, name: FeatureId = ALICE) -> Path:
    """Make a feature's branch and worktree, and return its folder."""
    repository.branches.create(name, head(repository))
    return repository.worktrees.ensure(name, name)


def files_in(folder: Path) -> dict[str, str]:
    """Return every file below a folder and what is in it, without git's own; a link is shown as where it leads."""
    found = {}
    for here, folders, names in os.walk(folder):
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(here, name)))]:
            path = Path(here, name)
            if ".git" not in path.relative_to(folder).parts:
                shown = f"-> {os.readlink(path)}" if path.is_symlink() else path.read_text()
                found[path.relative_to(folder).as_posix()] = shown
    return found


def with_noted_git(starts: Path) -> dict[str, str]:
    """Return an environment whose git writes its arguments to a file, a line for each start."""
    program = starts.parent / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {starts}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
