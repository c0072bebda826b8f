"""Log parts: the logs of a run, sent into the database while it goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

PART_BYTES = 1 << 20
LOOK_SECONDS = 0.5
SendPart = Callable[[str, int, bytes], bool]
"""Sends bytes of a log, by its path and offset; tells whether they arrived."""


class LogParts:
    """Sends what is appended to the logs of one run; the steps have cleaned and capped them."""

    def __init__(self, folder: Path, shown_folder: str, send: SendPart) -> None:
        self._folder = folder
        self._shown_folder = shown_folder
        """The folder of the logs at the leader, from the root of its repository."""
        self._send = send
        self._sent: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="aop-log-parts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ended.set()
        self._thread.join()

    def finish(self) -> None:
        """Send the rest, before the run has an answer; tried again until the database takes it."""
        self._ended.set()
        self._thread.join()
        # Without a database this process ends after a while.
        while not self._has_sent_all():
            threading.Event().wait(LOOK_SECONDS)

    def _follow(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._has_sent_all()

    def _has_sent_all(self) -> bool:
        return all(self._has_sent(path) for path in sorted(self._folder.glob("*.log")))

    def _has_sent(self, path: Path) -> bool:
        name = f"{self._shown_folder}/{path.name}"
        with path.open("rb") as log:
            log.seek(start := self._sent.get(name, 0))
            while content := log.read(PART_BYTES):
                if not self._send(name, start, content):
                    return False
                start += len(content)
                self._sent[name] = start
        return True
