"""Objects last from the moment they are written, though nobody waits for their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aop.adapters.git.objects.loose import LooseObjects, id_of, object_bytes
from aop.adapters.git.objects.write_ahead_log import CAPACITY, LARGEST, ObjectLog
from aop.core.errors import PathOutOfBounds
from aop.core.ids import ObjectId
from tests.adapters.git.repositories import git


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    return tmp_path


def opened(root: Path, boot: str = "first") -> LooseObjects:
    return LooseObjects(root / ".git/objects", ObjectLog(root, lambda: boot))


def blobs(*contents: bytes) -> dict[ObjectId, bytes]:
    wholes = [object_bytes("blob", content) for content in contents]
    return {id_of(whole, digest_size=20): whole for whole in wholes}


def file_of(root: Path, oid: str) -> Path:
    return root / ".git/objects" / oid[:2] / oid[2:]


def content_of(root: Path, oid: str) -> bytes:
    return git(root, "cat-file", "blob", oid).encode()


def emptied(file: Path) -> None:
    file.chmod(0o644)
    file.write_bytes(b"")


def cut_short(file: Path) -> None:
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-3])


@pytest.mark.parametrize("damage", [emptied, cut_short, Path.unlink])
def test_after_a_power_cut_the_files_that_it_took_are_written_again(root: Path, damage: Callable[[Path], None]) -> None:
    one, two = blobs(b"one", b"two"), blobs(b"three")
    opened(root).write(one)
    opened(root).write(two)
    (first, _), (last,) = one, two
    for oid in (first, last):
        damage(file_of(root, oid))
    opened(root, "second").restore()
    assert (content_of(root, first), content_of(root, last)) == (b"one", b"three")
    git(root, "fsck", "--strict")


def test_what_was_restored_is_not_looked_at_again(root: Path) -> None:
    (oid,) = one = blobs(b"one")
    opened(root).write(one)
    opened(root, "second").restore()
    file_of(root, oid).unlink()
    opened(root, "third").restore()
    assert not file_of(root, oid).exists()


def test_while_the_machine_runs_nothing_is_restored(root: Path) -> None:
    (oid,) = one = blobs(b"one")
    opened(root).write(one)
    file_of(root, oid).unlink()
    opened(root).restore()
    assert not file_of(root, oid).exists()


def test_where_nobody_can_tell_whether_the_machine_was_started_anew_all_is_restored(root: Path) -> None:
    (oid,) = one = blobs(b"one")
    opened(root, "").write(one)
    emptied(file_of(root, oid))
    opened(root, "").restore()
    assert content_of(root, oid) == b"one"


def test_without_anything_written_there_is_nothing_to_restore_and_no_log(root: Path) -> None:
    opened(root).restore()
    opened(root).flush()
    assert not (root / ".aop").exists()


def test_several_processes_write_one_log(root: Path) -> None:
    one, other = opened(root), opened(root)
    written: list[ObjectId] = []
    for number in range(6):
        objects = blobs(b"%d" % number)
        (one if number % 2 else other).write(objects)
        written += objects
    for oid in written:
        emptied(file_of(root, oid))
    opened(root, "second").restore()
    assert [content_of(root, oid) for oid in written] == [b"%d" % number for number in range(6)]


def noise(number: int, size: int) -> bytes:
    return b"".join(id_of(b"%d %d" % (number, part), digest_size=32).encode() for part in range(size // 64))


def test_a_log_that_is_full_begins_anew_when_the_files_in_it_are_on_the_disk(root: Path) -> None:
    flushed: list[list[str]] = []

    def flush(names: Iterable[str]) -> None:
        flushed.append(list(names))

    log = ObjectLog(root, lambda: "first")
    piece = noise(0, LARGEST * 3 // 4)
    for number in range(7):
        with log.hold({f"file{number}": piece}, flush) as is_logged:
            assert is_logged
    assert flushed == [[f"file{number}" for number in range(5)]]
    assert (root / ".aop/objects.log").stat().st_size == CAPACITY
    assert ObjectLog(root, lambda: "second").lost() == {"file5": piece, "file6": piece}


def test_what_is_too_large_for_the_log_is_flushed_on_its_own(root: Path) -> None:
    (oid,) = one = blobs(noise(1, CAPACITY))
    opened(root).write(one)
    assert ObjectLog(root, lambda: "second").lost() == {}
    assert len(content_of(root, oid)) == CAPACITY


def test_what_somebody_else_wrote_behind_a_batch_that_was_cut_short_is_found(root: Path) -> None:
    log = ObjectLog(root, lambda: "first")
    with log.hold({"one": b"1"}, list):
        whole = (root / ".aop/objects.log").read_bytes().rstrip(b"\0")
    with log.hold({"two": b"2" * 999}, list):
        pass
    with open(root / ".aop/objects.log", "r+b") as file:
        file.seek(len(whole) + 500)
        file.write(b"torn")
    with ObjectLog(root, lambda: "first").hold({"three": b"3"}, list):
        pass
    assert ObjectLog(root, lambda: "second").lost() == {"one": b"1", "three": b"3"}


def test_flushed_files_are_gone_from_the_log(root: Path) -> None:
    objects = opened(root)
    objects.write(blobs(b"one"))
    git(root, "gc", "--quiet", "--prune=now")
    objects.write(blobs(b"two"))
    objects.flush()
    assert ObjectLog(root, lambda: "second").lost() == {}
    objects.write(blobs(b"three"))
    assert list(ObjectLog(root, lambda: "second").lost()) == list(blobs(b"three"))


@given(
    batches=st.lists(st.tuples(st.booleans(), st.binary(max_size=60)), min_size=1, max_size=8),
    torn_at=st.integers(min_value=0, max_value=1200),
)
def test_cut_off_anywhere_the_log_has_the_batches_that_were_flushed_before_as_plain_files_would(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[bool, bytes]], torn_at: int
) -> None:
    root = tmp_path_factory.mktemp("log")
    logs = ObjectLog(root, lambda: "first"), ObjectLog(root, lambda: "first")
    path, flushed, ends = root / ".aop/objects.log", dict[str, bytes](), list[int]()
    for number, (by_other, content) in enumerate(batches):
        with logs[by_other].hold({f"file{number}": content}, list):
            flushed[f"file{number}"] = content
        ends.append(len(path.read_bytes().rstrip(b"\0")))
    with open(path, "r+b") as file:
        file.seek(torn_at)
        file.write(b"\xff" * (CAPACITY - torn_at))
    assert ObjectLog(root, lambda: "second").lost() == {
        name: content for (name, content), end in zip(flushed.items(), ends, strict=True) if end <= torn_at
    }


@pytest.mark.hostile("G11")
def test_a_link_in_place_of_the_log_is_not_written_through(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (root / ".aop").symlink_to(outside)
    with pytest.raises(PathOutOfBounds):
        opened(root).write(blobs(b"one"))
    assert list(outside.iterdir()) == []
    (root / ".aop").unlink()
    (root / ".aop").mkdir()
    (root / ".aop/objects.log").symlink_to(outside / "log")
    with pytest.raises(OSError, match="symbolic link"):
        opened(root).write(blobs(b"one"))
    assert list(outside.iterdir()) == []
