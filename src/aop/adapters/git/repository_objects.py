"""Objects of the repository for the kernel: trees, diffs, patches, commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import cached_property
from pathlib import Path

from aop.adapters.files.own_folders import own_folder
from aop.adapters.git.objects.loose import LooseObjects
from aop.adapters.git.objects.store import PLAIN_DIFF, Objects
from aop.adapters.git.objects.trees import differences, side_at, tree_change, tree_entry
from aop.adapters.git.process.authors import configured_author, git_date
from aop.adapters.git.process.output import bytes_of, is_plain_path, object_id, split_names, text_of, tree_entries
from aop.adapters.git.process.program import GitDir
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.kernel.ports.git import Author, FileContent, FileMode, LoggedCommit, TreeChange, TreeEntry

_LOG_FORMAT = "%H%x00%T%x00%an%x00%ae%x00%aI%x00%B"
_LOG_FIELDS = 6


class RepositoryObjects(Objects):
    """Implements `aop.kernel.ports.git.GitObjects`."""

    def __init__(self, git: GitDir, neutral: Callable[[], GitDir], loose: LooseObjects, *, root: Path) -> None:
        super().__init__(git, neutral, loose)
        self._neutral = neutral
        self._root = root

    def entry(self, tree: TreeId, path: str) -> TreeEntry | None:
        return tree_entry(path, side_at(self.tree, object_id(tree), bytes_of(path))) if is_plain_path(path) else None

    def entries(self, tree: TreeId) -> tuple[TreeEntry, ...]:
        return tree_entries(self._git.run("ls-tree", "-r", "-z", "--full-tree", object_id(tree)).out)

    def names(self, tree: TreeId, folder: str) -> tuple[str, ...]:
        entry = self.entry(tree, folder) if folder else TreeEntry(path="", mode=FileMode.TREE, oid=tree)
        return () if entry is None or entry.mode is not FileMode.TREE else tuple(map(text_of, self.tree(entry.oid)))

    def files_with(self, tree: TreeId, text: str) -> frozenset[str]:
        options = ("-l", "-z", "-F", "-a", "--full-name", "--no-color", "-e", text)
        found = self._neutral().run("grep", *options, object_id(tree), "--", fine=(0, 1)).out
        return frozenset(name.removeprefix(f"{tree}:") for name in split_names(found))

    def changes(self, old: TreeId, new: TreeId) -> tuple[TreeChange, ...]:
        found = differences(self.tree, object_id(old), object_id(new))
        return tuple(sorted((tree_change(each) for each in found), key=lambda change: change.path))

    def diff(
        self, old: TreeId, new: TreeId, *, context_lines: int = 3, paths: Sequence[str] = (), binary: bool = False
    ) -> bytes:
        if context_lines == 0 and not paths and not binary:
            return self.bare_diff(old, new)
        options = ("-p", f"-U{int(context_lines)}", "--full-index", *(("--binary",) if binary else ()), *PLAIN_DIFF)
        return self._neutral().run("diff-tree", *options, object_id(old), object_id(new), "--", *paths).out

    def diff_stat(self, old: TreeId, new: TreeId, *, paths: Sequence[str] = ()) -> str:
        arguments = ("diff-tree", "--stat", *PLAIN_DIFF, object_id(old), object_id(new), "--", *paths)
        return self._neutral().run(*arguments).out.decode("utf-8", "replace")

    def apply_to_tree(self, tree: TreeId, patch: bytes, *, paths: AbstractSet[str]) -> TreeId:
        from aop.adapters.git.tree_builder import apply_patch

        return apply_patch(self._neutral(), self, tree, patch, paths=paths, tmp=own_folder(self._root, ".aop", "tmp"))

    def tree_with(self, tree: TreeId, files: Mapping[str, FileContent | None]) -> TreeId:
        from aop.adapters.git.tree_builder import replace_files

        return replace_files(self, tree, files)

    def commit(
        self,
        tree: TreeId,
        parents: Sequence[CommitId],
        message: str,
        *,
        when: datetime,
        author: Author | None = None,
    ) -> CommitId:
        self._loose.flush()  # Programs other than AOP may soon read this commit.
        environment = {"GIT_AUTHOR_DATE": git_date(when), "GIT_COMMITTER_DATE": git_date(when)}
        if named := author or self._author:
            environment |= {"GIT_AUTHOR_NAME": named.name, "GIT_AUTHOR_EMAIL": named.email}
        arguments = [word for parent in parents for word in ("-p", object_id(parent))]
        ran = self._neutral().run(
            "commit-tree", *arguments, "-F", "-", object_id(tree), stdin=message.encode(), environment=environment
        )
        self._loose.flush_names()
        return CommitId(ObjectId(ran.out.decode("ascii").strip()))

    def log(self, since: CommitId, until: CommitId, *, limit: int) -> tuple[LoggedCommit, ...]:
        options = ("-z", f"-n{int(limit)}", "--topo-order", "--encoding=UTF-8", "--no-show-signature", "--no-notes")
        span = (object_id(until), f"^{object_id(since)}")
        out = self._neutral().run("log", *options, f"--format={_LOG_FORMAT}", *span, "--").out
        fields = out.decode("utf-8", "replace").split("\0")
        commits = zip(*(iter(fields),) * _LOG_FIELDS, strict=False)
        return tuple(_logged(each) for each in commits)[::-1]

    @cached_property
    def _author(self) -> Author | None:
        return configured_author(self._git)


def _logged(fields: Sequence[str]) -> LoggedCommit:
    commit, tree, name, email, at, message = fields
    return LoggedCommit(
        commit=CommitId(ObjectId(commit)),
        tree=TreeId(ObjectId(tree)),
        author=Author(name=name, email=email),
        at=at,
        message=message,
    )
