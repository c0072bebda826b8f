"""Small diffs: one change in a small file, where only one diff is possible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from aop.adapters.git.objects.trees import Difference
from aop.core.ids import ObjectId
from aop.kernel.ports.git import FileMode

_LARGEST = 1 << 15
# Git may escape other characters, or write a tab after them.
_PLAIN_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+=@")


def plain_diff(changed: Iterable[Difference], blob: Callable[[ObjectId], bytes]) -> bytes | None:
    """Return what `git diff-tree -p -U0` prints, but for the names of functions; None if git must be asked."""
    parts: list[bytes] = []
    for path, old, new in sorted(changed):
        (mode, *others) = {side[0] for side in (old, new) if side is not None}
        if others or mode not in (FileMode.FILE, FileMode.EXECUTABLE) or not _PLAIN_NAME.issuperset(path):
            return None
        hunk = _hunk(*(b"" if side is None else blob(side[1]) for side in (old, new)))
        if hunk is None:
            return None
        parts.append(_head(path.decode("ascii"), mode, old and old[1], new and new[1]).encode() + hunk)
    return b"".join(parts)


def _head(path: str, mode: FileMode, old: ObjectId | None, new: ObjectId | None) -> str:
    nothing = "0" * len(old or new or "")
    lines = [f"diff --git a/{path} b/{path}"]
    if old and new:
        lines += [f"index {old}..{new} {mode}"]
    else:
        lines += [f"{'deleted' if old else 'new'} file mode {mode}", f"index {old or nothing}..{new or nothing}"]
    lines += [f"--- a/{path}" if old else "--- /dev/null", f"+++ b/{path}" if new else "+++ /dev/null", ""]
    return "\n".join(lines)


def _hunk(old: bytes, new: bytes) -> bytes | None:
    """Return the one hunk between two texts; None if there could be several, or another position."""
    if max(len(old), len(new)) > _LARGEST or b"\0" in old + new or {old[-1:], new[-1:]} - {b"", b"\n"} or old == new:
        return None
    before, after = old.split(b"\n")[:-1], new.split(b"\n")[:-1]
    begin = _equal_lines(before, after)
    end = _equal_lines(before[begin:][::-1], after[begin:][::-1])
    gone, come = before[begin : len(before) - end], after[begin : len(after) - end]
    above, below = before[begin - 1 : begin], before[len(before) - end :][:1]
    if not set(gone).isdisjoint(come) or any(
        part and (part[-1:] == above or part[:1] == below) for part in (gone, come)
    ):
        return None
    lines = (*(b"-" + line for line in gone), *(b"+" + line for line in come))
    return b"@@ -%s +%s @@\n%s\n" % (_range(begin, gone), _range(begin, come), b"\n".join(lines))


def _equal_lines(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Return the number of equal lines at the beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _range(begin: int, lines: Sequence[bytes]) -> bytes:
    first = begin + 1 if lines else begin
    return b"%d" % first if len(lines) == 1 else b"%d,%d" % (first, len(lines))
