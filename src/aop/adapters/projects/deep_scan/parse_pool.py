"""Parse pool: the workers that read sources, replaced when one fails."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from queue import Queue
from typing import IO, TYPE_CHECKING, cast

import msgspec
from msgspec import Struct

from aop.forge.scan.file_facts import Language, SourceFacts

if TYPE_CHECKING:
    import subprocess

START_SECONDS = 60.0
"""A worker may take this long to start where the machine is busy; no file is to blame for it."""
BATCH_BYTES = 256 * 1024
BATCH_FILES = 64
_PIECE = 1 << 16
# A Python may need this to start; nothing else of the environment reaches a process that reads foreign text.
_ENVIRONMENT = ("LD_LIBRARY_PATH",)


class Unread(Struct, frozen=True, gc=False):
    """A file that is to be read."""

    oid: str
    language: Language
    content: bytes


class ParsedFile(Struct, frozen=True, gc=False):
    """A file that was read, or could not be."""

    oid: str
    language: Language
    facts: SourceFacts
    failed: bool = False
    """The grammar failed, perhaps because this machine was busy."""


class WorkerKind(Struct, frozen=True, kw_only=True):
    """The program that reads files, and what it may fail at."""

    command: tuple[str, ...]
    seconds: float
    """The time that one file may take: fifty times what a megabyte needs."""
    most_failures: int
    """After so many files that a grammar could not read, its other files are left unread."""


# Isolated: nothing in the folder that AOP was started in is imported.
WORKER = WorkerKind(
    command=(sys.executable, "-I", "-m", "aop.adapters.projects.deep_scan.parse_worker"), seconds=5.0, most_failures=20
)


def read_all(files: Iterable[Unread], *, workers: int, kind: WorkerKind = WORKER) -> Iterator[ParsedFile]:
    """Yield the facts of all files, in any order; a file that makes a worker fail gets a problem instead."""
    batches = _Batches(files, kind.most_failures)
    done: Queue[list[ParsedFile] | BaseException | None] = Queue(maxsize=workers * 4)
    threads = [threading.Thread(target=_work, args=(_Worker(kind), batches, done), daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    ended = 0
    try:
        while ended < len(threads):
            answer = done.get()
            if isinstance(answer, BaseException):
                raise answer
            if answer is None:
                ended += 1
            else:
                yield from answer
    finally:
        batches.close()
        while ended < len(threads):
            ended += done.get() is None


class _Batches:
    """The files in batches, for several threads."""

    def __init__(self, files: Iterable[Unread], most_failures: int) -> None:
        self._files = iter(files)
        self._most_failures = most_failures
        self._lock = threading.Lock()
        self._closed = False
        self._failures: dict[Language, int] = {}

    def close(self) -> None:
        self._closed = True

    def next_batch(self) -> list[Unread]:
        batch: list[Unread] = []
        size = 0
        with self._lock:
            while not self._closed and size < BATCH_BYTES and len(batch) < BATCH_FILES:
                file = next(self._files, None)
                if file is None:
                    break
                batch.append(file)
                size += len(file.content)
        return batch

    def count_failure(self, language: Language) -> None:
        with self._lock:
            self._failures[language] = self._failures.get(language, 0) + 1

    def is_given_up(self, language: Language) -> bool:
        return self._failures.get(language, 0) >= self._most_failures


def _work(worker: _Worker, batches: _Batches, done: Queue[list[ParsedFile] | BaseException | None]) -> None:
    try:
        while batch := batches.next_batch():
            done.put(_read_batch(worker, batch, batches))
    except BaseException as error:  # noqa: BLE001 - the thread that asked raises it
        done.put(error)
    finally:
        worker.end()
        done.put(None)


def _read_batch(worker: _Worker, batch: Sequence[Unread], batches: _Batches) -> list[ParsedFile]:
    """Return the facts of a batch; where the worker fails, it goes on after the file that it failed on."""
    given_up = "failed on too many other files"
    read = [_failed(file, given_up) for file in batch if batches.is_given_up(file.language)]
    waiting = deque(file for file in batch if not batches.is_given_up(file.language))
    while waiting:
        try:
            for facts in worker.read(list(waiting)):
                file = waiting.popleft()
                read.append(ParsedFile(file.oid, file.language, facts))
        except _WorkerFailed as failure:
            file = waiting.popleft()
            batches.count_failure(file.language)
            read.append(_failed(file, str(failure)))
    return read


def _failed(file: Unread, how: str) -> ParsedFile:
    facts = SourceFacts(lines=file.content.count(b"\n"), problem=f"the grammar of {file.language} {how}")
    return ParsedFile(file.oid, file.language, facts, failed=True)


class _Worker:
    """One process, started at the first file and again after it failed."""

    def __init__(self, kind: WorkerKind) -> None:
        self._kind = kind
        self._process: subprocess.Popen[bytes] | None = None
        self._decoder = msgspec.msgpack.Decoder(SourceFacts)

    def read(self, files: Sequence[Unread]) -> Iterator[SourceFacts]:
        """Yield the facts of each file. Raises: _WorkerFailed, on the file that follows those."""
        heads = (b"%b:%d" % (file.language.encode(), len(file.content)) for file in files)
        try:
            process = self._process or self._start()
            questions, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
            self._send(questions.fileno(), b"".join((b" ".join(heads), b"\n", *(file.content for file in files))))
            yield from self._receive(answers.fileno(), len(files))
        except (BrokenPipeError, EOFError) as error:
            self.end(kill=True)
            raise _WorkerFailed("ended on it") from error
        except TimeoutError as error:
            self.end(kill=True)
            raise _WorkerFailed(f"did not finish within {self._kind.seconds:.0f} seconds") from error

    def end(self, *, kill: bool = False) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with process:
                if kill:
                    process.kill()
                elif process.stdin is not None:
                    process.stdin.close()

    def _start(self) -> subprocess.Popen[bytes]:
        import subprocess

        self._process = subprocess.Popen(
            self._kind.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
        )
        # A worker that hangs must not hold a thread that writes to it.
        os.set_blocking(cast("IO[bytes]", self._process.stdin).fileno(), False)
        # It says that all is loaded by an empty line.
        answers = cast("IO[bytes]", self._process.stdout).fileno()
        _wait(answers, select.POLLIN, START_SECONDS)
        if not os.read(answers, 1):
            raise EOFError
        return self._process

    def _send(self, descriptor: int, question: bytes) -> None:
        view = memoryview(question)
        while view:
            _wait(descriptor, select.POLLOUT, self._kind.seconds)
            view = view[os.write(descriptor, view) :]

    def _receive(self, descriptor: int, number: int) -> Iterator[SourceFacts]:
        read = bytearray()
        for _ in range(number):
            while (end := read.find(b"\n") + 1) == 0:
                read += self._piece(descriptor)
            end_of_facts = end + int(read[:end])
            while len(read) < end_of_facts:
                read += self._piece(descriptor)
            yield self._decoder.decode(bytes(read[end:end_of_facts]))
            del read[:end_of_facts]

    def _piece(self, descriptor: int) -> bytes:
        _wait(descriptor, select.POLLIN, self._kind.seconds)
        piece = os.read(descriptor, _PIECE)
        if not piece:
            raise EOFError
        return piece


def _wait(descriptor: int, event: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(seconds * 1000):
        raise TimeoutError


class _WorkerFailed(Exception):
    """The worker ended, or did not answer in time; it says which."""
