"""Objects in files of their own: written so that git reads them, and read as git does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aop.adapters.git.objects.loose import LooseObjects, id_of, object_bytes
from aop.adapters.git.repository import Repository
from tests.adapters.git.random_trees import PlainGit
from tests.adapters.git.repositories import make_repository
from tests.soak.faults import STRACE, needs_strace


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def repository(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Repository]:
    made = make_repository(tmp_path_factory.mktemp("loose") / "project", object_format=request.param)
    yield made
    made.close()


def digest_size(plain: PlainGit) -> int:
    return len(plain("rev-parse", "HEAD").strip()) // 2


@settings(max_examples=15)
@given(content=st.binary(max_size=400) | st.binary(min_size=1, max_size=4).map(lambda piece: piece * 20_000))
def test_git_reads_what_aop_wrote_and_aop_reads_what_git_wrote(repository: Repository, content: bytes) -> None:
    plain, loose = PlainGit(repository.root), LooseObjects(Path(repository.git_dir, "objects"))
    ours, theirs = content + b"ours", content + b"theirs"
    whole = object_bytes("blob", ours)
    oid = id_of(whole, digest_size=digest_size(plain))
    loose.write({oid: whole})
    assert plain("cat-file", "blob", oid) == ours
    written = plain("hash-object", "-w", "--stdin", stdin=theirs).decode().strip()
    assert written == id_of(object_bytes("blob", theirs), digest_size=digest_size(plain))
    assert loose.read(written) == ("blob", theirs)


FLUSHES = """
import os, sys, time
from pathlib import Path
from aop.adapters.git.objects.loose import LooseObjects

loose, folder = LooseObjects(Path(sys.argv[1])), f"{sys.argv[1]}/00"
os.mkdir(folder)
for name, earlier in (("first", 100_000_000), ("", 0), ("second", 50_000_000), ("third", -1_000_000_000), ("", 0)):
    if name:
        Path(folder, name).touch()
        then = time.time_ns() - earlier
        os.utime(folder, ns=(then, then))
    loose.flush_names()
    os.access("next", os.F_OK)
"""


@needs_strace
def test_a_folder_is_flushed_again_only_if_it_changed_or_changed_just_now(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    traced = [str(STRACE), "-qq", "-y", "-o", str(tmp_path / "trace"), "-e", "trace=fsync,access"]
    subprocess.run([*traced, sys.executable, "-c", FLUSHES, str(tmp_path / "objects")], check=True)
    trace = (tmp_path / "trace").read_text()
    rounds = trace[trace.index("objects") :].split('access("next"')[:-1]
    flushed = [each.count("objects/00>") for each in rounds]
    # The third name came in this very moment: another could follow it at the same time of the clock.
    assert flushed == [1, 0, 1, 1, 1]
