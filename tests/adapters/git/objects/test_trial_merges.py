"""Trial merges: many at once, the same as one by one, and gone afterwards."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aop.adapters.git.objects.write_ahead_log import ObjectLog
from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import Fault
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.kernel.ports.git import Proposal, TrialMerge
from tests.adapters.git.repositories import CHANGE_A, CREATE_C, DELETE_B, git, make_repository, with_noted_git

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
        repository.merges.merge(head(repository), Proposal(commit=CommitId(ObjectId(commit))))
    repository.close()


def committed(repository: Repository, change: Proposal) -> CommitId:
    assert change.tree is not None
    return repository.objects.commit(change.tree, [change.commit], "x", when=datetime(2026, 1, 2, tzinfo=UTC))


def loose_objects(repository: Repository) -> set[str]:
    return {path.parent.name + path.name for path in (repository.git_dir / "objects").glob("[0-9a-f][0-9a-f]/*")}


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_what_a_merge_writes_survives_a_power_cut(tmp_path: Path, object_format: str) -> None:
    repository = make_repository(tmp_path / "repo", object_format=object_format)
    theirs = changed(repository, CHANGE_A + CREATE_C, "src/a.txt", "src/c.txt")
    ours = committed(repository, changed(repository, SHOUT_A + DELETE_B, "src/a.txt", "src/deep/b.txt"))
    before = loose_objects(repository)

    merged = repository.merges.merge(ours, theirs)

    written = {
        oid for oid in loose_objects(repository) - before if git(repository.root, "cat-file", "-t", oid) != "commit"
    }
    lost = ObjectLog(repository.root, lambda: "the next start").lost()
    # The file in conflict, its folder, and the root.
    assert (len(written), lost.keys() & written) == (3, written)
    assert merged.tree in written
    repository.close()


def test_objects_that_a_power_cut_emptied_are_written_again_by_the_next_merge(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    theirs = changed(repository, CHANGE_A, "src/a.txt")
    ours = committed(repository, changed(repository, SHOUT_A + DELETE_B, "src/a.txt", "src/deep/b.txt"))
    before = loose_objects(repository)
    merged = repository.merges.merge(ours, theirs)
    for oid in loose_objects(repository) - before:
        path = repository.git_dir / "objects" / oid[:2] / oid[2:]
        path.unlink()
        path.touch()

    again = open_repository(repository.root, os.environ)
    assert again.merges.merge(ours, theirs) == merged

    assert git(repository.root, "fsck", "--strict", "--no-dangling") == ""
    again.close()
    repository.close()


def test_a_merge_is_asked_of_git_once_as_long_as_its_tree_is_there(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repo")
    ours, theirs = changed(repository, CHANGE_A, "src/a.txt"), changed(repository, CREATE_C, "src/c.txt")
    branch = committed(repository, ours)
    git(repository.root, "update-ref", "refs/heads/ours", branch)
    git(repository.root, "update-ref", "refs/aop/features/theirs", str(theirs.tree))
    starts = tmp_path / "starts"
    counted = open_repository(repository.root, with_noted_git(starts))

    merged = counted.merges.merge(branch, theirs)
    assert counted.merges.merge(branch, theirs) == merged
    git(repository.root, "prune", "--expire=now")
    assert counted.merges.merge(branch, theirs) == merged

    assert starts.read_text().count(" merge-tree ") == 2
    assert git(repository.root, "cat-file", "-t", merged.tree).strip() == "tree"
    counted.close()
    repository.close()
