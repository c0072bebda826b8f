"""The files that AOP owns: whole or absent, never through a link, never without a limit."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from aop.adapters.files.repository_files import RepositoryFiles
from aop.core.errors import Fault, FileNotFound
from tests.racing import running

STATE = "agentic/features/one/state.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def files(root: Path) -> RepositoryFiles:
    return RepositoryFiles(root)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# --- plain files ---------------------------------------------------------------------------------


@pytest.mark.req("AOP-026")
@pytest.mark.parametrize("content", [b"", b"text\n", bytes(range(256)) * 5000])
def test_what_is_written_is_read_back_and_leaves_nothing_beside_it(
    files: RepositoryFiles, root: Path, content: bytes
) -> None:
    files.write(STATE, b"what was there before, and is longer")
    files.write(STATE, content)
    assert files.read(STATE, limit=len(content)) == content
    assert files.fingerprint(STATE) == hashlib.sha256(content).hexdigest()
    assert [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()] == [STATE]


def test_nothing_is_where_nothing_was_written(files: RepositoryFiles) -> None:
    found = (files.read(STATE, limit=9), files.fingerprint(STATE), files.read_tail(STATE, limit=9))
    assert found == (None, None, b"")
    files.remove(STATE)


def test_a_removed_file_is_gone(files: RepositoryFiles) -> None:
    files.write(STATE, b"text")
    files.remove(STATE)
    assert files.read(STATE, limit=9) is None


def test_a_file_beyond_the_limit_is_not_read(files: RepositoryFiles, root: Path) -> None:
    files.write("a", b"12345")
    with pytest.raises(FileNotFound, match="`a` has 5 bytes; at most 4 are read"):
        files.read("a", limit=4)
    os.truncate(root / "a", 1 << 40)
    with pytest.raises(FileNotFound, match="at most 4 are read"):
        files.read("a", limit=4)


@pytest.mark.parametrize(("limit", "tail"), [(3, b"345"), (5, b"12345"), (9, b"12345")])
def test_the_tail_of_a_file_is_its_last_bytes(files: RepositoryFiles, limit: int, tail: bytes) -> None:
    files.write("a", b"12345")
    assert files.read_tail("a", limit=limit) == tail


@pytest.mark.req("AOP-026")
@pytest.mark.hostile("S37")
def test_a_reader_sees_the_old_or_the_new_content_and_never_a_part(files: RepositoryFiles, root: Path) -> None:
    versions = [letter * 200_000 for letter in (b"a", b"b")]
    files.write(STATE, versions[0])
    seen, enough = set[bytes](), threading.Event()

    def look() -> None:
        while not enough.is_set():
            seen.add((root / STATE).read_bytes())

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for turn in range(40):
        files.write(STATE, versions[turn % 2])
    enough.set()
    for reader in readers:
        reader.join()
    assert seen <= set(versions)


# --- what is no plain file -----------------------------------------------------------------------


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nothing")


def make_folder_with_a_file(path: Path) -> None:
    path.mkdir()
    (path / "kept").write_text("kept")


def make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # The address of a socket is at most 108 bytes long.
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)
    os.chdir(here)


NOT_FILES: list[Callable[[Path], None]] = [
    make_link, make_dangling_link, os.mkfifo, make_folder_with_a_file, make_socket,
]  # fmt: skip
no_plain_file = pytest.mark.parametrize("make", NOT_FILES, ids=["link", "dangling", "fifo", "folder", "socket"])


@pytest.mark.hostile("S13")
@no_plain_file
def test_what_is_no_plain_file_is_not_read(files: RepositoryFiles, root: Path, make: Callable[[Path], None]) -> None:
    make(root / "a")
    before = open_descriptors()
    with pytest.raises(FileNotFound, match="`a` cannot be read"):
        files.read("a", limit=1 << 20)
    assert files.read_tail("a", limit=1 << 20) == b""
    assert (files.fingerprint("a") or "").startswith("no plain file: ")
    assert open_descriptors() == before


@pytest.mark.hostile("S13")
@no_plain_file
def test_what_is_no_plain_file_is_set_aside_as_it_is(
    files: RepositoryFiles, root: Path, make: Callable[[Path], None]
) -> None:
    make(root / "a")
    before = os.lstat(root / "a")
    place = files.set_aside("a")
    assert os.path.samestat(os.lstat(root / place), before)
    assert (place.split("/")[:2], Path(place).name) == ([".aop", "quarantine"], "a")
    files.write("a", b"text")
    assert files.read("a", limit=9) == b"text"


def test_two_files_of_one_name_are_set_aside_side_by_side(files: RepositoryFiles, root: Path) -> None:
    places = []
    for content in (b"first", b"second"):
        files.write(STATE, content)
        places.append(files.set_aside(STATE))
    assert [(root / place).read_bytes() for place in places] == [b"first", b"second"]


@pytest.mark.hostile("S13")
def test_no_link_on_the_way_is_followed(files: RepositoryFiles, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "state.md").write_text("not AOP's")
    (root / "agentic/features").mkdir(parents=True)
    (root / "agentic/features/one").symlink_to(outside)
    with pytest.raises(FileNotFound, match="cannot be read"):
        files.read(STATE, limit=99)
    with pytest.raises(FileNotFound, match="cannot be removed"):
        files.remove(STATE)
    for act in (files.fingerprint, files.set_aside, lambda path: files.write(path, b"AOP's")):
        with pytest.raises(Fault, match=f"`{STATE}` cannot be"):
            act(STATE)
    assert files.read_tail(STATE, limit=99) == b""
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("state.md", "not AOP's")]


def test_a_folder_is_not_removed_as_if_it_were_a_file(files: RepositoryFiles, root: Path) -> None:
    make_folder_with_a_file(root / "a")
    with pytest.raises(FileNotFound, match="`a` cannot be removed"):
        files.remove("a")
    assert (root / "a/kept").read_text() == "kept"


def test_a_link_is_removed_and_what_it_names_is_not(files: RepositoryFiles, root: Path) -> None:
    (root / "kept").write_text("kept")
    (root / "a").symlink_to("kept")
    files.remove("a")
    assert [path.name for path in root.iterdir()] == ["kept"]


# --- writing that fails or dies ------------------------------------------------------------------


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(files: RepositoryFiles, root: Path) -> None:
    make_folder_with_a_file(root / "a")
    before, names = open_descriptors(), sorted(path.name for path in root.iterdir())
    with pytest.raises(Fault, match="`a` cannot be written: Is a directory"):
        files.write("a", b"text")
    assert (sorted(path.name for path in root.iterdir()), (root / "a/kept").read_text()) == (names, "kept")
    assert open_descriptors() == before


FILL_THE_DISK = """
import resource
from aop.adapters.files.repository_files import RepositoryFiles
from aop.core.errors import Fault
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    RepositoryFiles(Path(sys.argv[1])).write("a", b"x" * 5000)
except Fault as fault:
    print("ready", fault)
