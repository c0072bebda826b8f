"""Reads what strace saw: the processes, flushes, opened files, written bytes and round trips between two marks."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

STRACE = shutil.which("strace")
BEGIN, END = "/aop-costs/begin", "/aop-costs/end"
"""Files that nobody has: to try to open one shows in the trace."""

_STARTS = ("fork", "vfork", "clone", "clone3")
_RUNS = ("execve", "execveat")
_FLUSHES = ("fsync", "fdatasync", "sync_file_range", "syncfs", "sync")
_OPENS = ("open", "openat", "openat2", "creat")
_WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range")
_SENDS, _RECEIVES = ("sendto", "sendmsg"), ("recvfrom", "recvmsg")
_CALLS = (*_STARTS, *_RUNS, *_FLUSHES, *_OPENS, *_WRITES, *_SENDS, *_RECEIVES)
_LINE = re.compile(r"(\d+) +(.*)")
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+|\?)(.*)")
# How many of these are flushed depends on the first digits of new objects' names, and so on the clock.
_OBJECT_FOLDER = re.compile(r"/\.git/objects(/[0-9a-f]{2})?$")
# Tests may have their folders in memory.
_NO_FILE = re.compile(r"/(bindfile|dev/(?!shm/)|memfd:|newroot|proc\b|sys/)")
_SENT = re.compile(r'>, "((?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"\d+<(.*?)>(?:, |$)")


def traced(output: Path) -> list[str]:
    """Return the words that trace the command after them, with all of its processes."""
    # Most system calls are none of these, and need not stop the process.
    words = [str(STRACE), "-f", "--seccomp-bpf", "-qq", "-yy", "-s", "5000", "-e", "signal=none", "-o", str(output)]
    return [*words, "-e", f"trace={','.join(f'?{name}' for name in _CALLS)}"]


def mark(name: str) -> None:
    """Show in the trace that the call begins or ends here."""
    with suppress(FileNotFoundError):
        os.close(os.open(name, os.O_RDONLY))


class SystemCall(Struct, frozen=True):
    """One call of one process."""

    pid: int
    name: str
    words: str
    result: str
    note: str
    """What follows the result: the file behind a descriptor, or the error."""

    @property
    def is_success(self) -> bool:
        return not self.result.startswith("-")

    @property
    def file(self) -> str:
        """Return what its first descriptor stands for."""
        found = _DESCRIPTOR.match(self.words)
        return found[1] if found else ""


def seen_between_marks(trace: Path) -> dict[str, list[str]]:
    """Return for each measure what was seen, one text for each process, flush, file and trip."""
    all_calls = list(_calls(trace.read_text(errors="replace").splitlines()))
    calls = list(_between_marks(all_calls))
    prepared = _Prepared(all_calls)
    return {
        "processes": list(_processes(calls)),
        "fsyncs": [
            call.file or call.name
            for call in calls
            if call.name in _FLUSHES and call.is_success and not _OBJECT_FOLDER.search(call.file)
        ],
        "files": [
            call.note.strip("<>") for call in calls if call.name in _OPENS and call.is_success and _is_file(call)
        ],
        "bytes": [
            f"{call.result} {call.file}"
            for call in calls
            if call.name in _WRITES and call.is_success and _on_disk(call)
        ],
        "statements": [text for call in calls if _is_sent(call) for text in prepared.statements_in(call)],
        "round_trips": list(_round_trips(calls, prepared)),
    }


def _calls(lines: Sequence[str]) -> Iterator[SystemCall]:
    """Yield the calls in the order in which they began."""
    whole: list[tuple[int, str]] = []
    begun: dict[int, int] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        pid, text = int(found[1]), found[2]
        if text.endswith(_UNFINISHED):
            begun[pid] = len(whole)
            whole.append((pid, text.removesuffix(_UNFINISHED)))
        elif (resumed := _RESUMED.match(text)) is not None:
            at = begun.pop(pid)
            whole[at] = (pid, whole[at][1] + resumed[1])
        else:
            whole.append((pid, text))
    for pid, text in whole:
        call = _CALL.match(text)
        if call is not None:
            yield SystemCall(pid, call[1], call[2], call[3], call[4].strip())


def _between_marks(calls: Sequence[SystemCall]) -> Iterator[SystemCall]:
    is_between = False
    for call in calls:
        if call.name in _OPENS and f'"{BEGIN}"' in call.words:
            is_between = True
        elif call.name in _OPENS and f'"{END}"' in call.words:
            return
        elif is_between:
            yield call
    raise AssertionError("The trace has no marks of a begin and an end.")


def _processes(calls: Sequence[SystemCall]) -> Iterator[str]:
    """Yield what each new process runs; git's own processes differ between its versions, and are left out."""
    ran = {call.pid: _command(call.words) for call in calls if call.name in _RUNS and call.is_success}
    started = [call for call in calls if call.name in _STARTS and call.is_success and "CLONE_THREAD" not in call.words]
    # In a sandbox a parent sees another number of its child than strace does.
    in_sandbox = iter([command for pid, command in ran.items() if pid not in {int(call.result) for call in started}])
    for call in started:
        if not ran.get(call.pid, "").startswith("git "):
            yield ran.get(int(call.result)) or next(in_sandbox, "(a fork that runs no other program)")


