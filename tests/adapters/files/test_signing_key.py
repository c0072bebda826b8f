"""The signing key: made once, readable by its owner only, and never a weak one."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aop.adapters.files.signing_key import FileSigner
from aop.core.errors import Fault
from tests.racing import race


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "approval.key"


def test_a_signature_holds_for_its_text_and_its_key_only(path: Path) -> None:
    signature = FileSigner(path).sign(b"text")
    other = FileSigner(path.with_name("other.key"))
    judged = {
        "itself": FileSigner(path).verify(b"text", signature),
        "another text": FileSigner(path).verify(b"texts", signature),
        "another key": other.verify(b"text", signature),
        "cut": FileSigner(path).verify(b"text", signature[:-1]),
        "longer": FileSigner(path).verify(b"text", signature + "A"),
        "empty": FileSigner(path).verify(b"text", ""),
        "not ASCII": FileSigner(path).verify(b"text", "ä"),
    }
    assert [name for name, holds in judged.items() if holds] == ["itself"]


def test_a_signature_is_text_that_a_url_can_carry(path: Path) -> None:
    signatures = [FileSigner(path).sign(bytes([number])) for number in range(64)]
    assert {len(signature) for signature in signatures} == {43}
    assert all(signature.replace("-", "").replace("_", "").isalnum() for signature in signatures)


def test_only_the_owner_can_read_the_key(path: Path) -> None:
    FileSigner(path).sign(b"text")
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]
    assert (modes, len(path.read_bytes())) == ([0o600, 0o700], 32)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


SIGN = """
from aop.adapters.files.signing_key import FileSigner
ready()
print(json.dumps(FileSigner(Path(sys.argv[1])).sign(b"text")))
"""


def test_processes_that_make_the_key_together_all_use_one(path: Path) -> None:
    signatures = race(SIGN, [(path,)] * 6)
    assert signatures == [FileSigner(path).sign(b"text")] * 6


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 33], ids=["empty", "short", "long"])
def test_a_key_that_was_damaged_signs_nothing(path: Path, key: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(key)
    with pytest.raises(Fault, match=r"`approval\.key` does not have 32 bytes"):
        FileSigner(path).sign(b"text")
    with pytest.raises(Fault, match=r"`approval\.key` does not have 32 bytes"):
        FileSigner(path).verify(b"text", "")
    assert path.read_bytes() == key


def replaced(path: Path) -> None:
    beside = path.with_name("beside")
    beside.write_bytes(b"y" * 32)
    beside.replace(path)


def changed(path: Path) -> None:
    path.write_bytes(b"y" * 32)
    # The test may be faster than the clock of the file system.
    os.utime(path, ns=(0, 10**9))


@pytest.mark.parametrize("change", [replaced, changed, Path.unlink])
def test_a_signer_that_has_read_the_key_uses_the_one_that_is_there_now(
    path: Path, change: Callable[[Path], Any]
) -> None:
    signer = FileSigner(path, now_ns=lambda: time.time_ns() + 60 * 10**9)
    before = signer.sign(b"text")
    assert [signer.sign(b"text") for _ in range(3)] == [before] * 3
    change(path)
    now = signer.sign(b"text")
    assert now != before
    assert now == FileSigner(path).sign(b"text")