"""


@pytest.mark.hostile("S09")
def test_a_disk_that_takes_only_a_part_keeps_the_old_content(files: RepositoryFiles, root: Path) -> None:
    files.write("a", b"old")
    with running(FILL_THE_DISK.replace('print("ready", fault)', "ready(); print(fault)"), root) as child:
        said, _ = child.communicate("go\n", timeout=300)
    assert said == "`a` cannot be written: File too large.\n"
    assert [(path.name, path.read_bytes()) for path in root.iterdir()] == [("a", b"old")]


DIE_BEFORE_THE_RENAME = """
import os, signal
from aop.adapters.files.repository_files import RepositoryFiles
sys.addaudithook(lambda event, _: event == "os.rename" and os.kill(os.getpid(), signal.SIGKILL))
ready()
RepositoryFiles(Path(sys.argv[1])).write("a", b"lost")
"""


@pytest.mark.hostile("S35")
def test_killed_writers_leave_one_file_at_most_and_the_next_one_removes_it(files: RepositoryFiles, root: Path) -> None:
    files.write("a", b"old")
    (root / ".aop-notes.tmp").touch()
    for _ in range(3):
        with running(DIE_BEFORE_THE_RENAME, root) as child:
            child.communicate("go\n", timeout=300)
        assert sorted(path.name for path in root.iterdir()) == [".aop-a.tmp", ".aop-notes.tmp", "a"]
    files.write("a", b"new")
    assert sorted(path.name for path in root.iterdir()) == [".aop-notes.tmp", "a"]


@pytest.mark.hostile("S35")
def test_a_file_is_removed_with_what_a_killed_writer_of_it_left(files: RepositoryFiles, root: Path) -> None:
    (root / ".aop-notes.tmp").touch()
    with running(DIE_BEFORE_THE_RENAME, root) as child:
        child.communicate("go\n", timeout=300)
    assert sorted(path.name for path in root.iterdir()) == [".aop-a.tmp", ".aop-notes.tmp"]
    files.remove("a")
    assert [path.name for path in root.iterdir()] == [".aop-notes.tmp"]
