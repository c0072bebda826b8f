"""Long-lived git processes, asked over pipes: a question starts no process."""

from __future__ import annotations

import os
import select
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TYPE_CHECKING, TypeVar, cast

from aop.adapters.git.process.program import GIT_SECONDS
from aop.core.errors import Fault

if TYPE_CHECKING:
    import subprocess

T = TypeVar("T")

_PIECE = 1 << 16
_GOODBYE_SECONDS = 2.0


class LongLivedGit:
    """One git process: started at the first question, restarted if it died, asked by one thread at a time."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]], *, seconds: float = GIT_SECONDS) -> None:
        self._start = start
        self._seconds = seconds
        self._lock = threading.Lock()
        self._pipes: tuple[int, Answers] | None = None
        self._end: Callable[[], object] = lambda: None

    def ask(self, question: bytes, answer: Callable[[Answers], T]) -> T:
        """Send a short question that may be repeated; return its answer. Raises: Fault if git fails twice."""
        with self._lock:
            with suppress(_NoAnswer):
                return self._exchange(question, answer)
            try:
                return self._exchange(question, answer)
            except _NoAnswer as error:
                raise Fault("A git process ended before it answered.") from error

    def close(self) -> None:
        """End the process; the next question starts it again."""
        with self._lock:
            self._discard()

    def _exchange(self, question: bytes, answer: Callable[[Answers], T]) -> T:
        try:
            questions, answers = self._pipes or self._start_process()
            # It has answered all earlier questions, so its pipe is empty, and no question is larger than a pipe.
            os.write(questions, question)
            return answer(answers)
        except BrokenPipeError as error:
            self._discard()
            raise _NoAnswer from error
        except BaseException:
            # The rest of this answer would be taken for the answer to the next question.
            self._discard()
            raise

    def _start_process(self) -> tuple[int, Answers]:
        process = self._start()
        self._end = weakref.finalize(self, _end, process)
        # It was started with both.
        questions, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        self._pipes = (questions.fileno(), Answers(answers.fileno(), self._seconds))
        return self._pipes

    def _discard(self) -> None:
        self._pipes = None
        self._end()


class Answers:
    """The output of a process, read piece by piece."""

    def __init__(self, descriptor: int, seconds: float) -> None:
        self._descriptor = descriptor
        self._milliseconds = seconds * 1000
        self._ready = select.poll()
        self._ready.register(self._descriptor, select.POLLIN)
        self._read = bytearray()

    def line(self) -> bytes:
        """Return the next line, without its end."""
        return self.up_to(b"\n")

    def up_to(self, mark: bytes) -> bytes:
        """Return the output up to a mark, without the mark."""
        begin = 0
        while (end := self._read.find(mark, begin)) < 0:
            begin = max(0, len(self._read) - len(mark) + 1)
            self._receive()
        return self._take(end, len(mark))

    def exactly(self, size: int) -> bytes:
        """Return a number of bytes."""
        while len(self._read) < size:
            self._receive()
        return self._take(size, 0)

    def _take(self, size: int, skipped: int) -> bytes:
        taken = bytes(self._read[:size])
        del self._read[: size + skipped]
        return taken

    def _receive(self) -> None:
        piece = os.read(self._descriptor, _PIECE) if self._ready.poll(self._milliseconds) else b""
        if not piece:
            raise _NoAnswer
        self._read += piece


class _NoAnswer(Exception):
    """The process has ended, or does not answer."""


def _end(process: subprocess.Popen[bytes]) -> None:
    import subprocess

    with process:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
