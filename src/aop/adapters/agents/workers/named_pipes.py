"""Named pipes: the standard streams of a process that runs in a sandbox."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from aop.core.errors import NoUsableAnswer

LARGEST_LINE = 8 * 1024 * 1024
MOST = 256 * 1024 * 1024
_LOOK_SECONDS = 0.1
_CHUNK = 1 << 16


class NamedPipes:
    """Writes to the pipe `in` and reads from the pipe `out` until the end is signalled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over = threading.Event()
        self._turn = threading.Lock()
        self._received = 0

    def __enter__(self) -> NamedPipes:
        for name in ("in", "out"):
            os.mkfifo(self._folder / name, 0o600)
        flags = os.O_NONBLOCK | os.O_CLOEXEC
        self._reader = os.open(self._folder / "out", os.O_RDONLY | flags)
        # Held open on both sides: otherwise one sees the end before the process has started.
        self._keeper = os.open(self._folder / "out", os.O_WRONLY | flags)
        self._writer = os.open(self._folder / "in", os.O_RDWR | flags)
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        for descriptor in (self._reader, self._keeper):
            os.close(descriptor)

    def end(self) -> None:
        """Close the input of the process, and stop waiting for its output."""
        self._over.set()
        with self._turn:
            if self._writer >= 0:
                os.close(self._writer)
            self._writer = -1

    def send(self, data: bytes) -> None:
        """Write all bytes, unless the end comes first."""
        with self._turn:
            while data and not self._over.is_set():
                if _is_ready(self._writer, select.POLLOUT, _LOOK_SECONDS):
                    data = data[os.write(self._writer, data[: select.PIPE_BUF]) :]

    def offer(self, data: bytes) -> None:
        """Write a few bytes if that does not block; otherwise write nothing."""
        if len(data) > select.PIPE_BUF or not self._turn.acquire(blocking=False):
            return
        try:
            # Up to PIPE_BUF bytes are written atomically.
            with suppress(BlockingIOError):
                if self._writer >= 0:
                    os.write(self._writer, data)
        finally:
            self._turn.release()

    def output_bytes(self) -> int:
        """Return the number of bytes read so far."""
        return self._received

    def lines(self) -> Iterator[bytes]:
        """Yield lines as they arrive, including those before the end. Raises: NoUsableAnswer for too much output."""
        rest = b""
        while chunk := self._chunk():
            self._received += len(chunk)
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
            if len(rest) > LARGEST_LINE or self._received > MOST:
                raise NoUsableAnswer(
                    f"The agent wrote a line of more than {LARGEST_LINE} bytes, or more than {MOST} bytes in total."
                )

    def _chunk(self) -> bytes:
        while True:
            is_last = self._over.is_set()
            if _is_ready(self._reader, select.POLLIN, 0 if is_last else _LOOK_SECONDS):
                return os.read(self._reader, _CHUNK)
            if is_last:
                return b""


def _is_ready(descriptor: int, wanted: int, seconds: float) -> bool:
    # `select.select` fails for descriptors above 1,023, which a server with many clients has.
    poll = select.poll()
    poll.register(descriptor, wanted)
    return bool(poll.poll(seconds * 1000))
