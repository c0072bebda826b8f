"""File names in header lines: behind `a/` or `b/`, perhaps in C quotes."""

from __future__ import annotations

from aop.core.errors import PathOutOfBounds
from aop.core.paths.names import RepoPath, exact_path
from aop.kernel.patches.lines import PatchLines, PatchRules, invalid_patch, printable

_DEV_NULL = b"/dev/null"
_EPOCHS = (b"1970-01-01", b"1969-12-31")
_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


def take_sides(lines: PatchLines) -> tuple[RepoPath | None, RepoPath | None]:
    """Read a `---` and a `+++` line; return both names, None for `/dev/null`. Raises: InvalidPatch, PathOutOfBounds."""
    if not lines.next_is_sides():
        raise invalid_patch("a `---` line needs a `+++` line below it", reason="header", line=lines.number)
    at = lines.number
    old, new = _take_side(lines, b"a/"), _take_side(lines, b"b/")
    if old is None and new is None:
        raise invalid_patch("both sides are `/dev/null`, so no file is named", reason="no_file", line=at)
    return old, new


def _take_side(lines: PatchLines, prefix: bytes) -> RepoPath | None:
    at = lines.number
    name, _, stamp = lines.take_header()[4:].partition(b"\t")
    if stamp.startswith(_EPOCHS):
        why = "a time stamp cannot say that a file is new or gone; write `/dev/null` in place of its name"
        raise invalid_patch(why, reason="epoch_time_stamp", line=at)
    return None if name == _DEV_NULL else prefixed_name(name, prefix, at=at, rules=lines.rules)


def prefixed_name(spelled: bytes, prefix: bytes, *, at: int, rules: PatchRules) -> RepoPath:
    """Return the path behind `a/` or `b/`. Raises: InvalidPatch, PathOutOfBounds."""
    name = _unquote(spelled, at=at, rules=rules)
    if not name.startswith(prefix):
        why = f"{printable(spelled)} must begin with `{prefix.decode()}`"
        raise invalid_patch(why, reason="no_prefix", line=at)
    return _path(name[len(prefix) :], at=at)


def plain_name(spelled: bytes, *, at: int, rules: PatchRules) -> RepoPath:
    """Return the path of a `rename` or `copy` line, which has no prefix. Raises: InvalidPatch, PathOutOfBounds."""
    return _path(_unquote(spelled, at=at, rules=rules), at=at)


def split_pair(pair: bytes) -> tuple[bytes, bytes] | None:
    """Split the two names of a `diff --git` line, if that is unambiguous."""
    if pair.startswith(b'"'):
        end = _closing_quote(pair)
        return (pair[: end + 1], pair[end + 2 :]) if pair[end + 1 : end + 2] == b" " else None
    if pair.endswith(b'"') and (start := pair.find(b' "')) >= 0:
        return pair[:start], pair[start + 1 :]
    # Two names that differ only in `a/` and `b/` are equally long, so a space is in the middle.
    half = len(pair) // 2
    return (pair[:half], pair[half + 1 :]) if pair[half : half + 1] == b" " else None


def git_spelling(name: str) -> bytes:
    """Return the name as git reads it, in quotes only where needed."""
    raw = name.encode()
    return b'"' + raw.replace(b'"', b'\\"') + b'"' if b'"' in raw else raw


def _path(name: bytes, *, at: int) -> RepoPath:
    try:
        return exact_path(name.decode())
    except UnicodeDecodeError as error:
        raise invalid_patch(f"the name {printable(name)} is not UTF-8", reason="encoding", line=at) from error
    except PathOutOfBounds as error:
        raise PathOutOfBounds(f"Line {at} of the patch: {error.message}", hint=None, line=at, **error.facts) from error


def _unquote(spelled: bytes, *, at: int, rules: PatchRules) -> bytes:
    if not spelled.startswith(b'"'):
        return spelled
    if not rules.allow_quoted_names:
        why = f"quoted names such as {printable(spelled)} are switched off by policy"
        raise invalid_patch(why, reason="quoted_name", line=at)
    name = _unescape(spelled[1:-1]) if _closing_quote(spelled) == len(spelled) - 1 else None
    if name is None:
        raise invalid_patch(f"{printable(spelled)} is not a quoted name", reason="quoted_name", line=at)
    return name


def _closing_quote(spelled: bytes) -> int:
    at = 1
    while at < len(spelled) and spelled[at : at + 1] != b'"':
        at += 2 if spelled[at : at + 1] == b"\\" else 1
    return at


def _unescape(quoted: bytes) -> bytes | None:
    first, *others = quoted.replace(b"\\\\", b"\\134").split(b"\\")
    name = bytearray(first)
    for other in others:
        octal = other[:3]
        if len(octal) == 3 and octal[0] in b"0123" and all(digit in b"01234567" for digit in octal):
            name.append(int(octal, 8))
            name += other[3:]
        elif other[:1] in _ESCAPES:
            name.append(_ESCAPES[other[:1]])
            name += other[1:]
        else:
            return None
    return bytes(name)
