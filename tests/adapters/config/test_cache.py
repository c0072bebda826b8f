"""The configuration that is kept between processes is always the one that would be read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aop.adapters.config.cache import PATH, CachedConfig
from aop.adapters.config.reader import read_config
from aop.adapters.git.repository import open_repository
from aop.core.errors import InvalidConfiguration
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.kernel.ports.git import TreeEntry
from tests.soak.faults import STRACE, needs_strace
from tests.world import git, make_repository

POLICY = "agentic/orchestrator/policy.yaml"


class Questions:
    """A repository, and what was asked of it."""

    def __init__(self, root: Path) -> None:
        self._repository = open_repository(root, {"PATH": "/usr/local/bin:/usr/bin:/bin"})
        self.asked: list[str] = []

    def branch_head(self, branch: str) -> CommitId | None:
        self.asked.append(f"head of {branch}")
        return self._repository.branches.head(branch)

    def tree_of(self, commit: CommitId) -> TreeId:
        self.asked.append("tree")
        return self._repository.objects.tree_of(commit)

    def entry(self, tree: TreeId, path: str) -> TreeEntry | None:
        self.asked.append(path)
        return self._repository.objects.entry(tree, path)

    def blob(self, oid: ObjectId) -> bytes:
        self.asked.append("blob")
        return self._repository.objects.blob(oid)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository whose configuration is kept already, with 3 as a value to look for."""
    made = make_repository(tmp_path / "repo")
    commit_policy(made, features=3)
    assert features_of(new_process(made)) == 3
    return made


def kept_config(questions: Questions, root: Path) -> CachedConfig:
    return CachedConfig(questions.branch_head, questions, root)


def new_process(root: Path) -> CachedConfig:
    return kept_config(Questions(root), root)


def features_of(config: CachedConfig) -> int:
    return config().policy.supervisor.max_active_features


def policy(features: int) -> str:
    return f"version: 1\nsupervisor: {{max_active_features: {features}}}\n"


def commit_policy(root: Path, *, features: int) -> None:
    (root / POLICY).write_text(policy(features))
    git(root, "add", POLICY)
    git(root, "commit", "-qm", f"{features} features")


def test_another_process_asks_git_one_question_and_has_the_same_configuration(root: Path) -> None:
    questions = Questions(root)
    others = Questions(root)
    assert kept_config(questions, root)() == read_config(others.branch_head, others, root)
    assert questions.asked == ["head of main"]


def test_where_a_branch_is_is_asked_once_while_everything_is_read(root: Path) -> None:
    (root / PATH).unlink()
    questions = Questions(root)
    kept_config(questions, root)()
    assert questions.asked.count("head of main") == 1


def test_a_base_branch_that_moved_is_read_again_in_this_process_and_in_the_next(root: Path) -> None:
    running = new_process(root)
    assert features_of(running) == 3
    commit_policy(root, features=4)
    assert (features_of(running), features_of(new_process(root))) == (4, 4)


def test_a_base_branch_that_moved_to_the_same_files_is_not_read_again(root: Path) -> None:
    running, questions = Questions(root), Questions(root)
    config = kept_config(running, root)
    assert features_of(config) == 3
    git(root, "commit", "-q", "--allow-empty", "-m", "Something else")
    assert (features_of(config), "blob" in running.asked) == (3, False)
    assert (features_of(kept_config(questions, root)), questions.asked) == (3, ["head of main"])


def test_a_base_branch_whose_old_commit_is_gone_is_read_again(root: Path) -> None:
    git(root, "checkout", "-q", "--orphan", "other")
    commit_policy(root, features=4)
    git(root, "branch", "-qf", "main", "other")
    git(root, "reflog", "expire", "--expire=now", "--all")
    git(root, "prune", "--expire=now")
    assert (features_of(new_process(root)), features_of(new_process(root))) == (4, 4)


def test_a_file_that_changed_in_the_checkout_is_warned_of_in_this_process_and_in_the_next(root: Path) -> None:
    running = new_process(root)
    assert running().warnings == ()
    (root / POLICY).write_text(policy(9))
    warning = f"`{POLICY}` in the checkout differs from the one on `main`, which is used."
    assert (running().warnings, new_process(root)().warnings) == ((warning,), (warning,))


def test_a_configuration_that_became_invalid_is_refused_every_time(root: Path) -> None:
    running = new_process(root)
    assert features_of(running) == 3
    commit_policy(root, features=0)
    for config in (running, running, new_process(root)):
        with pytest.raises(InvalidConfiguration):
            config()


def test_a_file_that_cannot_be_read_is_refused_every_time(root: Path) -> None:
    running = new_process(root)
    assert features_of(running) == 3
    (root / POLICY).unlink()
    (root / POLICY).symlink_to("elsewhere.yaml")
    for config in (running, running, new_process(root)):
        with pytest.raises(InvalidConfiguration):
            config()


def test_a_branch_that_came_to_be_the_base_counts(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    git(root, "branch", "-m", "main", "master")
    assert new_process(root)().policy.worktree.base_branch == "master"
    git(root, "branch", "main")
    assert new_process(root)().policy.worktree.base_branch == "main"


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"files": "\xff"}', b"[" * 100_000, b"0" * (5 * 1024 * 1024)],
    ids=["empty", "cut", "other shape", "no text", "half text", "deep", "huge"],
)
def test_what_is_kept_is_read_again_when_it_is_damaged(root: Path, damage: bytes) -> None:
    (root / PATH).write_bytes(damage)
    assert features_of(new_process(root)) == 3
    questions = Questions(root)
    assert features_of(kept_config(questions, root)) == 3
    assert questions.asked == ["head of main"]


def test_what_is_kept_is_read_again_when_a_value_in_it_was_changed(root: Path) -> None:
    kept = json.loads((root / PATH).read_bytes())
    kept["config"]["policy"]["supervisor"]["max_active_features"] = 99
    (root / PATH).write_text(json.dumps(kept))
    assert features_of(new_process(root)) == 3


def test_what_another_version_kept_is_read_again(root: Path) -> None:
    kept = json.loads((root / PATH).read_bytes())
    (root / PATH).write_text(json.dumps({**kept, "files": {**kept["files"], "version": "0.0.0"}}))
    questions = Questions(root)
    assert features_of(kept_config(questions, root)) == 3
    assert "tree" in questions.asked


READING = """
import sys
from pathlib import Path
from aop.adapters.config.cache import CachedConfig
from aop.adapters.git.repository import open_repository
repository = open_repository(Path(sys.argv[1]), {"PATH": "/usr/local/bin:/usr/bin:/bin"})
CachedConfig(repository.branches.head, repository.objects, repository.root)()
repository.close()
"""


@needs_strace
def test_a_configuration_that_is_read_again_is_kept_without_a_wait_for_the_disk(root: Path, tmp_path: Path) -> None:
    before = (root / PATH).read_bytes()
    commit_policy(root, features=5)
    traced = [str(STRACE), "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", "trace=fsync,fdatasync"]
    subprocess.run([*traced, sys.executable, "-c", READING, str(root)], check=True)
    assert (root / PATH).read_bytes() != before
    assert "sync(" not in (tmp_path / "trace").read_text()


def test_where_nothing_can_be_kept_the_configuration_is_read(root: Path) -> None:
    (root / PATH).unlink()
    (root / PATH).parent.rmdir()
    (root / PATH).parent.write_text("in the way\n")
    assert (features_of(new_process(root)), features_of(new_process(root))) == (3, 3)
