"""The repository through git: finding it, its objects, its branches, and what is never touched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from aop.adapters.git.refs.lock_notes import is_branch_name
from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import (
    BranchExists,
    CheckoutChanged,
    Fault,
    InvalidConfiguration,
    InvalidFeatureSlug,
    MergeConflict,
    NotARepository,
    PatchDoesNotApply,
)
from aop.core.ids import CommitId, FeatureId, ObjectId, TreeId
from aop.kernel.ports.git import (
    CheckoutStep,
    ConflictedPaths,
    FileMode,
    Git,
    MergedTree,
    Proposal,
    TreeChange,
    TreeEntry,
)
from tests.adapters.git.repositories import (
    ALICE,
    BASE,
    CHANGE_A,
    CREATE_C,
    DELETE_B,
    base_tree,
    git,
    head,
    make_repository,
    patched,
    start,
    tree_with,
    write_files,
)

NOON = datetime(2030, 1, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "project")


def test_a_repository_is_what_the_kernel_asks_for(repository: Repository) -> None:
    port: Git = repository
    assert port.branches.head("main") == git(repository.root, "rev-parse", "main")


# --- finding it --------------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", ["", "src/deep"])
def test_a_repository_is_found_from_any_folder_inside_it(repository: Repository, inside: str) -> None:
    found = open_repository(repository.root / inside, os.environ)
    assert (found.root, found.git_dir) == (repository.root, repository.root / ".git")


def test_from_a_linked_worktree_the_main_checkout_is_found(repository: Repository, tmp_path: Path) -> None:
    git(repository.root, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "elsewhere"))
    found = open_repository(tmp_path / "elsewhere" / "src", os.environ)
    assert (found.root, found.git_dir) == (repository.root, repository.root / ".git")


def test_a_submodule_is_a_repository_of_its_own(repository: Repository, tmp_path: Path) -> None:
    make_repository(tmp_path / "library")
    git(repository.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"))
    found = open_repository(repository.root / "library/src", os.environ)
    assert (found.root, found.git_dir) == (repository.root / "library", repository.git_dir / "modules/library")
    assert start(found) == repository.root / "library/.worktrees/alice"


def test_variables_that_name_another_repository_are_ignored(repository: Repository, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    found = open_repository(repository.root, {**os.environ, "GIT_DIR": str(other.git_dir)})
    assert found.root == repository.root


def bare(folder: Path) -> Path:
    git(folder, "init", "--quiet", "--bare", "bare.git")
    return folder / "bare.git"


def worktree_of_bare(folder: Path) -> Path:
    make_repository(folder / "source")
    git(folder, "clone", "--quiet", "--bare", "source", "bare.git")
    git(folder / "bare.git", "worktree", "add", "--quiet", str(folder / "linked"), "main")
    return folder / "linked"


def worktree_of_bare_inside_another(folder: Path) -> Path:
    make_repository(folder / "around")
    return worktree_of_bare(folder / "around")


def inside_git_dir(folder: Path) -> Path:
    return make_repository(folder / "source").git_dir


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(lambda folder: folder, id="plain folder"),
        pytest.param(lambda folder: folder / "absent", id="no folder"),
        bare,
        worktree_of_bare,
        worktree_of_bare_inside_another,
        inside_git_dir,
    ],
)
def test_what_is_no_repository_with_a_work_tree_is_refused(tmp_path: Path, place: Callable[[Path], Path]) -> None:
    with pytest.raises(NotARepository):
        open_repository(place(tmp_path), os.environ)


def test_a_git_program_is_taken_only_from_absolute_folders(repository: Repository) -> None:
    with pytest.raises(Fault, match="`git` is not on the PATH"):
        open_repository(repository.root, {"PATH": "bin:."})


@pytest.mark.parametrize("folder", ["..", "/elsewhere", "a/../..", "", ".git/worktrees", "a//b"])
def test_worktrees_outside_the_repository_are_refused(repository: Repository, folder: str) -> None:
    with pytest.raises(InvalidConfiguration):
        open_repository(repository.root, os.environ, worktrees=folder)


# --- objects -----------------------------------------------------------------------------------------


def test_an_entry_is_found_by_its_plain_path_only(repository: Repository) -> None:
    tree = base_tree(repository)
    blob = ObjectId(git(repository.root, "rev-parse", "main:src/a.txt"))
    assert repository.objects.entry(tree, "src/a.txt") == TreeEntry(path="src/a.txt", mode=FileMode.FILE, oid=blob)
    for path in ["src/b.txt", "./src/a.txt", "src/../src/a.txt", "src//a.txt", "src/a.txt/", "*", "", "../x", "a\0b"]:
        assert repository.objects.entry(tree, path) is None, path


def test_an_entry_below_a_symlink_is_not_there(repository: Repository) -> None:
    (repository.root / "link").symlink_to("src")
    git(repository.root, "add", "link")
    git(repository.root, "commit", "--quiet", "-m", "link")
    tree = base_tree(repository)
    link = repository.objects.entry(tree, "link")
    assert link is not None
    assert (link.mode, repository.objects.blob(link.oid)) == (FileMode.SYMLINK, b"src")
    assert repository.objects.entry(tree, "link/a.txt") is None


def test_entries_list_a_tree_and_names_a_folder(repository: Repository) -> None:
    tree = base_tree(repository)
    assert [entry.path for entry in repository.objects.entries(tree)] == sorted(BASE)
    assert repository.objects.names(tree, "") == ("README.md", "src")
    assert repository.objects.names(tree, "src") == ("a.txt", "deep")
    assert repository.objects.names(tree, "README.md") == ()


def test_the_modes_of_old_trees_are_read_as_git_reads_them(repository: Repository) -> None:
    blob = git(repository.root, "hash-object", "-w", "README.md")
    odd = b"100664 a\0" + bytes.fromhex(blob)
    made = subprocess.run(
        ["git", "hash-object", "-w", "-t", "tree", "--literally", "--stdin"],
        cwd=repository.root, input=odd, capture_output=True, check=True, timeout=300,
    )  # fmt: skip
    tree = TreeId(ObjectId(made.stdout.decode().strip()))
    assert [entry.mode for entry in repository.objects.entries(tree)] == [FileMode.FILE]


def test_a_blob_and_its_size(repository: Repository) -> None:
    entry = repository.objects.entry(base_tree(repository), "README.md")
    assert entry is not None
    assert (repository.objects.blob(entry.oid), repository.objects.blob_size(entry.oid)) == (b"hello\n", 6)


@pytest.mark.parametrize("text", ["main", "HEAD", "--help", "0" * 39, "0" * 41, "A" * 40, "0" * 40 + "\n"])
def test_what_is_no_object_id_never_reaches_git(repository: Repository, text: str) -> None:
    with pytest.raises(Fault, match="is not a git object id"):
        repository.objects.blob(ObjectId(text))


def test_an_object_that_is_missing_is_a_fault_that_names_no_folder_of_this_machine(repository: Repository) -> None:
    with pytest.raises(Fault) as fault:
        repository.objects.blob(ObjectId("1" * 40))
    assert str(repository.root) not in str(fault.value)


def test_ancestry_counts_the_commit_itself(repository: Repository) -> None:
    old = head(repository)
    git(repository.root, "commit", "--quiet", "--allow-empty", "-m", "next")
    new = head(repository)
    assert [repository.objects.is_ancestor(*pair) for pair in [(old, new), (old, old), (new, old)]] == [
        True,
        True,
        False,
    ]


# --- patches and differences -------------------------------------------------------------------------


def test_a_patch_becomes_a_tree_and_touches_nothing_else(repository: Repository) -> None:
    folder = start(repository)
    base = base_tree(repository)
    before = user_state(repository)
    tree = patched(repository, base, CREATE_C + CHANGE_A + DELETE_B)
    assert [entry.path for entry in repository.objects.entries(tree)] == ["README.md", "src/a.txt", "src/c.txt"]
    assert [(change.kind, change.path) for change in repository.objects.changes(base, tree)] == [
        ("modify", "src/a.txt"),
        ("create", "src/c.txt"),
        ("delete", "src/deep/b.txt"),
    ]
    assert user_state(repository) == before
    assert not (folder / "src/c.txt").exists()
    assert list((repository.root / ".aop/tmp").iterdir()) == []


@pytest.mark.parametrize(
    "patch",
    [CHANGE_A.replace(b"three", b"four"), CREATE_C.replace(b"c.txt", b"a.txt"), b"", b"no diff at all\n"],
    ids=["context", "exists", "empty", "prose"],
)
def test_a_patch_that_does_not_fit_is_refused_with_gits_words(repository: Repository, patch: bytes) -> None:
    with pytest.raises(PatchDoesNotApply) as refused:
        patched(repository, base_tree(repository), patch)
    assert "error: " in refused.value.message
    assert str(repository.root) not in refused.value.message


@pytest.mark.hostile("D031")
def test_a_patch_reads_and_writes_nothing_but_the_tree(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret\n")
    copy = b"diff --git a/../secret.txt b/src/got.txt\ncopy from ../secret.txt\ncopy to src/got.txt\n"
    with pytest.raises(PatchDoesNotApply):
        patched(repository, base_tree(repository), copy)


def test_changes_show_both_sides(repository: Repository) -> None:
    base = base_tree(repository)
    new = tree_with(repository, {"src/a.txt": None, "z": "z\n"})
    a, z = repository.objects.entry(base, "src/a.txt"), repository.objects.entry(new, "z")
    assert repository.objects.changes(base, new) == (
        TreeChange(path="src/a.txt", old=a, new=None),
        TreeChange(path="z", old=None, new=z),
    )


def test_a_name_that_is_not_utf8_is_seen_as_such(repository: Repository) -> None:
    patch = CREATE_C.replace(b"a/src/c.txt", b'"a/\\377"').replace(b"b/src/c.txt", b'"b/\\377"')
    base = base_tree(repository)
    tree = repository.objects.apply_to_tree(base, patch, paths={"\udcff"})
    assert [change.path for change in repository.objects.changes(base, tree)] == ["\udcff"]


def test_settings_of_the_user_change_neither_changes_nor_diff(repository: Repository) -> None:
    base = base_tree(repository)
    new = patched(repository, base, CREATE_C + CHANGE_A)
    before = repository.objects.changes(base, new), repository.objects.diff(base, new)
    for setting in ["diff.noprefix", "diff.mnemonicPrefix", "diff.renames", "core.autocrlf", "diff.ignoreSubmodules"]:
        git(repository.root, "config", setting, "all" if setting == "diff.ignoreSubmodules" else "true")
    (repository.git_dir / "info/attributes").write_text("* -diff\n")
    assert (repository.objects.changes(base, new), repository.objects.diff(base, new)) == before


def test_a_diff_shows_new_files_and_only_the_paths_asked_for(repository: Repository) -> None:
    base = base_tree(repository)
    new = patched(repository, base, CREATE_C + CHANGE_A)
    assert b"+see\n" in repository.objects.diff(base, new)
    assert b"\n one\n" not in repository.objects.diff(base, new, context_lines=0)
    assert repository.objects.diff(base, new, paths=["src/c*"]) == b""
    assert repository.objects.diff(base, new, paths=["--output=evil"]) == b""
    assert b"a.txt" not in repository.objects.diff(base, new, paths=["src/c.txt"])
    assert (
        repository.objects.diff_stat(base, new).splitlines()[-1] == " 2 files changed, 2 insertions(+), 1 deletion(-)"
    )
    assert (
        repository.objects.diff_stat(base, new, paths=["src/c.txt"]).splitlines()[-1]
        == " 1 file changed, 1 insertion(+)"
    )


def test_attributes_in_a_tree_hide_nothing_from_the_diff(repository: Repository) -> None:
    base = base_tree(repository)
    new = tree_with(repository, {".gitattributes": "* -diff\n", "src/a.txt": "changed\n"})
    write_files(repository.root, {".gitattributes": "* -diff\n"})
    assert b"+changed\n" in repository.objects.diff(base, new)


# --- commits and merges ------------------------------------------------------------------------------


def test_the_same_arguments_make_the_same_commit(repository: Repository) -> None:
    tree, parent = base_tree(repository), head(repository)
    first = repository.objects.commit(tree, [parent], "One\n\nTwo\n", when=NOON)
    again = repository.objects.commit(
        tree, [parent], "One\n\nTwo\n", when=NOON.astimezone(timezone(timedelta(hours=5)))
    )
    assert first == again
    assert git(repository.root, "cat-file", "commit", first).splitlines() == [
        f"tree {tree}",
        f"parent {parent}",
        "author AOP <aop@localhost> 1893585600 +0000",
        "committer AOP <aop@localhost> 1893585600 +0000",
        "",
        "One",
        "",
        "Two",
    ]


def test_a_commit_names_the_author_of_the_repository(repository: Repository) -> None:
    git(repository.root, "config", "user.name", "Ada <x>")
    git(repository.root, "config", "user.email", "ada@example.org")
    git(repository.root, "config", "commit.gpgSign", "true")
    opened = open_repository(repository.root, os.environ)
    commit = opened.objects.commit(base_tree(opened), [], "x", when=NOON)
    assert git(repository.root, "log", "-1", "--format=%an|%ae|%cn|%ce|%G?", commit) == (
        "Ada x|ada@example.org|AOP|aop@localhost|N"
    )


@pytest.mark.parametrize("name", [None, "<>", " "])
def test_without_a_usable_name_aop_is_the_author(repository: Repository, name: str | None) -> None:
    git(repository.root, "config", "user.email", "ada@example.org")
    if name is not None:
        git(repository.root, "config", "user.name", name)
    opened = open_repository(repository.root, os.environ)
    commit = opened.objects.commit(base_tree(opened), [], "x", when=NOON)
    assert git(repository.root, "log", "-1", "--format=%an|%ae", commit) == "AOP|aop@localhost"


def test_a_moment_without_a_zone_makes_no_commit(repository: Repository) -> None:
    with pytest.raises(Fault):
        repository.objects.commit(base_tree(repository), [], "x", when=NOON.replace(tzinfo=None))


def commit_on_top(repository: Repository, files: dict[str, str | None]) -> CommitId:
    return repository.objects.commit(tree_with(repository, files), [head(repository)], "x", when=NOON)


@pytest.mark.hostile("M03")
def test_a_merge_gives_a_tree_or_the_paths_that_conflict(repository: Repository) -> None:
    ours = commit_on_top(repository, {"README.md": "ours\n"})
    theirs = commit_on_top(repository, {"src/a.txt": "theirs\n"})
    rival = commit_on_top(repository, {"README.md": "rival\n", "src/a.txt": "rival\n"})
    before = user_state(repository)
    both = tree_with(repository, {"README.md": "ours\n", "src/a.txt": "theirs\n"})
    assert repository.merges.merge(ours, Proposal(commit=theirs)) == MergedTree(tree=both)
    conflicted = repository.merges.merge(ours, Proposal(commit=rival))
    assert isinstance(conflicted, ConflictedPaths)
    assert (conflicted.stages, conflicted.between) == ({"README.md": (1, 2, 3)}, (ours, rival))
    entry = repository.objects.entry(conflicted.tree, "README.md")
    assert entry is not None
    assert b"ours\n|||||||" in repository.objects.blob(entry.oid)
    assert user_state(repository) == before


def test_commits_without_a_common_past_do_not_merge(repository: Repository) -> None:
    orphan = repository.objects.commit(base_tree(repository), [], "x", when=NOON)
    with pytest.raises(MergeConflict):
        repository.merges.merge(head(repository), Proposal(commit=orphan))


def test_a_merge_works_in_a_shallow_clone(repository: Repository, tmp_path: Path) -> None:
    git(repository.root, "commit", "--quiet", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository.root}", "shallow")
    shallow = open_repository(tmp_path / "shallow", os.environ)
    ours, theirs = commit_on_top(shallow, {"README.md": "x\n"}), commit_on_top(shallow, {"z": "z\n"})
    both = tree_with(shallow, {"README.md": "x\n", "z": "z\n"})
    assert shallow.merges.merge(ours, Proposal(commit=theirs)) == MergedTree(tree=both)


def test_a_repository_with_sha256_works_alike(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project", object_format="sha256")
    folder = start(repository)
    (folder / "src/c.txt").write_text("see\n")
    tree = patched(repository, base_tree(repository), CREATE_C)
    assert len(tree) == 64
    assert repository.worktrees.show_tree(ALICE, tree) == ()
    assert repository.worktrees.status(ALICE, tree).porcelain == "A  src/c.txt\n"


# --- refs --------------------------------------------------------------------------------------------


def test_an_absent_an_unborn_and_an_impossible_branch_have_no_head(repository: Repository, tmp_path: Path) -> None:
    git(repository.root, "branch", "a/b")
    git(tmp_path, "init", "--quiet", "-b", "main", "empty")
    assert open_repository(tmp_path / "empty", os.environ).branches.head("main") is None
    assert [repository.branches.head(name) for name in ["a", "absent", "-x", "", "main^", "HEAD", "../x"]] == [None] * 7


def test_a_branch_is_made_once(repository: Repository) -> None:
    commit = head(repository)
    repository.branches.create("x", commit)
    repository.branches.create("x", commit)
    assert repository.branches.head("x") == commit


def test_a_branch_that_is_elsewhere_is_not_taken(repository: Repository) -> None:
    git(repository.root, "branch", "x")
    git(repository.root, "branch", "taken/by-folder")
    other = commit_on_top(repository, {"z": "z\n"})
    with pytest.raises(BranchExists) as refused:
        repository.branches.create("x", other)
    assert refused.value.facts == {"branch": "x", "commit": head(repository)}
    with pytest.raises(BranchExists):
        repository.branches.create("taken", other)


@pytest.mark.hostile("M01")
def test_a_branch_moves_only_from_where_it_was_expected(repository: Repository) -> None:
    old = head(repository)
    new = commit_on_top(repository, {"z": "z\n"})
    assert repository.branches.move("main", to=new, old=old) is True
    assert repository.branches.move("main", to=old, old=old) is False
    assert repository.branches.move("absent", to=new, old=old) is False
    assert head(repository) == new


def test_a_kept_tree_survives_collection(repository: Repository) -> None:
    kept = tree_with(repository, {"kept": "kept\n"})
    lost = tree_with(repository, {"lost": "lost\n"})
    repository.branches.keep(ALICE, kept)
    (repository.git_dir / "index-of-a-test").unlink()
    git(repository.root, "gc", "--quiet", "--prune=now")
    assert [entry.path for entry in repository.objects.entries(kept)] == [
        "README.md",
        "kept",
        "src/a.txt",
        "src/deep/b.txt",
    ]
    with pytest.raises(Fault):
        repository.objects.entries(lost)


@pytest.mark.hostile("N01", "N02", "N03", "N05", "N07", "N13")
@pytest.mark.parametrize("name", ["--upload-pack=x", "-x", "a..b", "@", "refs/heads/x", "../../etc", "..", "/etc", ""])
def test_no_odd_feature_id_becomes_a_path_or_a_ref(repository: Repository, name: str) -> None:
    with pytest.raises(InvalidFeatureSlug):
        repository.worktrees.path(FeatureId(name))
    with pytest.raises(InvalidFeatureSlug):
        repository.worktrees.ensure(FeatureId(name), "x")
    with pytest.raises(InvalidFeatureSlug):
        repository.branches.keep(FeatureId(name), base_tree(repository))


@pytest.mark.parametrize(
    "name", ["-D", "a b", "a..b", "a~1", "x.lock", ".x", "a/.b", "a//b", "x/", "@{-1}", "a\n", "HEAD"]
)
def test_an_odd_branch_name_is_refused(repository: Repository, name: str) -> None:
    with pytest.raises(InvalidConfiguration):
        repository.branches.create(name, head(repository))
    with pytest.raises(InvalidConfiguration):
        repository.branches.move(name, to=head(repository), old=head(repository))


@pytest.mark.parametrize(
    "name", ["a", "a/b", "a.b", "a-b", "a@b", "a@{b", "a.", "a.lock", "a.lock/b", "a.locks", "{a}", "a:b", "\x7f", "é"]
)
def test_branch_names_are_judged_as_git_judges_them(repository: Repository, name: str) -> None:
    judged = subprocess.run(
        ["git", "check-ref-format", "--branch", name],
        cwd=repository.root,
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert is_branch_name(name) == (judged.returncode == 0)


# --- the user's checkout -----------------------------------------------------------------------------


def user_state(repository: Repository) -> dict[str, bytes]:
    """Return what C-55 says is never written: tracked files, HEAD, index and config of the user's checkout."""
    root = repository.root
    listed = git(root, "ls-files", "-z").split("\0")
    files = {path: (root / path).read_bytes() for path in listed if path}
    return files | {
        "HEAD": (root / ".git/HEAD").read_bytes(),
        "index": (root / ".git/index").read_bytes(),
        "config": (root / ".git/config").read_bytes(),
        "status": git(root, "-c", "core.fsmonitor=false", "status", "--porcelain").encode(),
    }


