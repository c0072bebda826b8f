"""Trial merges: results of git, in an object folder that is removed afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from aop.adapters.git.objects.loose import LooseObjects, id_of, object_bytes
from aop.adapters.git.process.output import conflict_stages, object_id, split_names, text_of
from aop.adapters.git.process.program import ANY_CODE, GitDir
from aop.core.errors import Fault
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.kernel.ports.git import Proposal, TrialMerge

_WHO = "AOP <aop@localhost> 0 +0000"
_CLEAN, _CONFLICTED = "1", "0"
# The message of `git merge-tree` about a damaged or missing tree, which it then takes for an empty one.
_NOT_READ = "error: "
# The objects are removed soon and need not survive a power cut, or are made durable together.
_UNSAFE = ("-c", "core.fsync=none")


class GitTrials:
    """Implements `aop.kernel.ports.git.Trials`."""

    def __init__(self, git: GitDir, *, folder: Path, objects: Path, digest_size: int) -> None:
        (folder / "info").mkdir()
        (folder / "info" / "alternates").write_text(f"{objects}\n")
        self._git = git
        self._environment = {"GIT_OBJECT_DIRECTORY": str(folder)}
        self._made = LooseObjects(folder)
        self._digest_size = digest_size

    def merge(self, pairs: Sequence[tuple[Proposal, Proposal]]) -> tuple[TrialMerge, ...]:
        if not pairs:
            return ()
        commits = self._commit_proposals({each for pair in pairs for each in pair})
        named = [(commits[ours], commits[theirs]) for ours, theirs in pairs]
        lines = "".join(f"{ours} {theirs}\n" for ours, theirs in named)
        ran = self._git.run(
            *(*_UNSAFE, "merge-tree", "--stdin", "--no-messages"),
            stdin=lines.encode(),
            environment=self._environment,
            fine=ANY_CODE,
        )
        # Unrelated commits end the whole batch, and an old git does not know `--stdin`.
        is_whole = ran.code == 0 and _NOT_READ not in ran.err
        found = tuple(_results(ran.out)) if is_whole else tuple(self._merge_pair(*pair) for pair in named)
        if len(found) != len(pairs):
            raise Fault(f"`git merge-tree` answered {len(found)} of {len(pairs)} questions.")
        return found

    def _merge_pair(self, ours: CommitId, theirs: CommitId) -> TrialMerge:
        return merge_pair(self._git, ours, theirs, environment=self._environment)

    def _commit_proposals(self, proposals: Iterable[Proposal]) -> dict[Proposal, CommitId]:
        commits, made = dict[Proposal, CommitId](), dict[ObjectId, bytes]()
        for each in proposals:
            commit = each.commit
            if each.tree is not None:
                whole = trial_commit(each.tree, commit)
                commit = CommitId(id_of(whole, digest_size=self._digest_size))
                made[commit] = whole
            commits[each] = CommitId(ObjectId(object_id(commit)))
        self._made.write(made)
        return commits


def merge_pair(
    git: GitDir, ours: CommitId, theirs: CommitId, *, environment: Mapping[str, str] | None = None
) -> TrialMerge:
    """Merge two commits by a git of their own; nothing that it writes is flushed."""
    words = (*_UNSAFE, "merge-tree", "--write-tree", "-z", "--no-messages", object_id(ours), object_id(theirs))
    ran = git.run(*words, environment=environment, fine=ANY_CODE)
    if ran.code in (0, 1) and _NOT_READ not in ran.err:
        tree, *conflicts = split_names(ran.out)
        return _trial(tree, conflicts, is_clean=ran.code == 0)
    if "unrelated histories" in ran.err:
        return TrialMerge(tree=None, is_clean=False, stages={})
    raise Fault(f"`git merge-tree` ended with {ran.code}: {git.clean_message(ran.err)}")


def trial_commit(tree: TreeId, parent: CommitId) -> bytes:
    """Return a commit of a tree, as git stores it."""
    lines = (f"tree {object_id(tree)}", f"parent {object_id(parent)}", f"author {_WHO}", f"committer {_WHO}")
    return object_bytes("commit", ("\n".join(lines) + "\n\n").encode())


def _results(out: bytes) -> Iterator[TrialMerge]:
    """Read what `--stdin` prints: for each pair its status, a tree, the conflicted files, and an empty field."""
    fields = iter(map(text_of, out.split(b"\0")[:-1]))
    for status in fields:
        if status not in (_CLEAN, _CONFLICTED):
            raise Fault("`git merge-tree` printed an unknown status.")
        tree, *conflicts = iter(fields.__next__, "")
        yield _trial(tree, conflicts, is_clean=status == _CLEAN)


def _trial(tree: str, conflicts: Iterable[str], *, is_clean: bool) -> TrialMerge:
    return TrialMerge(tree=TreeId(ObjectId(tree)), is_clean=is_clean, stages=conflict_stages(conflicts))
