"""Objects in files of their own: written so that git reads them, and read as git does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aop.adapters.git.objects.loose import LooseObjects, id_of, object_bytes
from aop.adapters.git.repository import Repository
from tests.adapters.git.random_trees import PlainGit
from tests.adapters.git.repositories import make_repository


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