@pytest.mark.req("AOP-022")
def test_the_users_checkout_stays_as_it_is_through_a_feature(repository: Repository) -> None:
    root = repository.root
    repository.exclude_runtime_files()
    write_files(root, {"src/a.txt": "unfinished\n", "staged.txt": "staged\n", "untracked.txt": "mine\n"})
    git(root, "add", "staged.txt")
    git(root, "status")
    before = user_state(repository)
    start(repository)
    base = base_tree(repository)
    tree = patched(repository, base, CREATE_C + CHANGE_A)
    repository.worktrees.show_tree(ALICE, tree)
    repository.branches.keep(ALICE, tree)
    repository.worktrees.status(ALICE, tree)
    repository.worktrees.clear_strays(ALICE, tree)
    commit = repository.objects.commit(tree, [head(repository)], "feature", when=NOON)
    with repository.worktrees.scratch(commit):
        pass
    assert user_state(repository) == before
    assert repository.branches.move(ALICE, to=commit, old=head(repository))
    after = user_state(repository)
    assert after == before
    assert "worktreeConfig" not in (root / ".git/config").read_text()


@pytest.mark.hostile("M06")
def test_a_checkout_that_is_behind_is_left_alone_and_told_how_to_follow(repository: Repository) -> None:
    old = head(repository)
    new = commit_on_top(repository, {"src/a.txt": "merged\n", "new.txt": "new\n", "README.md": None})
    repository.branches.move("main", to=new, old=old)
    before = user_state(repository)
    advice = repository.worktrees.checkout_behind("main", old=old, new=new)
    assert user_state(repository) == before
    assert advice == (
        "`main` is checked out at the repository's root, and shows older files; update it with `aop sync`."
    )
    assert repository.checkout.follow("main") == CheckoutStep(old=old, new=new, files=3)
    assert git(repository.root, "status", "--porcelain", "--", "src", "new.txt", "README.md") == ""
    assert (repository.root / "src/a.txt").read_text() == "merged\n"


