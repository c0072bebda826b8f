"""Parse pool: the workers that read sources, replaced when one fails."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Iterable, Iterator
from queue import Queue
from typing import IO, TYPE_CHECKING, cast

import msgspec
from msgspec import Struct

from aop.forge.scan.file_facts import Language, SourceFacts

if TYPE_CHECKING:
    import subprocess

FILE_SECONDS = 5.0
"""The time that one file may take: fifty times what a megabyte needs."""
MOST_FAILURES = 20
"""After so many files that a grammar could not read, its other files are left unread."""
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


def read_all(files: Iterable[Unread], *, workers: int) -> Iterator[ParsedFile]:
    """Yield the facts of all files, in any order; a file that makes a worker fail gets a problem instead."""
    batches = _Batches(files)
    done: Queue[list[ParsedFile] | BaseException | None] = Queue(maxsize=workers * 4)
    threads = [threading.Thread(target=_work, args=(batches, done), daemon=True) for _ in range(workers)]
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

    def __init__(self, files: Iterable[Unread]) -> None:
        self._files = iter(files)
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
        return self._failures.get(language, 0) >= MOST_FAILURES


def _work(batches: _Batches, done: Queue[list[ParsedFile] | BaseException | None]) -> None:
    worker = _Worker()
    try:
        while batch := batches.next_batch():
            done.put([_read(worker, file, batches) for file in batch])
    except BaseException as error:  # noqa: BLE001 - the thread that asked raises it
        done.put(error)
    finally:
        worker.end()
        done.put(None)


def _read(worker: _Worker, file: Unread, batches: _Batches) -> ParsedFile:
    if batches.is_given_up(file.language):
        why = f"the grammar of {file.language} failed on {MOST_FAILURES} other files"
        return ParsedFile(
            file.oid, file.language, SourceFacts(lines=file.content.count(b"\n"), problem=why), failed=True
        )
    try:
        return ParsedFile(file.oid, file.language, worker.read(file))
    except _WorkerFailed as failure:
        batches.count_failure(file.language)
        facts = SourceFacts(lines=file.content.count(b"\n"), problem=str(failure))
        return ParsedFile(file.oid, file.language, facts, failed=True)


class _Worker:
    """One process, started at the first file and again after it failed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._decoder = msgspec.msgpack.Decoder(SourceFacts)

    def read(self, file: Unread) -> SourceFacts:
        """Return the facts of a file."""
        process = self._process or self._start()
        questions, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        try:
            self._send(questions.fileno(), b"%b %d\n%b" % (file.language.encode(), len(file.content), file.content))
            return self._decoder.decode(self._receive(answers.fileno()))
        except (BrokenPipeError, EOFError) as error:
            self.end(kill=True)
            raise _WorkerFailed(f"the grammar of {file.language} ended on it") from error
        except TimeoutError as error:
            self.end(kill=True)
            why = f"the grammar of {file.language} did not finish within {FILE_SECONDS:.0f} seconds"
            raise _WorkerFailed(why) from error

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

        # Isolated: nothing in the folder that AOP was started in is imported.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-m", "aop.adapters.projects.deep_scan.parse_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
        )
        # A worker that hangs must not hold a thread that writes to it.
        os.set_blocking(cast("IO[bytes]", self._process.stdin).fileno(), False)
        return self._process

    def _send(self, descriptor: int, question: bytes) -> None:
        view = memoryview(question)
        while view:
            _wait(descriptor, select.POLLOUT)
            view = view[os.write(descriptor, view) :]

    def _receive(self, descriptor: int) -> bytes:
        read = bytearray()
        size = -1
        while size < 0 or len(read) < size:
            _wait(descriptor, select.POLLIN)
            piece = os.read(descriptor, _PIECE)
            if not piece:
                raise EOFError
            read += piece
            if size < 0 and b"\n" in read:
                head, _, rest = bytes(read).partition(b"\n")
                size, read = int(head), bytearray(rest)
        return bytes(read)


def _wait(descriptor: int, event: int) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(FILE_SECONDS * 1000):
        raise TimeoutError


class _WorkerFailed(Exception):
    """The worker ended, or did not answer in time."""
