"""Tools `qa.test_index_get` and `qa.test_index_update`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, get_args

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import InvalidArguments, QaIndexVersionConflict
from aop.core.structs import copy_fields
from aop.core.text.counts import list_some
from aop.kernel.features.lifecycle import require_status
from aop.kernel.gates.gate_runs import subjects_by_mode
from aop.kernel.gates.qa_index import MOST_MARKS, SETTLED, ChangeType, GateProof, Mark, apply_marks
from aop.kernel.gateway.calls import Call, ChangeArguments, FeatureArguments, Kernel, Outcome, Tool, the_feature
from aop.kernel.gateway.role_sets import READERS, TESTERS
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.documents.plans import AcceptedPlan
from aop.kernel.record.documents.qa import QaIndex, QaItem, QaStatus
from aop.kernel.record.port import Snapshot, Transaction

MOST_REFS = 20
MOST_SHOWN = 20


class PendingHunk(Struct, frozen=True, kw_only=True):
    ref: str
    """Its name in `qa.test_index_update`."""
    start_line: int
    """The first line, counted from 1; 0 if the file as a whole changed."""
    end_line: int
    """The last line."""
    change_type: ChangeType
    """The kind of change."""
    status: QaStatus
    """Its status in QA."""
    required_tests: tuple[str, ...]
    """The tests that must pass, as `<mode>:<step>`."""


class PendingFile(Struct, frozen=True, kw_only=True):
    path: str
    hunks: tuple[PendingHunk, ...]
    """The hunks that are neither passed nor waived."""


class IndexText(Struct, frozen=True, kw_only=True):
    feature_id: str
    index: QaIndex | None
    """None until the first patch."""
    counts: Mapping[str, int]
    """The number of files of each status."""
    hunk_counts: Mapping[str, int]
    """The number of hunks of each status."""
    pending: tuple[PendingFile, ...]
    """The files and hunks that are still to be tested."""


def get(call: Call, arguments: FeatureArguments) -> Outcome:
    """Return the QA index of a feature, with the pending hunks."""
    with call.kernel.record.read() as view:
        state = the_feature(view, arguments)
        index = view.get(QaIndex, state.feature_id)
    items = index.items if index else ()
    return IndexText(
        feature_id=state.feature_id,
        index=index,
        counts=_counts([item.status for item in items]),
        hunk_counts=_counts([hunk.status for item in items for hunk in item.hunks]),
        pending=tuple(_pending_file(item) for item in items if item.status not in SETTLED),
    )


def _counts(statuses: Sequence[QaStatus]) -> dict[str, int]:
    found = Counter(statuses)
    return {status: found[status] for status in get_args(QaStatus)}


def _pending_file(item: QaItem) -> PendingFile:
    return PendingFile(
        path=item.path,
        hunks=tuple(
            copy_fields(PendingHunk, hunk, required_tests=item.required_tests)
            for hunk in item.hunks
            if hunk.status not in SETTLED
        ),
    )


class UpdateIndex(ChangeArguments, frozen=True, kw_only=True):
    expected_version: Annotated[int, Meta(ge=1)]
    """The version of the index that the caller has read."""
    updates: Annotated[tuple[Mark, ...], Meta(min_length=1, max_length=MOST_MARKS)]
    """The marks to set, file by file."""
    evidence_refs: Annotated[tuple[str, ...], Meta(max_length=MOST_REFS)] = ()
    """The gate runs of this feature that the updates rest on."""


class UpdatedIndex(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    """The version of the index now."""
    counts: Mapping[str, int]
    """The number of files of each status."""
    hunk_counts: Mapping[str, int]
    """The number of hunks of each status."""


def update(call: Call, arguments: UpdateIndex) -> Outcome:
    """Mark hunks of the feature as it is now; `passed` needs gate runs that AOP recorded."""
    marks = tuple(msgspec.structs.replace(mark, reason=_one_line(call, mark.reason)) for mark in arguments.updates)

    def decide(tx: Transaction) -> Outcome:
        # `expected_version` is that of the index, not of the feature.
        state = the_feature(tx, FeatureArguments(feature_id=arguments.feature_id))
        before = _index_at(tx, state, arguments.expected_version)
        require_status(
            state, Status.BUILDING, Status.QA, Status.READY_TO_MERGE, Status.BLOCKED, to="have its tests marked"
        )
        index = apply_marks(before, marks, _proof(call.kernel, tx, state, arguments.evidence_refs))
        tx.put(index, state.feature_id)
        tx.mark_unshown("feature", state.feature_id)
        tx.append(
            call.event(
                "qa_index_updated",
                state.feature_id,
                index_version=index.version,
                summary=_summary(marks),
                evidence_refs=list(arguments.evidence_refs),
            )
        )
        return UpdatedIndex(
            feature_id=state.feature_id,
            version=index.version,
            counts=_counts([item.status for item in index.items]),
            hunk_counts=_counts([hunk.status for item in index.items for hunk in item.hunks]),
        )

    return call.commit(decide)


def _one_line(call: Call, text: str) -> str:
    return " ".join(call.kernel.redact(text).split())


def _index_at(view: Snapshot, state: FeatureState, expected: int) -> QaIndex:
    index = view.get(QaIndex, state.feature_id)
    if index is None or index.version != expected:
        current = index.version if index else 0
        raise QaIndexVersionConflict(
            f"The QA index of `{state.feature_id}` is at version {current}, not {expected}.",
            expected_version=expected,
            current_version=current,
        )
    return index


def _proof(kernel: Kernel, view: Snapshot, state: FeatureState, refs: Sequence[str]) -> GateProof:
    runs = []
    for ref in refs:
        run = view.get(GateRun, ref)
        if run is None or run.feature_id != state.feature_id:
            raise InvalidArguments(
                f"`{state.feature_id}` has no gate run `{ascii(ref[:80])[1:-1]}`.",
                hint="Name runs by the `run_id` that `gates.run` and `evidence.latest` return.",
                evidence_ref=ref[:80],
            )
        runs.append(run)
    accepted = view.get(AcceptedPlan, state.feature_id)
    subjects = subjects_by_mode(state, accepted.plan if accepted else None, kernel.config())
    return GateProof(runs=tuple(runs), subjects=subjects)


def _summary(marks: Sequence[Mark]) -> str:
    """Return the marks as one line; a waiver shows its reason."""
    parts = [
        f"{mark.path}: {len(mark.hunk_refs) or 'all'} {mark.status}" + (f" ({mark.reason})" if mark.reason else "")
        for mark in marks
    ]
    return list_some(parts, MOST_SHOWN, between="; ")


TOOLS = (
    Tool(
        name="qa.test_index_get",
        summary="Return the QA index, the count of each status, and exactly what is still to be tested.",
        arguments=FeatureArguments,
        output=IndexText,
        roles=READERS,
        run=get,
    ),
    Tool(
        name="qa.test_index_update",
        summary="Mark hunks after a batch of tests; `passed` needs the gate runs that prove it.",
        arguments=UpdateIndex,
        output=UpdatedIndex,
        roles=TESTERS,
        run=update,
        mutates=True,
        brief=True,
    ),
)
