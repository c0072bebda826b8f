"""Files that a person named: only plain ones are read and replaced, and nothing waits for a pipe."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from aop.adapters.files.user_files import put_plain_file, read_plain_file
from aop.core.errors import InputPathNotFound


def test_a_plain_file_is_read_up_to_a_limit_and_an_absent_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345678")
    assert read_plain_file(tmp_path / "file", most=5) == b"12345"
    assert read_plain_file(tmp_path / "absent", most=5) is None


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


OTHERS: list[Callable[[Path], object]] = [
    os.mkfifo,
    os.mkdir,
    listening,
    lambda path: os.symlink("/etc/hostname", path),
    lambda path: os.symlink("/dev/zero", path),
    lambda path: os.symlink(path, path),
]


@pytest.mark.parametrize("make", OTHERS, ids=["pipe", "folder", "socket", "link", "device", "loop"])
def test_what_is_not_a_plain_file_is_neither_read_nor_replaced(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "it")
    before = os.lstat(tmp_path / "it")
    with pytest.raises(InputPathNotFound, match="cannot be read: "):
        read_plain_file(tmp_path / "it", most=5)
    with pytest.raises(InputPathNotFound, match="cannot be written: "):
        put_plain_file(tmp_path / "it", b"new")
    assert os.lstat(tmp_path / "it").st_ino == before.st_ino
    assert os.listdir(tmp_path) == ["it"]


def test_a_plain_file_is_replaced_whole(tmp_path: Path) -> None:
    put_plain_file(tmp_path / "it", b"old")
    put_plain_file(tmp_path / "it", b"new")
    assert (os.listdir(tmp_path), (tmp_path / "it").read_bytes()) == (["it"], b"new")
