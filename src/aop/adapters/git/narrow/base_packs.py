"""Base packs: copies of the objects that the base branch reaches, and no others.

They lie below `.aop/history/`, and follow the branch: a new commit adds a small pack, and a branch that was rewritten
gets new ones. A note lists the packs that count. It is written last, so what a killed process leaves is never used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from aop.adapters.files.own_folders import own_folder, remove_folder
from aop.adapters.git.process.output import object_id
from aop.adapters.git.process.program import CHECKOUT_SECONDS, GitDir
from aop.core.errors import Fault
from aop.core.ids import CommitId

HISTORIES = "history"
"""The folder below `.aop`, with one folder for each branch that is or was the base."""
PACK_ENDINGS = (".pack", ".idx")
"""The files of one pack."""
# Objects of one pack are not compared with others: deltas that git has made already are copied.
_PACK = ("pack-objects", "-q", "--delta-base-offset", "--window=0", "--non-empty", "--missing=allow-any")
_NO_COMMIT = 128
_MOST_PACKS = 8
_LONG_MEGABYTES = 10
"""From this size of all objects on, a first copy is worth a line."""


class BasePack(Struct, frozen=True, kw_only=True):
    """A pack of what the branch reaches at one commit, and did not reach at an earlier one."""

    name: str
    bytes: int
    tip: CommitId


class ShownRef(Struct, frozen=True, kw_only=True):
    """A ref that is shown besides those of the feature and the base: a tag, or the base branch of a remote."""

    name: str
    oid: str
    is_tag_object: bool


class BaseNote(Struct, frozen=True, kw_only=True):
    """The packs that count, and what they were made from."""

    shallow: str
    """A hash of the file that names the commits whose parents a shallow clone does not have."""
    packs: tuple[BasePack, ...]
    """The oldest first."""
    refs: tuple[ShownRef, ...] = ()
    tag_pack: str = ""
    """The pack of tag objects; empty if there are none."""
    looked_at: str = ""
    """A hash of the times of the files that hold refs, when they were last read."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all packs."""
        return (*(pack.name for pack in self.packs), *((self.tag_pack,) if self.tag_pack else ()))