def _command(words: str) -> str:
    """Return a command line; of git without the settings that each of its processes gets."""
    found = re.search(r"\[(.*)\]", words)
    argv = re.findall(r'"([^"]*)"', found[1]) if found else [words]
    if argv[0].endswith("/git"):
        settings = {at + step for at, word in enumerate(argv) if word == "-c" for step in (0, 1)}
        argv = ["git", *(word for at, word in enumerate(argv) if at > 0 and at not in settings)]
    return " ".join(argv)


def _is_file(call: SystemCall) -> bool:
    """Tell whether it opens what lies on a disk, and is not what a sandbox makes of this machine's folders."""
    return not _NO_FILE.match(call.note.strip("<"))


def _on_disk(call: SystemCall) -> bool:
    return call.file.startswith("/") and not _NO_FILE.match(call.file)


def _round_trips(calls: Sequence[SystemCall], prepared: _Prepared) -> Iterator[str]:
    """Yield each wait for an answer, as the statements that were sent on the connection before it."""
    sent: dict[str, list[str]] = {}
    for call in calls:
        if _is_sent(call):
            sent.setdefault(call.file, []).extend(prepared.statements_in(call))
        elif call.name in _RECEIVES and call.is_success and call.file in sent:
            yield "; ".join(sent.pop(call.file))


def _is_sent(call: SystemCall) -> bool:
    return call.name in _SENDS and call.is_success and call.file.startswith("TCP")


class _Prepared:
    """The statements that a trace prepares on connections to PostgreSQL: a later one is sent by its name."""

    def __init__(self, calls: Sequence[SystemCall]) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        for call in calls:
            for kind, (name, text, *_) in _messages(call) if _is_sent(call) else ():
                if kind == "P":
                    self._texts[call.file, name] = " ".join(text.split())

    def statements_in(self, call: SystemCall) -> Iterator[str]:
        """Yield the statements that are run by what is sent."""
        for kind, (first, second, *_) in _messages(call):
            if kind == "Q":
                yield first
            elif kind == "B":
                yield self._texts.get((call.file, second), f"the prepared statement {second}")


def _messages(call: SystemCall) -> Iterator[tuple[str, list[str]]]:
    """Yield the messages to PostgreSQL that are sent: the kind of each, and its texts."""
    literal = _SENT.search(call.words)
    left: bytes = ast.literal_eval(f'b"{literal[1]}"') if literal else b""
    while len(left) > 4:
        length = 1 + int.from_bytes(left[1:5], "big")
        yield left[:1].decode("latin-1"), [*left[5:length].decode("latin-1").split("\0"), "", ""]
        left = left[length:]
