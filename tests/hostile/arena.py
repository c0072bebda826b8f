"""A repository that is worth attacking: canaries outside of it, links that lead there, guarded files, one feature."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from tests.world import FILES, World, git, make_repository

# Nothing but the mechanism stands in a patch's way: no plan, no area, and only one protected file.
PERMISSIVE = """\
version: 1
protected_areas: [protected.txt]
patch_policy:
  enforce_plan: false
  enforce_allowed_areas: false
"""

POLICY = "agentic/orchestrator/policy.yaml"

# Every hunk `-x +y` of the hostile rows fits each of these files: a patch that got through would do harm.
TARGETS = ("x", "a.txt", "src/a.txt", "src/b.txt", "protected.txt", "protected.txt.orig", "aa.txt", "bb.txt")

# What a refused patch may leave behind, and what git and the tests themselves rewrite.
_UNWATCHED = (".git/objects", ".git/index", ".aop")
_WATCHED = (".aop/quarantine",)


class Arena(World):
    """The repository under attack, and a look at everything that must survive."""

    @property
    def outside(self) -> Path:
        """Return the folder beside the repository, which nobody may touch."""
        return self.root.parent / "outside"

    @property
    def worktree(self) -> Path:
        """Return the worktree of the feature `one`."""
        return self.root / ".worktrees" / "one"

    def fingerprint(self) -> dict[str, str]:
        """Return what `World` does, and everything else on disk: canaries, links, quarantine, git's own settings."""
        watched = {
            os.path.relpath(path, self.root): _looks(path)
            for path in sorted(self.root.parent.rglob("*"))
            if _is_watched(os.path.relpath(path, self.root))
        }
        return {**watched, **super().fingerprint()}

    def allow(self, **rules: object) -> None:
        """Switch rules of `patch_policy` on, in the policy of the base branch."""
        self.decree(PERMISSIVE + "".join(f"  {name}: {str(rule).lower()}\n" for name, rule in rules.items()))

    def decree(self, policy: str) -> None:
        """Commit another policy on the base branch."""
        self.commit(POLICY, policy)

    def commit(self, path: str, content: str) -> None:
        """Commit a file on the base branch, as the person at the terminal does."""
        (self.root / path).write_text(content)
        git(self.root, "add", "--", path)
        git(self.root, "commit", "-qm", f"Change {path}", "--", path)

    def content(self, path: str) -> str:
        """Return a file of the feature, which must be the same in its tree and in its worktree."""
        shown: str = self.ok("repo.read_file", feature_id="one", path=path)["content"]
        assert (self.worktree / path).read_bytes() == shown.encode()
        return shown

    def changed(self) -> dict[str, Any]:
        """Return what the feature changes against its base."""
        status = self.ok("repo.status", feature_id="one")
        assert not status["strays"]
        return {each["path"]: each["kind"] for each in status["changed_files"]}


def prepare(folder: Path) -> None:
    """Make the repository and the canaries below a folder; its absolute links stay right only at this place."""
    root, outside = folder / "repo", folder / "outside"
    for place in (root, outside):
        place.mkdir(parents=True)
    (outside / "secret.txt").write_text("x\n")
    (outside / "canary.txt").write_text("x\n")
    (root / "src").mkdir()
    (root / "tracked_in").symlink_to("src")
    (root / "tracked_out").symlink_to(outside)
    (root / "src" / "b.txt.rej").symlink_to(outside / "canary.txt")
    more = {"two.txt": "x\nrest\n", "crlf.txt": "x\r\n", ".gitignore": ".env\n", POLICY: PERMISSIVE}
    make_repository(root, {**FILES, **dict.fromkeys(TARGETS, "x\n"), **more})
    arena = Arena(root)
    arena.init()
    arena.close()
    (arena.worktree / ".env").write_text("x\n")


class Stage:
    """The one place where the arena stands, set up again after whatever changed it."""

    def __init__(self, folder: Path) -> None:
        self._place, self._saved = folder / "place", folder / "saved"
        prepare(self._place)
        shutil.copytree(self._place, self._saved, symlinks=True)
        self._arena = Arena(self._place / "repo")
        self._fresh = self._arena.fingerprint()

    def arena(self) -> Arena:
        """Return the arena as if nobody had been there before."""
        if self._arena.fingerprint() != self._fresh:
            self.close()
            shutil.rmtree(self._place)
            shutil.copytree(self._saved, self._place, symlinks=True)
            self._arena = Arena(self._place / "repo")
        return self._arena

    def close(self) -> None:
        self._arena.close()


def _is_watched(path: str) -> bool:
    return path.startswith(_WATCHED) or not path.startswith(_UNWATCHED)


def _looks(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    return f"{path.lstat().st_mode:o} {path.read_bytes().hex()}" if path.is_file() else f"{path.lstat().st_mode:o}"
