"""Lines of a patch as received, within limits, read once from the top."""

from __future__ import annotations

from msgspec import Struct

from aop.core.errors import InvalidPatch, Json

MIB = 1024 * 1024


class PatchRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits and permissions for the text of a patch."""

    max_bytes: int = 4 * MIB
    max_files: int = 2000
    max_line_bytes: int = MIB
    allow_copy: bool = False
    allow_binary: bool = False
    allow_symlinks: bool = False
    allow_quoted_names: bool = False


def invalid_patch(why: str, *, reason: str, line: int, **facts: Json) -> InvalidPatch:
    """Return the refusal of one line of a patch."""
    return InvalidPatch(f"Line {line} of the patch: {why}.", hint=None, reason=reason, line=line, **facts)


def printable(raw: bytes) -> str:
    """Return untrusted bytes as short printable text in backticks."""
    text = raw[:80].decode("utf-8", "backslashreplace")
    return f"`{text!a}`" if len(raw) <= 80 else f"`{text!a}...`"


class PatchLines:
    """A cursor over the lines of a patch."""

    def __init__(self, text: bytes, rules: PatchRules) -> None:
        """Split a text that respects the limits. Raises: InvalidPatch."""
        _refuse_unreadable(text, rules)
        self.rules = rules
        self._lines = text.split(b"\n")[:-1]
        self._next = 0
        for number, line in enumerate(self._lines, start=1):
            if len(line) > rules.max_line_bytes:
                why = f"it has {len(line)} bytes, and {rules.max_line_bytes} are allowed"
                raise invalid_patch(why, reason="line_too_long", line=number)

    @property
    def number(self) -> int:
        """Return the number of the next line."""
        return self._next + 1

    def peek(self, ahead: int = 0) -> bytes | None:
        """Return the next line, or one further ahead, without taking it; None past the end."""
        at = self._next + ahead
        return self._lines[at] if at < len(self._lines) else None

    def next_begins(self, *starts: bytes) -> bool:
        """Tell whether the next line begins with one of these."""
        line = self.peek()
        return line is not None and line.startswith(starts)

    def next_is_sides(self) -> bool:
        """Tell whether a `---` line and its `+++` line come next."""
        return self.next_begins(b"--- ") and (self.peek(1) or b"").startswith(b"+++ ")

    def take(self) -> bytes:
        """Return the next line and advance."""
        self._next += 1
        return self._lines[self._next - 1]

    def take_header(self) -> bytes:
        """Return the next line, which must be a header line. Raises: InvalidPatch if it has a carriage return."""
        line = self.take()
        if b"\r" in line:
            why = "header lines end in LF alone; only lines of content may hold a carriage return"
            raise invalid_patch(why, reason="carriage_return_in_header", line=self._next)
        return line

    def skip_blank(self) -> bool:
        """Skip blank lines; tell whether anything follows."""
        while self.peek() == b"":
            self._next += 1
        return self.peek() is not None


def _refuse_unreadable(text: bytes, rules: PatchRules) -> None:
    if len(text) > rules.max_bytes:
        why = f"The patch has {len(text)} bytes, and {rules.max_bytes} are allowed."
        raise InvalidPatch(why, hint="Send the change in several smaller patches.", reason="too_large", bytes=len(text))
    if not text.strip():
        raise InvalidPatch("The patch is empty.", reason="empty")
    if text.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        raise invalid_patch("it begins with a byte order mark; send UTF-8 without one", reason="encoding", line=1)
    if (nul := text.find(b"\0")) >= 0:
        line = text.count(b"\n", 0, nul) + 1
        raise invalid_patch("it holds a NUL byte, which no text file has", reason="nul_byte", line=line)
    if not text.endswith(b"\n"):
        why = "it is the last one and does not end in a newline, so the patch may be cut off"
        raise invalid_patch(why, reason="no_final_newline", line=text.count(b"\n") + 1)
