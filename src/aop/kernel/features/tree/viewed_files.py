"""Viewed files: changes of a feature's files that a person has looked at.

A mark is for one change of one file, with the content of both sides. When either side changes, the mark means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from aop.core.digests import sha256_hex
from aop.core.ids import FeatureId
from aop.kernel.ports.git import TreeChange
from aop.kernel.record.documents.base import Document, next_version
from aop.kernel.record.port import Snapshot, Transaction

MOST_MARKS = 5000


class ViewedMark(Struct, frozen=True, kw_only=True):
    """One person's word that a change was looked at."""

    by: str
    at: str


class ViewedFiles(Document, frozen=True, kw_only=True):
    """The marks of a feature, by change."""

    kind: ClassVar[str] = "viewed_files"

    feature_id: FeatureId
    marks: Mapping[str, ViewedMark] = {}


def change_id(change: TreeChange) -> str:
    """Return the name of a change: its path, and mode and content of both sides."""
    sides = ("-" if side is None else f"{side.mode} {side.oid}" for side in (change.old, change.new))
    return sha256_hex("\0".join((*sides, change.path)).encode(errors="surrogateescape"))[:32]


def viewed_marks(view: Snapshot, feature_id: FeatureId) -> Mapping[str, ViewedMark]:
    """Return the marks of a feature; those of changes that are gone are among them."""
    known = view.get(ViewedFiles, feature_id)
    return {} if known is None else known.marks


def store_mark(tx: Transaction, feature_id: FeatureId, change: str, mark: ViewedMark | None) -> None:
    """Set or take back a mark."""
    known = tx.get(ViewedFiles, feature_id)
    marks = {name: each for name, each in viewed_marks(tx, feature_id).items() if name != change}
    if mark is not None:
        marks[change] = mark
    # The oldest marks are of trees that are long gone.
    kept = dict(list(marks.items())[-MOST_MARKS:])
    tx.put(ViewedFiles(version=next_version(known), feature_id=feature_id, marks=kept), feature_id)
