"""QA index: the parts of a feature's diff that tests still have to cover."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import EvidenceStale, InvalidArguments
from aop.kernel.config.gates import Mode
from aop.kernel.config.in_force import Config
from aop.kernel.gates.steps import profile_named, with_overrides
from aop.kernel.record.documents.base import next_version, revise
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, Subject, Verdict
from aop.kernel.record.documents.plans import Plan
from aop.kernel.record.documents.qa import QaHunk, QaIndex, QaItem, QaStatus
from aop.kernel.record.port import Transaction

SETTLED: tuple[QaStatus, ...] = ("passed", "waived")
"""The statuses after which nothing is left to test."""
FOR_WHOLE_FILES: tuple[QaStatus, ...] = ("pending", "running")
"""The statuses that a file as a whole may get; every other needs named hunks."""
LOUDEST_FIRST: tuple[QaStatus, ...] = ("failed", "running", "pending", "passed", "waived")
"""The status of a file is the first of these that one of its hunks has."""

MOST_MARKS = 1_000
"""The most marks that one update or answer has."""

ChangeType = Literal["added", "modified", "deleted"]


def renew_index(tx: Transaction, state: FeatureState, diff: bytes, plan: Plan | None, config: Config) -> None:
    """Store the index of a feature's tree, from its whole diff; hunks that did not change keep their status.

    Each hunk needs the full gates of the profile, and the steps of the plan.
    """
    before = tx.get(QaIndex, state.feature_id)
    known = {item.path: item for item in before.items} if before else {}
    full = profile_named(config.gates, state.gate_profile).modes.full
    required = tuple(f"{Mode.FULL}:{step.name}" for step in with_overrides(full, Mode.FULL, plan, config.policy))
    index = QaIndex(
        version=next_version(before),
        feature_id=state.feature_id,
        source_diff_ref=f"{state.base_commit}..{state.tree}",
        items=tuple(_item_after_patch(path, hunks, required, known.get(path)) for path, hunks in _hunks_by_file(diff)),
    )
    tx.put(index, state.feature_id)


def _item_after_patch(path: str, hunks: Sequence[QaHunk], required: tuple[str, ...], old: QaItem | None) -> QaItem:
    known = {hunk.ref: hunk for hunk in old.hunks} if old and old.required_tests == required else {}
    now = tuple(_with_lines_of(known[hunk.ref], hunk) if hunk.ref in known else hunk for hunk in hunks)
    return _item(path, now, required, last_run_at=old.last_run_at if old else None)


def _with_lines_of(known: QaHunk, hunk: QaHunk) -> QaHunk:
    return msgspec.structs.replace(known, start_line=hunk.start_line, end_line=hunk.end_line)


def _item(path: str, hunks: tuple[QaHunk, ...], required: tuple[str, ...], *, last_run_at: str | None) -> QaItem:
    statuses = {hunk.status for hunk in hunks}
    refs = tuple(sorted({ref for hunk in hunks for ref in hunk.evidence_refs}))
    return QaItem(
        path=path,
        hunks=hunks,
        required_tests=required,
        status=next(status for status in LOUDEST_FIRST if status in statuses),
        last_run_at=last_run_at if refs else None,
        evidence_refs=refs,
    )


class Mark(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The status that QA sets for hunks of one file."""

    path: Annotated[str, Meta(max_length=4096)]
    """The file, as the index names it."""
    status: QaStatus
    """The status to set."""
    hunk_refs: Annotated[tuple[str, ...], Meta(max_length=10_000)] = ()
    """The hunks, by their `ref`; needed for `passed`, `failed` and `waived`. Without any, all hunks of the file."""
    reason: Annotated[str, Meta(max_length=500)] = ""
    """Why the hunks need no test; needed for `waived`."""


class GateProof(Struct, frozen=True, kw_only=True):
    """The gate runs that a batch of marks rests on."""

    runs: tuple[GateRun, ...]
    subjects: Mapping[str, Subject]
    """The subject that a run of each mode must have to prove the feature as it is now."""

    @property
    def refs(self) -> tuple[str, ...]:
        """Return the ids of the runs."""
        return tuple(sorted({run.run_id for run in self.runs}))

    @property
    def last_run_at(self) -> str | None:
        """Return when the newest run ended."""
        return max((run.finished_at for run in self.runs), default=None)

    @property
    def passed_tests(self) -> frozenset[str]:
        """Return the steps that passed, in passed runs about the feature as it is now."""
        return frozenset(
            f"{run.mode}:{step.name}"
            for run in self.runs
            if run.verdict is Verdict.PASS and run.subject == self.subjects.get(run.mode)
            for step in run.steps
            if step.outcome == "passed"
        )


def apply_marks(index: QaIndex, marks: Sequence[Mark], proof: GateProof) -> QaIndex:
    """Return the next version of the index, with the marks of QA. Raises: InvalidArguments, EvidenceStale."""
    items = {item.path: item for item in index.items}
    seen: set[tuple[str, str]] = set()
    for mark in marks:
        item = items.get(mark.path)
        if item is None:
            raise _unknown_name(f"The index has no file `{ascii(mark.path[:200])[1:-1]}`.", path=mark.path)
        chosen = _hunks_to_mark(item, mark)
        if not seen.isdisjoint((mark.path, ref) for ref in chosen):
            raise _unknown_name(f"A hunk of `{mark.path}` is marked twice.", path=mark.path)
        seen |= {(mark.path, ref) for ref in chosen}
        if mark.status == "passed":
            _refuse_unproven(item, proof)
        items[mark.path] = _apply_mark(item, mark, chosen, proof)
    return revise(index, items=tuple(items.values()))


