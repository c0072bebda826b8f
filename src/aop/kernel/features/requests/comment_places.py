"""Comment places: where a comment stands in the newest tree or plan, and why."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial

from msgspec import Struct

from aop.core.ids import ObjectId, TreeId
from aop.kernel.features.requests.change_requests import ChangeRequest
from aop.kernel.features.requests.clauses import clause_fate, clauses_of
from aop.kernel.features.requests.line_fates import Fate, LineFate, file_fate, hunks_of_file, line_fate
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.plans import Plan

LARGEST_NOW = 4_000


class Place(Struct, frozen=True, kw_only=True):
    """The place of a comment in the newest tree or plan, as AOP sees it."""

    fate: Fate | None = None
    """The fate of the lines or the clause; null for a comment on the whole feature."""
    file: str = ""
    """The file in which it stands; empty if it cannot be placed, and for a clause."""
    lines: str = ""
    """The lines, such as `3-5`."""
    clause: str = ""
    """The clause of the newest plan."""
    now: str = ""
    """The text in place of changed lines, without secrets."""
    outdated: bool = False
    """Whether it cannot be placed: only what is quoted is left."""


class Places:
    """The places of comments in a feature as it is now."""

    def __init__(self, kernel: Kernel, state: FeatureState, plan: Plan | None) -> None:
        self._kernel = kernel
        self._tree = state.tree
        # Comments come in batches on the same files of the same tree.
        self._hunks_of = lru_cache(maxsize=None)(partial(hunks_of_file, kernel.git.objects))
        self._base = kernel.git.objects.tree_of(state.base_commit)
        mask = kernel.redact.mask_secrets
        self._clauses: Mapping[str, str] = (
            {} if plan is None else {name: mask(text) for name, text in clauses_of(plan).items()}
        )

    def place_of(self, comment: ChangeRequest) -> Place:
        """Return where a comment stands now."""
        if comment.clause:
            fate, clause = clause_fate(comment, self._clauses)
            now = self._clauses.get(comment.clause, "") if fate == "changed" else ""
            return Place(fate=fate, clause=clause, now=now[:LARGEST_NOW], outdated=not clause)
        if not comment.file:
            return Place()
        is_old = comment.side == "old"
        found = self._fate(comment, self._base if is_old else self._tree)
        # Of lines of the base a person wants to know whether the feature has them.
        seen = self._fate(comment, self._tree) if is_old else found
        lines = "" if not found.first else str(found.first)
        lines = f"{lines}-{found.last}" if found.last > found.first else lines
        now = self._kernel.redact.mask_secrets(seen.now)[:LARGEST_NOW]
        return Place(fate=seen.fate, file=found.file, lines=lines, now=now, outdated=not found.file)

    def _fate(self, comment: ChangeRequest, newest: TreeId) -> LineFate:
        seen = TreeId(ObjectId(comment.base)) if comment.side == "old" else comment.tree
        objects = self._kernel.git.objects
        if not comment.lines:
            return file_fate(objects, seen, newest, comment.file)
        lines, hunks_of = range_of(comment.lines), self._hunks_of
        return line_fate(objects, seen, newest, comment.file, lines, hunks_of=hunks_of)


def range_of(lines: str) -> tuple[int, int]:
    """Return the first and the last of lines such as `3-5` or `7`."""
    first, _, last = lines.partition("-")
    return int(first), int(last or first)
