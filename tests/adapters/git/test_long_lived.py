"""Git processes that stay: asked by many, restarted when they die, and never longer there than whoever started them."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aop.adapters.git.process.long_lived import Answers, LongLivedGit
from aop.adapters.git.repository import Repository, open_repository
from aop.core.errors import Fault
from aop.core.ids import ObjectId
from tests.adapters.git.repositories import ALICE, git, head, make_repository, tree_with, with_noted_git
from tests.racing import running, until


class Started:
    """Starts a program, and knows every process that it became."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        self.processes.append(subprocess.Popen(self._words, stdin=pipe, stdout=pipe, bufsize=0))
        return self.processes[-1]

    @property
    def codes(self) -> list[int | None]:
        return [process.poll() for process in self.processes]


def test_it_is_started_when_it_is_asked_and_asked_again_without_a_new_process() -> None:
    start = Started("cat")
    companion = LongLivedGit(start)
    assert start.codes == []
    assert [companion.ask(b"one\n", Answers.line), companion.ask(b"two\n", Answers.line)] == [b"one", b"two"]
    assert start.codes == [None]
    companion.close()
    assert start.codes == [0]


def test_one_that_died_is_started_again_and_one_that_was_closed_too() -> None:
    start = Started("cat")
    companion = LongLivedGit(start)
    companion.ask(b"one\n", Answers.line)
    start.processes[0].kill()
    start.processes[0].wait()
    assert companion.ask(b"two\n", Answers.line) == b"two"
    companion.close()
    assert companion.ask(b"three\n", Answers.line) == b"three"
    companion.close()
    assert start.codes == [-signal.SIGKILL, 0, 0]


@pytest.mark.parametrize(
    "words", [("false",), ("head", "-c", "2"), ("sleep", "60")], ids=["ends at once", "ends half-way", "says nothing"]
)
def test_one_that_does_not_answer_twice_is_a_fault(words: tuple[str, ...]) -> None:
    start = Started(*words)
    companion = LongLivedGit(start, seconds=0.05)
    with pytest.raises(Fault, match="before it answered"):
        companion.ask(b"one\n", Answers.line)
    assert len(start.codes) == 2
    assert None not in start.codes


def test_a_large_answer_comes_whole() -> None:
    companion = LongLivedGit(Started("sh", "-c", "head -c 3000000 /dev/zero; echo end; cat"))
    assert companion.ask(b"?\n", lambda answers: answers.exactly(3_000_000)) == b"\0" * 3_000_000
    assert companion.ask(b"!\n", lambda answers: answers.up_to(b"?\n!")) == b"end\n"
    companion.close()


def test_an_answer_that_was_not_read_to_its_end_is_not_taken_for_the_next_one() -> None:
    start = Started("cat")
    companion = LongLivedGit(start)

    def interrupted(answers: Answers) -> bytes:
        answers.exactly(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        companion.ask(b"one\n", interrupted)
    assert companion.ask(b"two\n", Answers.line) == b"two"
    companion.close()
    assert start.codes == [0, 0]


def test_everyone_who_asks_at_once_gets_his_own_answer() -> None:
    start = Started("cat")
    companion = LongLivedGit(start)
    questions = [b"%d" % number * 500 for number in range(400)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda question: companion.ask(question + b"\n", Answers.line), questions))
    companion.close()
    assert (answers, len(start.processes)) == (questions, 1)


def test_one_that_nobody_holds_any_more_is_ended() -> None:
    start = Started("cat")
    companion = LongLivedGit(start)
    companion.ask(b"one\n", Answers.line)
    del companion
    gc.collect()
    assert start.codes == [0]


def test_its_pipes_are_not_handed_to_other_programs() -> None:
    start = Started("cat")
    companion = LongLivedGit(start)
    companion.ask(b"one\n", Answers.line)
    pipes = (start.processes[0].stdin, start.processes[0].stdout)
    assert [os.get_inheritable(pipe.fileno()) for pipe in pipes if pipe] == [False, False]
    companion.close()


# --- those of a repository ---------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "project")