def test_following_keeps_local_changes_and_refuses_to_lose_them(repository: Repository) -> None:
    old = head(repository)
    new = commit_on_top(repository, {"src/a.txt": "merged\n"})
    repository.branches.move("main", to=new, old=old)
    write_files(repository.root, {"src/a.txt": "mine\n", "README.md": "mine too\n"})
    with pytest.raises(CheckoutChanged) as refused:
        repository.checkout.follow("main")
    assert refused.value.facts == {"paths": ["src/a.txt"]}
    assert (repository.root / "src/a.txt").read_text() == "mine\n"
    git(repository.root, "restore", "--source", old, "src/a.txt")
    assert repository.checkout.follow("main") == CheckoutStep(old=old, new=new, files=1)
    assert (repository.root / "src/a.txt").read_text() == "merged\n"
    assert (repository.root / "README.md").read_text() == "mine too\n"


def run_advice(root: Path, advice: str) -> None:
    command = advice.rpartition(" with `")[2].removesuffix("`.")
    subprocess.run(command, shell=True, cwd=root, check=True, capture_output=True, timeout=300)


def test_a_branch_that_nobody_looks_at_leaves_nothing_behind(repository: Repository, tmp_path: Path) -> None:
    start(repository)
    old, new = head(repository), commit_on_top(repository, {"z": "z\n"})
    assert repository.worktrees.checkout_behind(ALICE, old=old, new=new) is None
    git(repository.root, "worktree", "add", "--quiet", "-b", "watched", str(tmp_path / "with space"))
    advice = repository.worktrees.checkout_behind("watched", old=old, new=new)
    assert advice is not None
    assert advice.startswith("`watched` is checked out at `with space`, and still shows the files")
    assert str(tmp_path) not in advice
    assert repository.branches.move("watched", to=new, old=old)
    run_advice(tmp_path / "with space", advice)
    assert git(tmp_path / "with space", "status", "--porcelain") == ""
    assert (tmp_path / "with space/z").read_text() == "z\n"
    assert repository.worktrees.checkout_behind("watched", old=old, new=old) is None


