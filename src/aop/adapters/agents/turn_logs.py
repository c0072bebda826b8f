"""Turn logs: the output of each role's newest turn, one file for each role."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from aop.core.ids import FeatureId
from aop.core.text.visible import visible

AGENT_LOGS = ".aop/logs"
_LAST_LINES, _LINE_CHARS, _TAIL_BYTES = 3, 200, 4096


def turn_log(logs: Path, feature_id: FeatureId, role: str) -> Path:
    """Return the log file of a role's newest turn."""
    return logs / feature_id / f"{role}.log"


def fresh_log(logs: Path, feature_id: FeatureId, role: str) -> Path:
    """Return the log file of a new turn; the log of the previous turn is deleted."""
    path = turn_log(logs, feature_id, role)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return path


def last_lines(path: Path) -> tuple[str, ...]:
    """Return the last lines of a log that are not empty, each shortened; the log has no secrets."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except FileNotFoundError:
        return ()
    lines = [visible(line.strip())[:_LINE_CHARS] for line in text.splitlines() if line.strip()]
    return tuple(lines[-_LAST_LINES:])


class TurnLogReader:
    """Reads the logs of one feature, and follows them."""

    def __init__(self, logs: Path, feature_id: FeatureId) -> None:
        self._folder = logs / feature_id
        # Kept open: the inode of an open file is not reused.
        self._open: dict[Path, _LogFile] = {}

    def close(self) -> None:
        """Close the files."""
        for growing in self._open.values():
            growing.file.close()

    def new_lines(self, *, with_unended: bool) -> Iterator[tuple[str, str]]:
        """Yield roles and lines since the last call; the last line of a file may be incomplete."""
        for path in sorted(self._folder.glob("*.log")):
            # Between two turns the file does not exist.
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
    """A log file that may grow."""

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
