"""Store of the repository's objects, with caches and long-lived git processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from aop.adapters.git.objects.loose import LooseObjects, id_of, object_bytes
from aop.adapters.git.objects.small_diffs import plain_diff
from aop.adapters.git.objects.trees import Tree, differences, parse_tree
from aop.adapters.git.process.long_lived import Answers, LongLivedGit
from aop.adapters.git.process.output import object_id
from aop.adapters.git.process.program import GitDir
from aop.core.errors import Fault
from aop.core.ids import ObjectId, TreeId

T = TypeVar("T")

PLAIN_DIFF = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")

_KEPT = 256
_SMALL = 1 << 15
# No line of a diff begins like this.
_END_OF_DIFF = b"\nend of diff\n"


class Objects:
    """Blobs, trees and commits by their ids."""

    def __init__(self, git: GitDir, neutral: Callable[[], GitDir], loose: LooseObjects) -> None:
        self._git = git
        self._loose = loose
        self._reader = LongLivedGit(lambda: git.start("cat-file", "--batch-command"))
        self._differ = LongLivedGit(
            lambda: neutral().start("diff-tree", "--stdin", "-p", "-U0", "--full-index", *PLAIN_DIFF)
        )
        self._trees: dict[str, Tree] = {}
        self._blobs: dict[str, bytes] = {}
        self._trees_of_commits: dict[str, TreeId] = {}
        self._contained: dict[str, None] = {}

    def close(self) -> None:
        """End the processes; a later call starts them again."""
        for process in (self._reader, self._differ):
            process.close()

    def blob(self, oid: str) -> bytes:
        """Return the bytes of a blob; small ones are cached."""
        content = self._blobs.get(oid)
        if content is None:
            content = self._content(oid, "blob")
            self._cache_blob(oid, content)
        return content

    def blob_size(self, oid: str) -> int:
        """Return the size of a blob without reading it."""
        said = self._reader.ask(f"info {object_id(oid)}\n".encode(), Answers.line).decode("ascii")
        if not said.startswith(f"{oid} blob "):
            raise Fault(f"There is no blob `{oid}` in the repository.")
        return int(said.rpartition(" ")[2])

    def tree(self, oid: str) -> Tree:
        """Return the names in a tree; they are cached, because an id always means the same."""
        tree = self._trees.get(oid)
        if tree is None:
            tree = parse_tree(self._content(oid, "tree"), digest_size=len(oid) // 2)
            _remember(self._trees, oid, tree)
        return tree

    def tree_of(self, commit: str) -> TreeId:
        """Return the tree of a commit."""
        tree = self._trees_of_commits.get(commit)
        if tree is None:
            named = self._content(commit, "commit").partition(b"\n")[0].removeprefix(b"tree ")
            tree = TreeId(ObjectId(object_id(named.decode("ascii", "replace"))))
            _remember(self._trees_of_commits, commit, tree)
        return tree

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Tell whether one commit is contained in another; a yes is cached."""
        pair = f"{object_id(older)} {object_id(newer)}"
        if pair not in self._contained:
            if self._git.run("merge-base", "--is-ancestor", *pair.split(" "), fine=(0, 1)).code:
                return False
            _remember(self._contained, pair, None)
        return True

    def write(self, blobs: Mapping[ObjectId, bytes], trees: Mapping[ObjectId, tuple[bytes, Tree]]) -> None:
        """Write blobs and trees; only new ones are cached, because existing ones were not checked."""
        wholes = {oid: object_bytes("blob", content) for oid, content in blobs.items()}
        for oid in self._loose.write(wholes | {oid: whole for oid, (whole, _) in trees.items()}):
            if oid in trees:
                _remember(self._trees, oid, trees[oid][1])
            else:
                self._cache_blob(oid, blobs[oid])

    def flush_names(self) -> None:
        """Flush the folders of objects that git wrote; `write` needs no such wait."""
        self._loose.flush_names()

    def bare_diff(self, old: str, new: str) -> bytes:
        """Return the unified diff of two trees, without context."""
        diff = plain_diff(differences(self.tree, object_id(old), object_id(new)), self.blob)
        if diff is not None:
            return diff
        asked = f"{object_id(old)} {object_id(new)}".encode()
        # Git echoes the two ids, and at once any line that is not two ids: that marks the end.
        said = self._differ.ask(asked + _END_OF_DIFF, lambda answers: answers.up_to(_END_OF_DIFF))
        return (said + b"\n").removeprefix(asked + b"\n")

    def _cache_blob(self, oid: str, content: bytes) -> None:
        if len(content) <= _SMALL:
            _remember(self._blobs, oid, content)

    def _content(self, oid: str, kind: str) -> bytes:
        found = self._loose.read(object_id(oid)) or self._reader.ask(f"contents {oid}\n".encode(), _kind_and_content)
        if found is None or found[0] != kind:
            raise Fault(f"There is no {kind} `{oid}` in the repository.")
        # Git does not check that an object matches its id.
        if id_of(object_bytes(*found), digest_size=len(oid) // 2) != oid:
            raise Fault(f"The {kind} `{oid}` of the repository is damaged.")
        return found[1]


def _remember(kept: dict[str, T], oid: str, value: T) -> None:
    if len(kept) >= _KEPT:
        kept.clear()
    kept[oid] = value


def _kind_and_content(answers: Answers) -> tuple[str, bytes] | None:
    match answers.line().decode("ascii").split(" "):
        case [_, kind, size]:
            return kind, answers.exactly(int(size) + 1)[:-1]
        case _:
            return None