EXCLUDED = [
    "/.aop/",
    "/.worktrees/",
    "/agentic/features/index.json",
    "/agentic/features/*/state.md",
    "/agentic/features/*/plan.json",
    "/agentic/features/*/qa_test_index.json",
    "/agentic/features/*/decisions.md",
    "/agentic/features/*/logs/",
    "/agentic/features/*/evidence/",
    "/ACTIVE_PR.json",
    "/ORCHESTRATION_STATE.json",
]


def test_runtime_files_are_excluded_once_and_the_users_lines_stay(repository: Repository) -> None:
    exclude = repository.git_dir / "info/exclude"
    exclude.write_text("*.mine\n/.aop/")
    repository.exclude_runtime_files()
    first = exclude.read_text()
    repository.exclude_runtime_files()
    assert exclude.read_text() == first
    lines = [line for line in first.splitlines() if not line.startswith("#")]
    assert lines == ["*.mine", *EXCLUDED]


def test_excluded_files_do_not_show_but_the_spec_does(repository: Repository) -> None:
    (repository.git_dir / "info/exclude").unlink()
    (repository.git_dir / "info").rmdir()
    repository.exclude_runtime_files()
    start(repository)
    ours = ["state.md", "plan.json", "qa_test_index.json", "decisions.md", "logs/x.log", "evidence/x.json"]
    features = {f"agentic/features/x/{name}": "" for name in [*ours, "spec.md"]}
    write_files(repository.root, {**features, "agentic/features/index.json": "{}"})
    status = git(repository.root, "status", "--porcelain", "-uall")
    assert status == "?? agentic/features/x/spec.md"