def children_of(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


ASKING = """
from aop.adapters.git.repository import open_repository
from aop.kernel.ports.git import FileMode
git = open_repository(Path(sys.argv[1]), os.environ)
tree = git.objects.tree_of(git.branches.head("main"))
git.branches.keep("alice", tree)
# What changes in one place is told without git.
one, two = (git.objects.tree_with(tree, {"a": (FileMode.FILE, text)}) for text in (b"1\\n2\\n3\\n", b"x\\n2\\ny\\n"))
git.objects.diff(one, two, context_lines=0)
git.objects.blob_size(git.objects.entry(tree, "README.md").oid)
ready()
"""


@pytest.mark.hostile("S30")
def test_they_end_with_the_process_that_started_them(repository: Repository) -> None:
    with running(ASKING, repository.root) as asking:
        companions = children_of(asking.pid)
        assert len(companions) == 3
        asking.send_signal(signal.SIGKILL)
        asking.wait()
    until(lambda: not any(Path(f"/proc/{companion}").exists() for companion in companions))


def test_closing_a_repository_ends_them_and_it_can_be_asked_again(repository: Repository) -> None:
    before = set(children_of(os.getpid()))
    blob = ObjectId(git(repository.root, "rev-parse", "main:README.md"))
    assert repository.objects.blob_size(blob) == 6
    assert len(set(children_of(os.getpid())) - before) == 1
    repository.close()
    assert set(children_of(os.getpid())) == before
    assert repository.objects.blob_size(blob) == 6
    repository.close()


@pytest.mark.parametrize("how", ["loose", "packed"])
def test_an_object_that_another_process_wrote_meanwhile_is_found(repository: Repository, how: str) -> None:
    git(repository.root, "repack", "-adq")
    assert repository.objects.blob(ObjectId(git(repository.root, "rev-parse", "main:README.md"))) == b"hello\n"
    (repository.root / "README.md").write_text("new\n")
    git(repository.root, "commit", "--quiet", "-a", "-m", "new")
    if how == "packed":
        git(repository.root, "repack", "-adq")
        git(repository.root, "prune-packed", "--quiet")
    entry = repository.objects.entry(repository.objects.tree_of(head(repository)), "README.md")
    assert entry is not None
    assert (repository.objects.blob(entry.oid), repository.objects.blob_size(entry.oid)) == (b"new\n", 4)


def test_an_object_whose_file_is_damaged_is_a_fault_and_not_its_content(repository: Repository) -> None:
    oid = ObjectId(git(repository.root, "rev-parse", "main:README.md"))
    other = git(repository.root, "rev-parse", "main:src/a.txt")
    objects = repository.git_dir / "objects"
    file = objects / oid[:2] / oid[2:]
    file.chmod(0o644)
    file.write_bytes(b"no object")
    with pytest.raises(Fault):
        repository.objects.blob(oid)
    file.write_bytes((objects / other[:2] / other[2:]).read_bytes())
    with pytest.raises(Fault, match="is damaged"):
        repository.objects.blob(oid)


def test_what_is_not_a_blob_is_none(repository: Repository) -> None:
    tree = repository.objects.tree_of(head(repository))
    for oid in (ObjectId(tree), ObjectId("0" * 40)):
        with pytest.raises(Fault, match="There is no blob"):
            repository.objects.blob(oid)
        with pytest.raises(Fault, match="There is no blob"):
            repository.objects.blob_size(oid)


SLOW_GIT = """#!/bin/sh
case "$*" in *--stdin) while [ ! -e {go} ]; do sleep 0.01; done;; esac
exec {git} "$@"
"""
WAITING = """
import threading
from aop.adapters.git.repository import open_repository
git = open_repository(Path(sys.argv[1]), {**os.environ, "PATH": f"{sys.argv[2]}:{os.environ['PATH']}"})
git.branches._writer._start_process()
writing = threading.Thread(target=git.branches.keep, args=("alice", sys.argv[3]), daemon=True)
writing.start()
while not os.path.getsize(Path(sys.argv[1], ".aop/locks/refs")):
    writing.join(0.01)
ready()
"""


@pytest.mark.hostile("S30")
def test_one_that_is_about_to_write_a_ref_for_a_dead_aop_keeps_the_lock_for_as_long(
    repository: Repository, tmp_path: Path
) -> None:
    tree = repository.objects.tree_of(head(repository))
    (tmp_path / "git").write_text(SLOW_GIT.format(go=tmp_path / "go", git=shutil.which("git")))
    (tmp_path / "git").chmod(0o755)
    with running(WAITING, repository.root, tmp_path, tree) as asking:
        asking.send_signal(signal.SIGKILL)
        asking.wait()
    note = os.open(repository.root / ".aop/locks/refs", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (tmp_path / "go").touch()
    fcntl.flock(note, fcntl.LOCK_EX)
    os.close(note)
    repository.branches.keep(ALICE, tree)
    assert git(repository.root, "rev-parse", "refs/aop/features/alice") == tree


def test_branches_move_without_a_new_process_once_one_has_moved(repository: Repository, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    counted, first = open_repository(repository.root, with_noted_git(starts)), head(repository)
    git(repository.root, "commit", "--quiet", "--allow-empty", "-m", "second")
    second = head(repository)
    for name in ("one", "two"):
        git(repository.root, "branch", name, first)
    assert counted.branches.move("one", to=second, old=first)
    before = starts.read_text()
    assert counted.branches.move("two", to=second, old=first)
    assert counted.branches.move("one", to=first, old=second)
    assert starts.read_text() == before
    assert not counted.branches.move("one", to=second, old=second)
    counted.close()


def test_notes_go_on_in_a_new_file_when_somebody_removed_the_old_one(repository: Repository) -> None:
    tree = repository.objects.tree_of(head(repository))
    repository.branches.keep(ALICE, tree)
    shutil.rmtree(repository.root / ".aop/locks")
    repository.branches.keep(ALICE, tree)
    assert (repository.root / ".aop/locks/refs").read_bytes() == b""
    repository.close()


def test_a_kept_ref_that_a_power_cut_has_emptied_is_written_again(repository: Repository) -> None:
    tree = repository.objects.tree_of(head(repository))
    repository.branches.keep(ALICE, tree)
    (repository.git_dir / "refs/aop/features/alice").write_bytes(b"")
    repository.branches.keep(ALICE, tree)
    assert git(repository.root, "rev-parse", "refs/aop/features/alice") == tree


@pytest.mark.parametrize("state", ["loose", "packed"])
def test_a_kept_ref_moves_on_however_git_holds_it(repository: Repository, state: str) -> None:
    trees = [tree_with(repository, {"src/a.txt": text}) for text in ("a", "b")]
    repository.branches.keep(ALICE, trees[0])
    if state == "packed":
        git(repository.root, "pack-refs", "--all", "--prune")
    repository.branches.keep(ALICE, trees[1])
    assert git(repository.root, "rev-parse", "refs/aop/features/alice") == trees[1]
    assert os.listdir(repository.git_dir / "refs/aop/features") == ["alice"]
