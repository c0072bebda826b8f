"""What the newest turn of each role says while it works: one file a role, written as it goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from aop.core.ids import FeatureId

AGENT_LOGS = ".aop/logs"


def fresh_log(logs: Path, feature_id: FeatureId, role: str) -> Path:
    """Return where a turn that begins writes; what the turn before it wrote there is gone."""
    path = logs / feature_id / f"{role}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return path


class TurnLogReader:
    """Reads what was said about one feature, and then what is said next."""

    def __init__(self, logs: Path, feature_id: FeatureId) -> None:
        self._folder = logs / feature_id
        # Kept open: the number of a file that is open is given to no other.
        self._open: dict[Path, _LogFile] = {}

    def close(self) -> None:
        """Let go of the files."""
        for growing in self._open.values():
            growing.file.close()

    def new(self, *, with_unended: bool) -> Iterator[tuple[str, str]]:
        """Yield roles and lines that came since this was last asked; the last line of a file may still grow."""
        for path in sorted(self._folder.glob("*.log")):
            # Between two turns it is not there.
            with suppress(FileNotFoundError):
                for line in self._lines(path, with_unended=with_unended):
                    yield path.stem, line

    def _lines(self, path: Path, *, with_unended: bool) -> list[str]:
        known, last_words = self._open.get(path), []
        if known is not None and not known.is_at(path):
            last_words = known.lines(with_unended=True)
            known.file.close()
            known = None
        self._open[path] = known or _LogFile(path)
        return [*last_words, *self._open[path].lines(with_unended=with_unended)]


class _LogFile:
    """A file that somebody writes to."""

    def __init__(self, path: Path) -> None:
        self.file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
        self._rest = b""

    def is_at(self, path: Path) -> bool:
        return os.path.samestat(os.fstat(self.file.fileno()), os.stat(path))

    def lines(self, *, with_unended: bool) -> list[str]:
        data = self._rest + self.file.read()
        end = len(data) if with_unended else data.rfind(b"\n") + 1
        whole, self._rest = data[:end], data[end:]
        return whole.decode(errors="replace").splitlines()
