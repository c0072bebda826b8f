"""Configuration comes from the base branch; from the checkout only what is not committed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from aop.adapters.config.reader import bundled_texts, read_config
from aop.core.errors import BaseBranchUnreadable, Fault, InvalidConfiguration
from aop.core.ids import CommitId, ObjectId, TreeId
from aop.kernel.config.in_force import Config
from aop.kernel.config.loader import ConfigTexts, load_config
from aop.kernel.ports.git import FileMode, TreeEntry

FOLDER = "agentic/orchestrator"


class Repository:
    """The part of `Git` that configuration is read through: each branch holds the files of the one folder."""

    def __init__(self, branches: dict[str, dict[str, str]], *, mode: FileMode = FileMode.FILE) -> None:
        self._branches = branches
        self._mode = mode

    def branch_head(self, branch: str) -> CommitId | None:
        return CommitId(ObjectId(branch)) if branch in self._branches else None

    def tree_of(self, commit: CommitId) -> TreeId:
        return TreeId(ObjectId(commit))

    def entry(self, tree: TreeId, path: str) -> TreeEntry | None:
        folder, _, name = path.rpartition("/")
        if folder != FOLDER or name not in self._branches[tree]:
            return None
        return TreeEntry(path=path, mode=self._mode, oid=ObjectId(f"{tree} {name}"))

    def blob(self, oid: ObjectId) -> bytes:
        branch, name = oid.split()
        return self._branches[branch][name].encode()


def read(repository: Repository, root: Path, *, base_branch: str | None = None) -> Config:
    return read_config(repository.branch_head, repository, root, base_branch=base_branch)


def policy(base_branch: str, features: int = 5) -> str:
    return f"version: 1\nworktree: {{base_branch: {base_branch}}}\nsupervisor: {{max_active_features: {features}}}\n"


def check_out(root: Path, **files: str) -> None:
    folder = root / FOLDER
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


def test_a_repository_without_files_has_the_bundled_configuration(tmp_path: Path) -> None:
    config = read(Repository({"main": {}}), tmp_path)
    assert config == load_config(ConfigTexts(), bundled_texts())
    assert config.sources == (("policy", "bundled"), ("gates", "bundled"), ("agents", "bundled"))


def test_a_file_on_the_base_branch_wins_over_the_checkout_which_is_told(tmp_path: Path) -> None:
    check_out(tmp_path, policy="version: 1\nsupervisor: {max_active_features: 9}\n")
    config = read(Repository({"main": {"policy.yaml": policy("main", 3)}}), tmp_path)
    assert config.policy.supervisor.max_active_features == 3
    assert config.sources[0] == ("policy", f"main:{FOLDER}/policy.yaml")
    assert config.warnings == (
        f"`{FOLDER}/policy.yaml` in the checkout differs from the one on `main`, which is used.",
    )


def test_a_checkout_that_is_as_committed_gives_no_warning(tmp_path: Path) -> None:
    check_out(tmp_path, policy=policy("main", 3))
    assert read(Repository({"main": {"policy.yaml": policy("main", 3)}}), tmp_path).warnings == ()


def test_a_file_that_is_not_committed_is_used_with_a_warning(tmp_path: Path) -> None:
    check_out(tmp_path, policy=policy("main", 9))
    config = read(Repository({"main": {"gates.yaml": "version: 1\n"}}), tmp_path)
    assert config.policy.supervisor.max_active_features == 9
    assert config.sources == (
        ("policy", f"checkout:{FOLDER}/policy.yaml"),
        ("gates", f"main:{FOLDER}/gates.yaml"),
        ("agents", "bundled"),
    )
    assert config.warnings == (f"`{FOLDER}/policy.yaml` is not committed on `main`: the checkout's file is used.",)


def test_the_tree_of_another_branch_is_no_source(tmp_path: Path) -> None:
    repository = Repository({"main": {}, "feature/x": {"policy.yaml": policy("feature/x", 1)}})
    assert read(repository, tmp_path).sources[0] == ("policy", "bundled")


def test_master_is_the_base_branch_where_only_it_has_commits(tmp_path: Path) -> None:
    config = read(Repository({"master": {"policy.yaml": "version: 1\n"}}), tmp_path)
    assert (config.policy.worktree.base_branch, config.sources[0][1]) == ("master", f"master:{FOLDER}/policy.yaml")


def test_main_is_the_base_branch_where_both_have_commits_or_neither(tmp_path: Path) -> None:
    assert read(Repository({"main": {}, "master": {}}), tmp_path).policy.worktree.base_branch == "main"
    assert read(Repository({}), tmp_path).policy.worktree.base_branch == "main"


def test_a_hint_is_the_base_branch_where_no_policy_names_one(tmp_path: Path) -> None:
    repository = Repository({"main": {}, "trunk": {"policy.yaml": "version: 1\n"}})
    config = read(repository, tmp_path, base_branch="trunk")
    assert (config.policy.worktree.base_branch, config.sources[0][1]) == ("trunk", f"trunk:{FOLDER}/policy.yaml")


def test_the_base_branch_is_the_one_that_the_checkouts_policy_names(tmp_path: Path) -> None:
    check_out(tmp_path, policy=policy("develop"))
    repository = Repository({"main": {"policy.yaml": policy("main")}, "develop": {"policy.yaml": policy("develop", 4)}})
    config = read(repository, tmp_path)
    assert (config.policy.worktree.base_branch, config.policy.supervisor.max_active_features) == ("develop", 4)


def test_the_policy_on_the_branch_says_which_branch_it_is(tmp_path: Path) -> None:
    repository = Repository({"main": {"policy.yaml": policy("trunk", 1)}, "trunk": {"policy.yaml": policy("trunk", 2)}})
    config = read(repository, tmp_path)
    assert (config.policy.worktree.base_branch, config.policy.supervisor.max_active_features) == ("trunk", 2)


@pytest.mark.parametrize("trunk", [{"policy.yaml": policy("main")}, {"policy.yaml": policy("third")}, {}])
def test_branches_that_name_each_other_as_the_base_branch_are_refused(tmp_path: Path, trunk: dict[str, str]) -> None:
    repository = Repository({"main": {"policy.yaml": policy("trunk")}, "trunk": trunk})
    with pytest.raises(InvalidConfiguration) as refused:
        read(repository, tmp_path)
    assert refused.value.facts == {"file": f"trunk:{FOLDER}/policy.yaml", "line": 1, "key": "worktree.base_branch"}


@pytest.mark.parametrize("text", ["a: [", "version: 1\nworktree: {base_branch: -D}\n", "version: 1\nworktree: 7\n"])
def test_a_broken_policy_in_the_checkout_does_not_outvote_the_committed_one(tmp_path: Path, text: str) -> None:
    check_out(tmp_path, policy=text)
    config = read(Repository({"main": {"policy.yaml": policy("main", 3)}}), tmp_path)
    assert (config.policy.supervisor.max_active_features, len(config.warnings)) == (3, 1)


@pytest.mark.hostile("P06")
@pytest.mark.parametrize("text", ["", "a: [", "version: 1\nworktree: {base_branch: -D}\n"])
def test_a_broken_policy_is_refused_wherever_it_counts(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfiguration) as committed:
        read(Repository({"main": {"policy.yaml": text}}), tmp_path)
    check_out(tmp_path, policy=text)
    with pytest.raises(InvalidConfiguration) as loose:
        read(Repository({"main": {}}), tmp_path)
    assert (committed.value.facts["file"], loose.value.facts["file"]) == (
        f"main:{FOLDER}/policy.yaml",
        f"checkout:{FOLDER}/policy.yaml",
    )


class Damaged(Repository):
    """A repository whose branches name commits that are not there."""

    def tree_of(self, commit: CommitId) -> TreeId:
        raise Fault(f"There is no commit `{commit}` in the repository.")


def test_a_branch_that_names_a_missing_commit_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BaseBranchUnreadable, match="The files of `main` cannot be read: There is no commit `main`"):
        read(Damaged({"main": {}}), tmp_path)


def test_a_hint_that_is_no_branch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        read(Repository({}), tmp_path, base_branch="-D")
    assert refused.value.facts == {"file": "bundled", "line": 1, "key": "worktree.base_branch"}


@pytest.mark.parametrize("mode", [FileMode.SYMLINK, FileMode.GITLINK, FileMode.TREE])
def test_what_is_no_plain_file_on_the_branch_is_refused(tmp_path: Path, mode: FileMode) -> None:
    with pytest.raises(InvalidConfiguration, match="is not a plain file"):
        read(Repository({"main": {"policy.yaml": "/etc/passwd"}}, mode=mode), tmp_path)


def test_a_symlink_in_the_checkout_is_not_followed(tmp_path: Path) -> None:
    check_out(tmp_path)
    outside = tmp_path / "outside.yaml"
    outside.write_text(policy("main", 9))
    (tmp_path / FOLDER / "policy.yaml").symlink_to(outside)
    with pytest.raises(InvalidConfiguration) as refused:
        read(Repository({"main": {}}), tmp_path)
    assert refused.value.facts["file"] == f"checkout:{FOLDER}/policy.yaml"