class BasePacks:
    """The packs of one branch; the caller holds its lock."""

    def __init__(self, git: GitDir, neutral: GitDir, *, root: Path, common: Path, branch: str) -> None:
        self._git = git
        self._neutral = neutral
        self._common = common
        self._branch = branch
        self.folder = own_folder(root, ".aop", HISTORIES, history_name(branch))
        self._note_path = self.folder / "note.json"

    def brought_to(self, tip: CommitId, report: Callable[[str], None]) -> BaseNote:
        """Return the packs of what the branch reaches, which is at this commit now."""
        note = before = self._note()
        shallow = _hash(_content(self._common / "shallow"))
        if note is None or note.shallow != shallow or not self._contains(tip, note.packs[-1].tip):
            remove_folder(self.folder)
            self.folder = own_folder(self.folder.parent, self.folder.name)
            self._report_copy(report)
            note = BaseNote(shallow=shallow, packs=self._packs_of([tip], tip))
        elif note.packs[-1].tip != tip:
            # Many small packs make every look-up slower.
            kept = note.packs if len(note.packs) < _MOST_PACKS else note.packs[:1]
            added = self._packs_of([tip, f"^{object_id(kept[-1].tip)}"], tip)
            note = msgspec.structs.replace(note, packs=(*kept, *added), looked_at="")
        note = self._with_refs(note, tip)
        if note != before:
            self._write(note)
        return note

    def files_of(self, note: BaseNote) -> list[Path]:
        """Return the files of all packs."""
        return [path for name in note.names for path in pack_files(self._packs_folder, name)]

    def pack(self, objects: Path, lines: Sequence[str], *options: str) -> str:
        """Write a pack below another folder of objects, which is made; return its name, empty for no objects."""
        (objects / "info").mkdir(parents=True, exist_ok=True)
        (objects / "pack").mkdir(exist_ok=True)
        # Git would write its temporary files among the user's objects.
        (objects / "info" / "alternates").write_bytes(os.fsencode(f"{self._common / 'objects'}\n"))
        if not lines:
            return ""
        ran = self._neutral.run(
            *_PACK,
            *options,
            str(objects / "pack" / "pack"),
            stdin="".join(f"{line}\n" for line in lines).encode("ascii"),
            environment={"GIT_OBJECT_DIRECTORY": str(objects)},
            seconds=CHECKOUT_SECONDS,
        )
        made = ran.out.decode("ascii").split()
        if len(made) > 1:
            raise Fault("`git pack-objects` wrote more than one pack.")
        return f"pack-{object_id(made[0])}" if made else ""

    @property
    def _packs_folder(self) -> Path:
        return self.folder / "objects" / "pack"

    def _packs_of(self, revisions: Sequence[str], tip: CommitId) -> tuple[BasePack, ...]:
        name = self.pack(self.folder / "objects", revisions, "--revs")
        return (BasePack(name=name, bytes=self._size(name), tip=tip),)

    def _report_copy(self, report: Callable[[str], None]) -> None:
        counted = dict(line.split(": ") for line in self._git.run("count-objects", "-v").out.decode().splitlines())
        megabytes = (int(counted["size"]) + int(counted["size-pack"])) // 1024
        if megabytes >= _LONG_MEGABYTES:
            report(f"copying the history of `{self._branch}` for the sandbox, of {megabytes} MB of objects; once")

    def _size(self, name: str) -> int:
        return sum(path.stat().st_size for path in pack_files(self._packs_folder, name))

    def _contains(self, tip: CommitId, older: CommitId) -> bool:
        if tip == older:
            return True
        asked = ("merge-base", "--is-ancestor", object_id(older), object_id(tip))
        return self._neutral.run(*asked, fine=(0, 1, _NO_COMMIT)).code == 0

    def _with_refs(self, note: BaseNote, tip: CommitId) -> BaseNote:
        """Return the note with the refs that the branch contains, read again if a ref may have changed."""
        looked_at = self._times_of_refs()
        if note.looked_at == looked_at:
            return note
        refs = self._contained_refs(tip)
        tags = [ref.oid for ref in refs if ref.is_tag_object]
        pack = note.tag_pack
        if tags != [ref.oid for ref in note.refs if ref.is_tag_object]:
            pack = self.pack(self.folder / "objects", tags)
        return msgspec.structs.replace(note, refs=refs, tag_pack=pack, looked_at=looked_at)

    def _contained_refs(self, tip: CommitId) -> tuple[ShownRef, ...]:
        form = "--format=%(objectname) %(objecttype) %(*objecttype) %(refname)"
        patterns = ("refs/tags", f"refs/remotes/*/{self._branch}")
        listed = self._git.run("for-each-ref", f"--merged={object_id(tip)}", form, *patterns).out
        refs: list[ShownRef] = []
        for line in os.fsdecode(listed).splitlines():
            oid, kind, peeled, name = line.split(" ", 3)
            if "commit" in (kind, peeled):
                refs.append(ShownRef(name=name, oid=object_id(oid), is_tag_object=kind == "tag"))
        return tuple(refs)

    def _times_of_refs(self) -> str:
        places = [self._common / "packed-refs", self._common / "reftable" / "tables.list"]
        for above in ("tags", "remotes"):
            places += [Path(folder) for folder, _, _ in os.walk(self._common / "refs" / above)]
        return _hash("".join(f"{place}{_time(place)}\n" for place in sorted(places)).encode(errors="surrogateescape"))

    def _note(self) -> BaseNote | None:
        """Return the note; None if it or one of its packs is not whole."""
        try:
            note = msgspec.json.decode(self._note_path.read_bytes(), type=BaseNote)
            is_whole = all(self._size(pack.name) == pack.bytes for pack in note.packs)
            is_whole &= all(path.exists() for path in self.files_of(note))
        except (OSError, msgspec.MsgspecError):
            return None
        return note if is_whole and note.packs else None

    def _write(self, note: BaseNote) -> None:
        # One name, and one rename: what a killed process leaves is replaced by the next one.
        beside = self._note_path.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(note))
        beside.replace(self._note_path)
        kept = {path.name for path in self.files_of(note)}
        for name in os.listdir(self._packs_folder):
            if name not in kept:
                (self._packs_folder / name).unlink()


def history_name(branch: str) -> str:
    """Return the name of the folder that holds the packs of a branch."""
    return f"{re.sub('[^0-9A-Za-z._-]', '-', branch)[:60]}-{_hash(os.fsencode(branch))[:8]}"


def history_lock(root: Path, name: str) -> Path:
    """Return the lock file of a history."""
    return own_folder(root, ".aop", "locks") / f"history-{name}"


def pack_files(folder: Path, name: str) -> list[Path]:
    """Return the files of a pack."""
    return [folder / f"{name}{ending}" for ending in PACK_ENDINGS]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _hash(content: bytes) -> str:
    return sha256(content).hexdigest()
