"""The diff of small files that changed in one place, where there is but one way to tell it; git tells all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from aop.adapters.git.objects.trees import Difference
from aop.core.ids import ObjectId
from aop.kernel.ports.git import FileMode

_LARGEST = 1 << 15
# Other characters git may write as escapes, or a tab behind them.
_PLAIN_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+=@")


def plain_diff(changed: Iterable[Difference], blob: Callable[[ObjectId], bytes]) -> bytes | None:
    """Return what `git diff-tree -p -U0` prints, but for the names of functions; None if git must be asked."""
    told: list[bytes] = []
    for path, old, new in sorted(changed):
        (mode, *others) = {side[0] for side in (old, new) if side is not None}
        if others or mode not in (FileMode.FILE, FileMode.EXECUTABLE) or not _PLAIN_NAME.issuperset(path):
            return None
        hunk = _hunk(*(b"" if side is None else blob(side[1]) for side in (old, new)))
        if hunk is None:
            return None
        told.append(_head(path.decode("ascii"), mode, old and old[1], new and new[1]).encode() + hunk)
    return b"".join(told)


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
    """Return the one hunk between two texts; None if there could be more, or if it could stand elsewhere."""
    if max(len(old), len(new)) > _LARGEST or b"\0" in old + new or {old[-1:], new[-1:]} - {b"", b"\n"} or old == new:
        return None
    before, after = old.split(b"\n")[:-1], new.split(b"\n")[:-1]
    begin = _same(before, after)
    end = _same(before[begin:][::-1], after[begin:][::-1])
    gone, come = before[begin : len(before) - end], after[begin : len(after) - end]
    above, below = before[begin - 1 : begin], before[len(before) - end :][:1]
    if not set(gone).isdisjoint(come) or any(
        part and (part[-1:] == above or part[:1] == below) for part in (gone, come)
    ):
        return None
    lines = (*(b"-" + line for line in gone), *(b"+" + line for line in come))
    return b"@@ -%s +%s @@\n%s\n" % (_range(begin, gone), _range(begin, come), b"\n".join(lines))


def _same(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Return how many lines are the same from the beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _range(begin: int, lines: Sequence[bytes]) -> bytes:
    first = begin + 1 if lines else begin
    return b"%d" % first if len(lines) == 1 else b"%d,%d" % (first, len(lines))
