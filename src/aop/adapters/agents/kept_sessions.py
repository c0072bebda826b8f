"""Kept sessions: the files of an agent's session, from one turn to the next.

An agent's home is removed after each turn. Where the policy lets sessions go on, the folder that its row names is
copied to `.aop/sessions/<feature>/<role>/<agent>/`: plain text files alone, without secrets, closed to other users.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from aop.adapters.files.own_folders import files_below, own_folder, read_file, remove_folder
from aop.core.ids import FeatureId
from aop.core.roles import Role

SESSIONS = (".aop", "sessions")
LARGEST_SESSION = 64 * 1024 * 1024
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ID_FILE, _FILES = "id", "files"


class KeptSession:
    """The session of one role of a feature with one agent."""

    def __init__(self, root: Path, feature_id: FeatureId, role: Role, agent: str) -> None:
        self._root = root
        self._place = (*SESSIONS, feature_id, role.value, agent)

    @property
    def session_id(self) -> str:
        """Return its id; empty if none is kept."""
        try:
            return self._path(_ID_FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def restore(self, home: Path, folder: str) -> None:
        """Copy the kept files to a folder of a new home."""
        for path, text in _texts_below(self._path(), _FILES).items():
            _write(home / folder / path, text.encode())

    def keep(self, home: Path, folder: str, mask: Callable[[str], str], session_id: str = "") -> str:
        """Keep the files that a turn left in a folder of its home; return the id of the session, empty if none is kept.

        An id that the agent did not tell is the one in the name of its newest file.
        """
        self.drop()
        texts = _texts_below(home, folder) if folder else {}
        newest = max(texts, key=lambda path: os.stat(home / folder / path).st_mtime_ns, default="")
        found = session_id or next(iter(_ID.findall(newest)[-1:]), "")
        if not found or (folder and not texts):
            return ""
        above = own_folder(self._root, *self._place)
        os.chmod(self._root.joinpath(*SESSIONS), 0o700)
        for path, text in texts.items():
            _write(above / _FILES / path, mask(text).encode())
        # Written last: a session without an id is not gone on with.
        _write(above / _ID_FILE, found.encode())
        return found

    def drop(self) -> None:
        """Forget the session."""
        remove_folder(self._path())

    def _path(self, *names: str) -> Path:
        return self._root.joinpath(*self._place, *names)


def drop_sessions(root: Path, living: Iterable[str]) -> None:
    """Remove the kept sessions of all features but these."""
    above = root.joinpath(*SESSIONS)
    for name in set(os.listdir(above) if above.is_dir() else ()) - set(living):
        remove_folder(above / name)


def _texts_below(home: Path, folder: str) -> dict[str, str]:
    """Return the plain text files below a folder, by path; none if they are too large. No link is followed."""
    found: dict[str, str] = {}
    left = LARGEST_SESSION
    if not (home / folder).is_dir():
        return {}
    for path in files_below(home, folder):
        read = read_file(home, path)
        if read is None:
            continue
        left -= len(read[1])
        if left < 0:
            return {}
        try:
            found[path.removeprefix(f"{folder}/")] = read[1].decode()
        except UnicodeDecodeError:
            continue
    return found


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
