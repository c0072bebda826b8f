"""Git processes that stay: each is asked over its pipes, so that a question costs no new process."""

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
    """One git process: started when it is first asked, started again if it died, gone when nobody holds it any more.

    Any number of threads may ask; they are answered one after the other.
    """

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]], *, seconds: float = GIT_SECONDS) -> None:
        self._start = start
        self._seconds = seconds
        self._lock = threading.Lock()
        self._pipes: tuple[int, Answers] | None = None
        self._end: Callable[[], object] = _nothing_to_end

    def ask(self, question: bytes, answer: Callable[[Answers], T]) -> T:
        """Send a question of a few words, and return what `answer` reads; one whose asking is safe to repeat.

        Raises: Fault if git ends or stays silent twice.
        """
        with self._lock:
            with suppress(_Silence):
                return self._exchange(question, answer)
            try:
                return self._exchange(question, answer)
            except _Silence as silence:
                raise Fault("A git process that answers questions ended before it answered.") from silence

    def close(self) -> None:
        """End the process; asked again, it is started again."""
        with self._lock:
            self._let_go()

    def _exchange(self, question: bytes, answer: Callable[[Answers], T]) -> T:
        try:
            questions, answers = self._pipes or self._started()
            # It has answered everything before, so its pipe is empty, and no question is larger than a pipe.
            os.write(questions, question)
            return answer(answers)
        except BrokenPipeError as error:
            self._let_go()
            raise _Silence from error
        except BaseException:
            # Whatever of the answer is still to come would be taken for the answer to the next question.
            self._let_go()
            raise

    def _started(self) -> tuple[int, Answers]:
        process = self._start()
        self._end = weakref.finalize(self, _end, process)
        # It was started with both.
        questions, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        self._pipes = (questions.fileno(), Answers(answers.fileno(), self._seconds))
        return self._pipes

    def _let_go(self) -> None:
        self._pipes = None
        self._end()


class Answers:
    """What a companion says, read piece by piece."""

    def __init__(self, descriptor: int, seconds: float) -> None:
        self._descriptor = descriptor
        self._milliseconds = seconds * 1000
        self._ready = select.poll()
        self._ready.register(self._descriptor, select.POLLIN)
        self._read = bytearray()

    def line(self) -> bytes:
        """Return what comes up to the end of the line, without that."""
        return self.up_to(b"\n")

    def up_to(self, mark: bytes) -> bytes:
        """Return what comes before a mark, and leave the mark out."""
        begin = 0
        while (end := self._read.find(mark, begin)) < 0:
            begin = max(0, len(self._read) - len(mark) + 1)
            self._receive()
        return self._taken(end, len(mark))

    def exactly(self, size: int) -> bytes:
        """Return so many bytes."""
        while len(self._read) < size:
            self._receive()
        return self._taken(size, 0)

    def _taken(self, size: int, skipped: int) -> bytes:
        taken = bytes(self._read[:size])
        del self._read[: size + skipped]
        return taken

    def _receive(self) -> None:
        piece = os.read(self._descriptor, _PIECE) if self._ready.poll(self._milliseconds) else b""
        if not piece:
            raise _Silence
        self._read += piece


class _Silence(Exception):
    """The process has ended, or does not answer."""


def _nothing_to_end() -> None:
    return


def _end(process: subprocess.Popen[bytes]) -> None:
    import subprocess

    with process:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
