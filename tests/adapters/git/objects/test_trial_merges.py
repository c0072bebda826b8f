"""Trial merges: many at once, the same as one by one, and gone afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from aop.adapters.git.repository import Repository
from aop.core.errors import Fault
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.kernel.ports.git import Proposal, TrialMerge
from tests.adapters.git.repositories import CHANGE_A, CREATE_C, DELETE_B, git, make_repository

SHOUT_A = CHANGE_A.replace(b"+TWO", b"+2!")


def head(repository: Repository) -> CommitId:
    commit = repository.branches.head("main")
    assert commit is not None
    return commit


def changed(repository: Repository, patch: bytes, *paths: str) -> Proposal:
    """Return the base with a patch on it, which nobody has committed."""
    base = head(repository)
    tree = repository.objects.apply_to_tree(repository.objects.tree_of(base), patch, paths=set(paths))
    return Proposal(commit=base, tree=tree)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_many_merges_are_tried_at_once_without_a_trace(tmp_path: Path, object_format: str) -> None:
    repository = make_repository(tmp_path / "repo with spaces: and more", object_format=object_format)
    one = changed(repository, CHANGE_A, "src/a.txt")
    two = changed(repository, SHOUT_A, "src/a.txt")
    three = changed(repository, CREATE_C + DELETE_B, "src/c.txt", "src/deep/b.txt")
    before = git(repository.root, "count-objects", "-v")

    with repository.merges.trials() as trials:
        found = trials.merge([(one, two), (one, three), (Proposal(commit=head(repository)), three)])

    assert [(trial.is_clean, trial.stages) for trial in found] == [
        (False, {"src/a.txt": (1, 2, 3)}),
        (True, {}),
        (True, {}),
    ]
    assert found[2].tree == three.tree
    assert git(repository.root, "count-objects", "-v") == before
    assert list((repository.root / ".aop/tmp").iterdir()) == []
    repository.close()


def test_the_result_of_one_trial_takes_part_in_the_next(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    one, two = changed(repository, CHANGE_A, "src/a.txt"), changed(repository, CREATE_C, "src/c.txt")

    with repository.merges.trials() as trials:
        (both,) = trials.merge([(one, two)])
        (again,) = trials.merge([(Proposal(commit=head(repository), tree=both.tree), two)])

    assert again == TrialMerge(tree=both.tree, is_clean=True, stages={})
    repository.close()


def test_a_pair_without_a_common_commit_does_not_keep_the_others_from_being_tried(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    one, two = changed(repository, CHANGE_A, "src/a.txt"), changed(repository, SHOUT_A, "src/a.txt")
    foreign = CommitId(ObjectId(git(repository.root, "commit-tree", "-m", "elsewhere", "HEAD^{tree}")))

    with repository.merges.trials() as trials:
        found = trials.merge([(one, two), (Proposal(commit=foreign), one), (one, one)])

    assert [(trial.is_clean, dict(trial.stages)) for trial in found] == [
        (False, {"src/a.txt": (1, 2, 3)}),
        (False, {}),
        (True, {}),
    ]
    assert found[1].tree is None
    repository.close()


def test_no_merge_driver_of_the_repository_runs(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    canary = tmp_path / "canary"
    git(repository.root, "config", "merge.evil.driver", f"touch {canary}; true")
    (repository.git_dir / "info").mkdir(exist_ok=True)
    (repository.git_dir / "info" / "attributes").write_text("* merge=evil\n")
    one, two = changed(repository, CHANGE_A, "src/a.txt"), changed(repository, SHOUT_A, "src/a.txt")

    with repository.merges.trials() as trials:
        (found,) = trials.merge([(one, two)])

    assert (found.is_clean, canary.exists()) == (False, False)
    repository.close()


def test_a_tree_that_is_not_there_is_a_fault_not_an_answer(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    one, lost = changed(repository, CHANGE_A, "src/a.txt"), TreeId(ObjectId("1" * 40))

    with repository.merges.trials() as trials, pytest.raises(Fault, match="`git merge-tree` ended with"):
        trials.merge([(Proposal(commit=head(repository), tree=lost), one)])
    text = f"tree {lost}\nparent {head(repository)}\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\nLost\n"
    commit = git(repository.root, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=text)
    with pytest.raises(Fault, match="`git merge-tree` ended with"):
        repository.merges.merge(head(repository), CommitId(ObjectId(commit)))
    repository.close()


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_git_reads_a_commit_that_is_written_for_a_trial(tmp_path: Path, object_format: str) -> None:
    repository = make_repository(tmp_path / "repo", object_format=object_format)
    base, change = head(repository), changed(repository, CHANGE_A, "src/a.txt")
    assert change.tree is not None
    made = repository.objects.trial_commit(change.tree, base)
    assert repository.objects.trial_commit(change.tree, base) == made
    assert git(repository.root, "log", "-1", "--format=%T %P", made).strip() == f"{change.tree} {base}"
    repository.close()
