"""Hunks of a unified diff; the counts in the header decide what is content."""

from __future__ import annotations

from typing import NoReturn

from msgspec import Struct

from aop.kernel.patches.lines import PatchLines, invalid_patch, printable

NO_NEWLINE = b"\\ No newline at end of file"

_MAX_DIGITS = 9


class Hunk(Struct, frozen=True, kw_only=True):
    """One changed stretch of a file, with the lines around it."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    section: str = ""
    lines: tuple[bytes, ...]
    """Without their LF; each begins with a space, `+` or `-`, or is the marker `NO_NEWLINE`."""

    @property
    def header(self) -> str:
        """Return the ranges as a diff writes them."""
        return f"@@ -{self.old_start},{self.old_count} +{self.new_start},{self.new_count} @@"

    @property
    def begin(self) -> int:
        """Return the stated number of old lines before the hunk."""
        return self.old_start - 1 if self.old_count else self.old_start


def scan_hunks(lines: PatchLines, path: str) -> tuple[Hunk, ...]:
    """Read all hunks of a file; they must be in order and must not overlap. Raises: InvalidPatch."""
    hunks: list[Hunk] = []
    while lines.next_begins(b"@@"):
        at = lines.number
        hunk = _scan_hunk(lines, path)
        if hunks and not _follows(hunk, hunks[-1]):
            why = f"the hunk `{hunk.header}` must begin after the end of the one above it, `{hunks[-1].header}`"
            raise invalid_patch(why, reason="hunks_overlap", line=at, path=path)
        hunks.append(hunk)
        lines.skip_blank()
    if not hunks:
        why = f"no hunk `@@ -start,count +start,count @@` follows the header of `{path}`"
        raise invalid_patch(why, reason="no_hunks", line=lines.number, path=path)
    return tuple(hunks)


def _follows(hunk: Hunk, above: Hunk) -> bool:
    # The order of two insertions at one place is ambiguous; git swaps them at the top of a file.
    return hunk.begin >= above.begin + max(above.old_count, hunk.old_count == 0)


def _scan_hunk(lines: PatchLines, path: str) -> Hunk:
    at = lines.number
    header = lines.take_header()
    # `@@ -1,3 +1,4 @@ section`
    words = header.split(b" ", 4)
    ranges = [_range(word, sign) for word, sign in zip(words[1:3], (b"-", b"+"), strict=False)]
    if len(ranges) < 2 or None in ranges or words[0] != b"@@" or words[3:4] != [b"@@"]:
        form = f"such as `@@ -10,3 +10,4 @@`, with at most {_MAX_DIGITS} digits each"
        why = f"{printable(header)} is not a hunk header {form}"
        raise invalid_patch(why, reason="garbled_hunk_header", line=at, path=path)
    (old_start, old_count), (new_start, new_count) = (pair for pair in ranges if pair is not None)
    body = _HunkBody(lines, path, declared=(old_count, new_count))
    return Hunk(
        old_start=old_start,
        old_count=old_count,
        new_start=new_start,
        new_count=new_count,
        # Copied from the file's text in an unknown encoding; it does not affect the change.
        section=words[4].decode("utf-8", "replace").strip() if len(words) == 5 else "",
        lines=body.scan(),
    )


def _range(word: bytes, sign: bytes) -> tuple[int, int] | None:
    start, comma, count = word[1:].partition(b",")
    numbers = (start, count) if comma else (start, b"1")
    if word[:1] != sign or not all(number.isdigit() and len(number) <= _MAX_DIGITS for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


class _HunkBody:
    """The lines below one hunk header."""

    def __init__(self, lines: PatchLines, path: str, *, declared: tuple[int, int]) -> None:
        self._lines = lines
        self._path = path
        self._declared = declared
        self._header_line = lines.number - 1

    def scan(self) -> tuple[bytes, ...]:
        """Read exactly as many lines as the header declares."""
        body: list[bytes] = []
        old_left, new_left = self._declared
        while old_left or new_left:
            line = self._content_line(len(body))
            old_left -= line.startswith((b" ", b"-"))
            new_left -= line.startswith((b" ", b"+"))
            if old_left < 0 or new_left < 0:
                self._refuse_counts(len(body))
            self._lines.take()
            body.append(line)
        if self._lines.next_begins(b"\\"):
            body.append(self._content_line(len(body)))
            self._lines.take()
        if self._lines.next_begins(b" ", b"+", b"-") and not self._lines.next_is_sides():
            self._refuse_counts(len(body))
        self._refuse_meaningless(body)
        return tuple(body)

    def _content_line(self, taken: int) -> bytes:
        line = self._lines.peek()
        if line is None or line.startswith((b"diff --git ", b"@@ ", b"```")):
            self._refuse_counts(taken)
        if line == b"":
            # An empty context line whose space was stripped by an editor or a model.
            return b" "
        if line.startswith((b" ", b"+", b"-")) or line == NO_NEWLINE:
            return line
        why = f"{printable(line)} is inside a hunk and must begin with a space, `+` or `-`"
        raise invalid_patch(why, reason="bad_hunk_line", line=self._lines.number, path=self._path)

    def _refuse_counts(self, taken: int) -> NoReturn:
        old, new = _counts_by_shape(self._lines, -taken)
        declared_old, declared_new = self._declared
        declared = f"the hunk declares {declared_old} old and {declared_new} new lines"
        raise invalid_patch(
            f"{declared}, but its body has {old} old and {new} new lines",
            reason="wrong_hunk_counts",
            line=self._header_line,
            path=self._path,
            declared=[declared_old, declared_new],
            actual=[old, new],
        )

    def _refuse_meaningless(self, body: list[bytes]) -> None:
        if not _markers_end_their_side(body):
            why = f"`{NO_NEWLINE.decode()}` may only stand after the last old or the last new line of the hunk"
            raise invalid_patch(why, reason="misplaced_marker", line=self._header_line, path=self._path)
        if not any(line.startswith((b"+", b"-")) for line in body):
            why = "the hunk changes nothing"
            raise invalid_patch(why, reason="empty_hunk", line=self._header_line, path=self._path)


def _counts_by_shape(lines: PatchLines, ahead: int) -> tuple[int, int]:
    """Count old and new lines up to the first line that does not look like content."""
    old = new = blanks = 0
    while (line := lines.peek(ahead)) is not None:
        if line.startswith(b"--- ") and (lines.peek(ahead + 1) or b"").startswith(b"+++ "):
            break
        if line == b"":
            blanks += 1
        elif line.startswith((b" ", b"+", b"-")):
            old += blanks + (not line.startswith(b"+"))
            new += blanks + (not line.startswith(b"-"))
            blanks = 0
        elif line != NO_NEWLINE:
            break
        ahead += 1
    return old, new


def _markers_end_their_side(body: list[bytes]) -> bool:
    old_ended = new_ended = False
    previous = b"\\"
    for line in body:
        kind = line[:1]
        if kind == b"\\":
            if previous == b"\\":
                return False
            old_ended |= previous != b"+"
            new_ended |= previous != b"-"
        elif (old_ended and kind != b"+") or (new_ended and kind != b"-"):
            return False
        previous = kind
    return True