def _hunks_to_mark(item: QaItem, mark: Mark) -> frozenset[str]:
    """Return the hunks that a mark names."""
    all_refs = frozenset(hunk.ref for hunk in item.hunks)
    unknown = sorted(set(mark.hunk_refs) - all_refs)
    if unknown:
        raise _unknown_name(f"`{item.path}` has no hunk `{ascii(unknown[0][:80])[1:-1]}`.", path=item.path)
    if not mark.hunk_refs and mark.status not in FOR_WHOLE_FILES:
        why = f"`hunk_refs` must name the hunks of `{item.path}` that are `{mark.status}`."
        raise _unknown_name(why, path=item.path)
    if mark.status == "waived" and not mark.reason.strip():
        raise _unknown_name(f"To waive hunks of `{item.path}`, give a `reason`.", path=item.path)
    return frozenset(mark.hunk_refs) or all_refs


def _refuse_unproven(item: QaItem, proof: GateProof) -> None:
    missing = sorted(set(item.required_tests) - proof.passed_tests)
    if missing or not item.required_tests:
        raise EvidenceStale(
            f"Hunks of `{item.path}` have not passed: no gate run that `evidence_refs` names has passed on the feature "
            f"as it is now with {', '.join(f'`{name}`' for name in missing) or 'any test'}.",
            path=item.path,
            missing_tests=missing,
        )


def _apply_mark(item: QaItem, mark: Mark, chosen: frozenset[str], proof: GateProof) -> QaItem:
    is_result = mark.status not in FOR_WHOLE_FILES
    refs, reason = proof.refs if is_result else (), mark.reason if mark.status == "waived" else ""
    hunks = tuple(
        msgspec.structs.replace(hunk, status=mark.status, evidence_refs=refs, reason=reason)
        if hunk.ref in chosen
        else hunk
        for hunk in item.hunks
    )
    last_run_at = proof.last_run_at if is_result and proof.runs else item.last_run_at
    return _item(item.path, hunks, item.required_tests, last_run_at=last_run_at)


def _unknown_name(message: str, *, path: str) -> InvalidArguments:
    return InvalidArguments(
        message, hint="Read the index with `qa.test_index_get`, and name files and hunks as it does.", path=path[:200]
    )


class _FileDiff:
    """The part of a diff that is about one file, read line by line."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.head: list[bytes] = []
        self.bodies: list[list[bytes]] = []

    def take(self, line: bytes) -> None:
        if line.startswith(b"@@ "):
            self.bodies.append([line])
        else:
            (self.bodies[-1] if self.bodies else self.head).append(line)

    def hunks(self) -> tuple[QaHunk, ...]:
        """Return the hunks; a change of the mode, or one without lines, counts as one."""
        hunks = [_hunk(self.path, body) for body in self.bodies]
        if not hunks or any(line.startswith(b"old mode") for line in self.head):
            hunks.insert(0, self._hunk_of_head(with_content=not hunks))
        return tuple(hunks)

    def _hunk_of_head(self, *, with_content: bool) -> QaHunk:
        kind: ChangeType = "modified"
        if any(line.startswith(b"new file") for line in self.head):
            kind = "added"
        elif any(line.startswith(b"deleted file") for line in self.head):
            kind = "deleted"
        facts = [line for line in self.head if b"mode" in line.split(b" ")[:3] or with_content]
        return QaHunk(ref=_ref(self.path, *facts), start_line=0, end_line=0, change_type=kind)


def _hunks_by_file(diff: bytes) -> Iterator[tuple[str, tuple[QaHunk, ...]]]:
    """Yield the hunks of each file in a diff without context lines."""
    files: list[_FileDiff] = []
    for line in diff.removesuffix(b"\n").split(b"\n"):
        if line.startswith(b"diff --git "):
            files.append(_FileDiff(_name(line[len(b"diff --git ") :])))
        elif files:
            files[-1].take(line)
    return ((file.path, file.hunks()) for file in files)


def _name(pair: bytes) -> str:
    """Return NAME of `a/NAME b/NAME`; without rename detection both are the same."""
    name = pair[len(pair) // 2 + 1 :]
    # Of the names that the kernel admits, git quotes only those with a `"`.
    if name.startswith(b'"'):
        name = name[1:-1].replace(b'\\"', b'"')
    return name[2:].decode()


def _hunk(path: str, body: Sequence[bytes]) -> QaHunk:
    old, new = (part[1:] for part in body[0].split(b" ")[1:3])
    (_, old_count), (start, count) = _range(old), _range(new)
    kind: ChangeType = "modified"
    if not old_count:
        kind = "added"
    elif not count:
        kind = "deleted"
    # The old range counts in the commit that the feature was cut from, so no other hunk of the feature moves it.
    ref = _ref(path, old, *body[1:])
    return QaHunk(ref=ref, start_line=start, end_line=start + max(count - 1, 0), change_type=kind)


def _ref(path: str, *facts: bytes) -> str:
    return hashlib.sha256(b"\n".join((path.encode(), *facts))).hexdigest()[:16]


def _range(text: bytes) -> tuple[int, int]:
    start, _, count = text.partition(b",")
    return int(start), int(count or 1)
