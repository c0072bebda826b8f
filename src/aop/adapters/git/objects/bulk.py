"""Bulk reads: all files of a tree, and many blobs by one git process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import IO, cast

from msgspec import Struct

from aop.adapters.git.objects.loose import id_of, object_bytes
from aop.adapters.git.process.output import file_mode, object_id, text_of
from aop.adapters.git.process.program import GitDir
from aop.core.errors import UnknownRef
from aop.core.ids import CommitId, ObjectId
from aop.kernel.ports.git import FileMode


class SizedEntry(Struct, frozen=True, gc=False):
    """One file of a tree, and its size; 0 for an entry that is not a blob."""

    path: str
    mode: FileMode
    oid: str
    size: int


def commit_named(git: GitDir, ref: str) -> CommitId:
    """Return the commit that a branch, a tag or an id names. Raises: UnknownRef, with the words of git."""
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    ran = git.run(*asked, fine=(0, 1, 128))
    # Git resolves `^REF`, which leaves commits out, to an id with a mark.
    if ran.code == 0 and not ran.out.startswith(b"^"):
        return CommitId(ObjectId(object_id(ran.out.decode("ascii").strip())))
    said = re.sub(r"^(?:fatal|error): ", "", ran.err.partition("\n")[0])
    words = f": git says `{said}`" if said else ""
    raise UnknownRef(f"`{ref}` names no commit of this repository{words}.")


def sized_entries(git: GitDir, tree: str) -> Iterator[SizedEntry]:
    """Return all files of a tree, in git's order."""
    for record in git.run("ls-tree", "-r", "-l", "-z", "--full-tree", object_id(tree)).out.split(b"\0")[:-1]:
        facts, _, name = record.partition(b"\t")
        mode, _, oid, size = facts.decode("ascii").split()
        yield SizedEntry(text_of(name), file_mode(mode), oid, int(size) if size.isdigit() else 0)


def read_blobs(git: GitDir, oids: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield each blob while git reads the next ones; None for one that is missing or damaged."""
    if not oids:
        return
    asked = "".join(f"{object_id(oid)}\n" for oid in oids).encode()
    with git.start("cat-file", "--batch", "--buffer", stdin=asked) as process:
        try:
            with open(cast("IO[bytes]", process.stdout).fileno(), "rb", buffering=1 << 18, closefd=False) as answers:
                for oid in oids:
                    yield oid, _next_blob(answers, oid)
        finally:
            process.kill()


def _next_blob(answers: IO[bytes], oid: str) -> bytes | None:
    head = answers.readline().split()
    if len(head) != 3:
        return None
    content = answers.read(int(head[2]) + 1)[:-1]
    # Git does not check that an object matches its id.
    whole = object_bytes(head[1].decode("ascii"), content)
    return content if head[1] == b"blob" and id_of(whole, digest_size=len(oid) // 2) == oid else None
