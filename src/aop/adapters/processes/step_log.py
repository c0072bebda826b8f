"""Step log: plain, redacted text, bounded in size and in memory.

The result depends only on the bytes, never on how they were cut into chunks. The first half of the budget is written as
it arrives. Of the rest, the last half is held in memory and written by `close`, after a line that says how much was
left out. Lines are counted too, because each costs time. They are redacted one by one, except those of a private key,
which are redacted together.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from aop.adapters.files.own_folders import flush_folder
from aop.core.errors import Fault

MAX_BYTES = 8 * 1024 * 1024
MAX_LINE = 64 * 1024
MAX_LINES = 200_000

# Redaction sees this much beyond the end of a line that is cut, so that no secret is cut in two before it is seen.
_LOOKAHEAD = 4096
_MARKER_ROOM = 64
# A piece of this size returns to the system when it is dropped.
_PIECE = 1024 * 1024
_LINE_CUT = " [... line cut]"

_KEY_BEGINS = b"-----BEGIN "
_KEY_ENDS = b"-----END "
_KEY_NAME = b"PRIVATE KEY"
_KEY_MAX_LINES = 256

_ESCAPE = "\x1b"
_BELL = "\x07"
_PARAMETERS = "".join(map(chr, range(0x30, 0x40)))
_INTERMEDIATES = "".join(map(chr, range(0x20, 0x30)))
_STRING_INTRODUCERS = frozenset("]PX^_")
_EIGHT_BIT = {0x80 + low: _ESCAPE + chr(0x40 + low) for low in range(0x20)}
_CONTROLS = {code: None for code in (*range(0x20), 0x7F) if code != ord("\t")}


class StepLog:
    """Takes the output of a process as it comes, and keeps what may be read of it."""

    def __init__(
        self,
        path: Path,
        redact: Callable[[str], str],
        *,
        max_bytes: int = MAX_BYTES,
        max_line: int = MAX_LINE,
        max_lines: int = MAX_LINES,
    ) -> None:
        self._redact = redact
        self._max_bytes = max_bytes
        self._max_line = max_line
        self._max_lines = max_lines
        self._head_room = max_bytes // 2
        self._head_lines_left = max_lines // 2
        self._written = 0
        self._truncated = False
        self._ends_in_return = False
        self._line = bytearray()
        self._key_lines: list[bytes] = []
        self._seen: list[bytes] = []
        self._seen_text: list[bytes] = []
        self._tail: _Tail | None = None
        self._path = path
        self._file = self._create(path)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the output."""
        if self._ends_in_return:
            chunk = b"\r" + chunk
        self._ends_in_return = chunk.endswith(b"\r")
        if self._ends_in_return:
            chunk = chunk[:-1]
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._take(chunk)

    def close(self) -> tuple[int, bool]:
        """Write the rest; return the size of the file, and whether anything was left out."""
        self._take(b"\n" * (self._ends_in_return or bool(self._line)))
        if self._tail is None:
            self._write(b"".join(self._presentable(self._key_lines)))
        else:
            self._write_tail(self._tail)
        if self._file is not None:
            self._finish(self._file)
            self._file = None
        return self._written, self._truncated

    def _take(self, data: bytes) -> None:
        start = 0
        shown: list[bytes] = []
        while self._tail is None and (end := data.find(b"\n", start)) >= 0:
            self._lengthen_line(data[start:end])
            shown += self._end_line()
            start = end + 1
        self._write(b"".join(shown))
        if self._tail is None:
            self._lengthen_line(data[start:])
        else:
            self._tail.append(data[start:])

    def _lengthen_line(self, data: bytes) -> None:
        self._line += data[: max(0, self._max_line + _LOOKAHEAD - len(self._line))]

    def _end_line(self) -> list[bytes]:
        """Return the text for the head of the log after a line ended; start the tail if the head is full."""
        self._key_lines.append(bytes(self._line))
        self._line.clear()
        if _is_open_key(self._key_lines, self._max_line):
            return []
        raw, self._key_lines = self._key_lines, []
        shown = self._presentable(raw)
        self._head_room -= sum(map(len, shown))
        self._head_lines_left -= len(raw)
        if self._head_room >= 0 and self._head_lines_left >= 0:
            return shown
        self._tail = _Tail(self._max_bytes // 2, self._max_lines // 2)
        self._tail.append(b"\n".join(raw) + b"\n")
        return []

    def _write_tail(self, tail: _Tail) -> None:
        left_out, lines = tail.lines()
        shown = bytearray()
        for block in _blocks(lines, self._max_line):
            for line in self._presentable(block):
                shown += line
        beyond = len(shown) - (self._max_bytes - self._written - _MARKER_ROOM)
        if beyond > 0:
            cut = shown.find(b"\n", beyond - 1) + 1
            left_out += cut
            del shown[:cut]
        if left_out:
            self._truncated = True
            self._write(f"[... {left_out} bytes left out ...]\n".encode())
        self._write(shown)

    def _presentable(self, lines: list[bytes]) -> list[bytes]:
        """Return raw lines decoded, without control sequences, redacted and cut."""
        # A flood often repeats one line.
        if lines != self._seen:
            self._seen, self._seen_text = lines, list(self._format(lines))
        return self._seen_text

    def _format(self, lines: list[bytes]) -> Iterator[bytes]:
        longest = self._max_line + _LOOKAHEAD
        text = "\n".join(without_controls(line[:longest].decode("utf-8", "replace")) for line in lines)
        text = self._redact(text)
        if lines and len(lines[-1]) >= longest:
            # Only the last line of a block can be this long: a key ends with the line that makes it too long.
            self._truncated = True
            text = text[:-_LOOKAHEAD] + _LINE_CUT
        for line in text.split("\n") if lines else ():
            encoded = line.encode("utf-8", "replace")
            if len(encoded) > self._max_line:
                self._truncated = True
                encoded = encoded[: self._max_line].decode("utf-8", "ignore").encode() + _LINE_CUT.encode()
            yield encoded + b"\n"

    def _create(self, path: Path) -> int | None:
        """Create the file; None if the disk is full, because a step must not fail for its log."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise Fault(f"The log `{path}` cannot be created: {error.strerror}.") from error
            self._truncated = True
            return None

    def _finish(self, file: int) -> None:
        """Flush the log: the record will hold its digest, which must stay true after a power cut."""
        try:
            os.fsync(file)
            flush_folder(self._path.parent)
        except OSError:
            self._truncated = True
        finally:
            os.close(file)

    def _write(self, data: bytes | bytearray) -> None:
        left = memoryview(data)
        while left and self._file is not None:
            try:
                written = os.write(self._file, left)
            except OSError:
                # A full or broken disk: the step continues, and its log counts as truncated.
                os.close(self._file)
                self._file = None
                self._truncated = True
                return
            self._written += written
            left = left[written:]


class _Tail:
    """The last bytes and lines of a stream, in flat memory."""

    def __init__(self, max_bytes: int, max_lines: int) -> None:
        self._max_bytes = max_bytes
        self._max_lines = max_lines
        self._pieces: deque[bytearray] = deque()
        self._kept = 0
        self._left_out = 0

    def append(self, data: bytes) -> None:
        # Short pieces are joined: each one costs memory beyond its bytes.
        if self._pieces and len(self._pieces[-1]) < _PIECE:
            self._pieces[-1] += data
        else:
            self._pieces.append(bytearray(data))
        self._kept += len(data)
        while self._kept - len(self._pieces[0]) >= self._max_bytes:
            dropped = len(self._pieces.popleft())
            self._kept -= dropped
            self._left_out += dropped

    def lines(self) -> tuple[int, Iterator[bytes]]:
        """Return the number of bytes left out, and the whole lines that are kept; only once."""
        kept = bytearray()
        while self._pieces:
            kept += self._pieces.popleft()
        if not kept.endswith(b"\n"):
            kept += b"\n"
        start = self._first_line(kept)
        return self._left_out + start, _lines_from(kept, start)

    def _first_line(self, kept: bytearray) -> int:
        """Return the start of the first whole line within the limits that is not the rest of a private key."""
        start = max(0, len(kept) - self._max_bytes)
        is_cut = self._left_out + start > 0
        if is_cut:
            start = kept.find(b"\n", start) + 1
        before = len(kept)
        for _ in range(self._max_lines + 1):
            before = kept.rfind(b"\n", start, before)
            if before < 0:
                break
        if before >= 0:
            is_cut, start = True, before + 1
        return _after_cut_key(kept, start) if is_cut else start


def _lines_from(data: bytearray, start: int) -> Iterator[bytes]:
    while (end := data.find(b"\n", start)) >= 0:
        yield bytes(data[start:end])
        start = end + 1


def _after_cut_key(data: bytearray, start: int) -> int:
    """Return the start of the lines after the rest of a private key."""
    ends = data.find(_KEY_ENDS, start)
    end_of_line = data.find(b"\n", ends) if ends >= 0 else start
    return start if _KEY_BEGINS in data[start:end_of_line] or ends < 0 else end_of_line + 1


def without_controls(text: str) -> str:
    """Return one line without terminal sequences and control characters; tabs stay."""
    if text.isprintable():
        return text
    first, *rest = text.translate(_EIGHT_BIT).split(_ESCAPE)
    return "".join((first, *map(_after_sequence, rest))).translate(_CONTROLS)


def _after_sequence(text: str) -> str:
    """Return the text after the sequence that it begins with."""
    if text[:1] in _STRING_INTRODUCERS:
        # Its other terminator, `ESC \`, begins with an escape character, so the text has been split there.
        return text.partition(_BELL)[2]
    if text[:1] == "[":
        text = text[1:].lstrip(_PARAMETERS)
    text = text.lstrip(_INTERMEDIATES)
    return text[1:] if "\x30" <= text[:1] <= "\x7e" else text


def _blocks(lines: Iterable[bytes], max_size: int) -> Iterator[list[bytes]]:
    block: list[bytes] = []
    for line in lines:
        block.append(line)
        if not _is_open_key(block, max_size):
            yield block
            block = []
    if block:
        yield block


def _is_open_key(lines: list[bytes], max_size: int) -> bool:
    """Tell whether the first of these lines begins a private key that has not ended yet."""
    begins = lines[0].find(_KEY_BEGINS)
    if begins < 0 or _KEY_NAME not in lines[0]:
        return False
    last = lines[0][begins:] if len(lines) == 1 else lines[-1]
    return _KEY_ENDS not in last and len(lines) < _KEY_MAX_LINES and sum(map(len, lines)) < max_size
