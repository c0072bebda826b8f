"""The QA index: what of a feature's diff still has to be looked at by tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from aop.kernel.config_models import Mode, Step
from aop.kernel.documents import FeatureState, QaHunk, QaIndex, QaItem


def next_index(
    before: QaIndex | None,
    state: FeatureState,
    diff: bytes,
    *,
    just_changed: Collection[str],
    steps: Sequence[Step],
) -> QaIndex:
    """Return the index of the whole feature; what the last patch touched is pending, the rest keeps its status."""
    known = {item.path: item for item in before.items} if before else {}
    required = tuple(f"{Mode.FULL}:{step.name}" for step in steps)
    items = []
    for path, hunks in _hunks_by_file(diff):
        old = known.get(path)
        if old is not None and path not in just_changed and (old.hunks, old.required_tests) == (hunks, required):
            items.append(old)
        else:
            items.append(QaItem(path=path, hunks=hunks, required_tests=required, status="pending"))
    return QaIndex(
        version=before.version + 1 if before else 1,
        feature_id=state.feature_id,
        source_diff_ref=f"{state.base_commit}..{state.tree}",
        items=tuple(items),
    )


def _hunks_by_file(diff: bytes) -> Iterator[tuple[str, tuple[QaHunk, ...]]]:
    """Read a diff that git wrote without context lines."""
    path, hunks = "", list[QaHunk]()
    for line in diff.split(b"\n"):
        if line.startswith(b"diff --git "):
            if path:
                yield path, tuple(hunks)
            path, hunks = _name(line[len(b"diff --git ") :]), []
        elif line.startswith(b"@@ "):
            hunks.append(_hunk(line))
    if path:
        yield path, tuple(hunks)


def _name(pair: bytes) -> str:
    """Return NAME of `a/NAME b/NAME`: both are the same, for renames are not looked for."""
    name = pair[len(pair) // 2 + 1 :]
    # Of the names that the kernel admits, git quotes only those with a `"`.
    if name.startswith(b'"'):
        name = name[1:-1].replace(b'\\"', b'"')
    return name[2:].decode()


def _hunk(header: bytes) -> QaHunk:
    old, new = (part[1:] for part in header.split(b" ")[1:3])
    (_, old_count), (start, count) = _range(old), _range(new)
    kind: Literal["added", "modified", "deleted"] = "modified"
    if not old_count:
        kind = "added"
    elif not count:
        kind = "deleted"
    return QaHunk(start_line=start, end_line=start + max(count - 1, 0), change_type=kind)


def _range(text: bytes) -> tuple[int, int]:
    start, _, count = text.partition(b",")
    return int(start), int(count or 1)
