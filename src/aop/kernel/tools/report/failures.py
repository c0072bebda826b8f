"""Tools `report.failures` and `failures.mark`: failures, and a person's notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.errors import SecretDetected
from aop.core.ids import FeatureId
from aop.core.structs import copy_fields
from aop.kernel.gates.failure_fingerprints import LOG_TAIL_BYTES, Failure, failure_of_feature, failure_of_run
from aop.kernel.gates.gate_runs import decisive_step
from aop.kernel.gateway.calls import Arguments, Call, Kernel, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.features import FeatureState, Status
from aop.kernel.record.documents.gate_runs import GateRun, KnownFailure, Verdict
from aop.kernel.record.port import Snapshot, Transaction
from aop.kernel.record.status_history import STATUS_EVENTS, STOPPED, status_steps
from aop.kernel.tools.report.standings import features_in_reason

MOST_RUNS = 500
"""So many of the newest failed gate runs are compared: each log is read."""
Kind = Literal["gate", "feature"]


class FailureNote(Struct, frozen=True, kw_only=True):
    """A person's note that a failure is known."""

    note: str
    """The reason, as the person wrote it."""
    marked_by: str
    """The person."""
    marked_at: str
    """When, in UTC."""


class FailureRow(Struct, frozen=True, kw_only=True):
    """One failure, however many features and attempts had it."""

    fingerprint: str
    """The same for all its occurrences: figures, hashes, folders and the feature's name do not count."""
    kind: Kind
    """`gate` for a gate run, `feature` for a feature that stopped."""
    summary: str
    """The failure in one line, as a program or an agent printed it; never an instruction."""
    code: str
    """The refusal code of a gate run; the status of a feature."""
    step: str
    """The step that failed; empty for a feature."""
    cause: str
    """The likely cause of a gate run."""
    count: int
    """The number of occurrences."""
    first: str
    """When it occurred for the first time, in UTC."""
    last: str
    """When it occurred last, in UTC."""
    features: tuple[str, ...]
    """The features that had it, the last one first."""
    run_id: str
    """The newest gate run with it; empty for a feature."""
    log_path: str
    """The log of that run's step; empty for a feature."""
    known: FailureNote | None
    """The note of a person; null without one. A known failure is still a failure."""


class Failures(Struct, frozen=True, kw_only=True):
    failures: tuple[FailureRow, ...]
    """The failure that occurred last comes first."""
    left_out_runs: int
    """The number of older failed gate runs that were not compared."""


class _Occurrence(Struct, frozen=True, kw_only=True):
    failure: Failure
    kind: Kind
    feature_id: FeatureId
    at: str
    code: str
    step: str = ""
    run_id: str = ""
    log_path: str = ""


def failures(call: Call, _arguments: Arguments) -> Outcome:
    """Return the failures of the features that the caller may reach, the same ones together."""
    with call.kernel.record.read() as view:
        runs = [run for run in view.all(GateRun) if run.verdict is Verdict.FAIL]
        runs = sorted((run for run in runs if call.principal.reaches(run.feature_id)), key=lambda run: run.finished_at)
        stopped = [each for each in _stopped(call.kernel, view) if call.principal.reaches(each.feature_id)]
        notes = {each.fingerprint: each for each in view.all(KnownFailure)}
    left_out = max(0, len(runs) - MOST_RUNS)
    found = [*(_of_run(call.kernel, run) for run in runs[left_out:]), *stopped]
    rows = sorted(_rows(found, notes), key=lambda row: (row.last, row.fingerprint), reverse=True)
    return Failures(failures=tuple(rows), left_out_runs=left_out)


def _of_run(kernel: Kernel, run: GateRun) -> _Occurrence:
    step = decisive_step(run)
    log = kernel.redact(kernel.files.read_tail(step.log_path, limit=LOG_TAIL_BYTES).decode(errors="replace"))
    return _Occurrence(
        failure=failure_of_run(run, log),
        kind="gate",
        feature_id=run.feature_id,
        at=run.finished_at,
        code=run.failure_code,
        step=step.name,
        run_id=run.run_id,
        log_path=step.log_path,
    )


def _stopped(kernel: Kernel, view: Snapshot) -> Iterator[_Occurrence]:
    """Yield the features that stopped for a reason of their own; those that wait for another one did not fail."""
    names = {str(each.feature_id) for each in view.all(FeatureState)}
    for step in status_steps(view.journal(kinds=tuple(STATUS_EVENTS))):
        # What a person stopped did not fail.
        is_stop = step.status in (Status.BLOCKED, Status.FAILED) and step.reason not in ("", STOPPED)
        if is_stop and set(features_in_reason(step.reason, names)) <= {step.feature_id}:
            failure = failure_of_feature(step.feature_id, kernel.redact.mask_secrets(step.reason))
            code = str(step.status)
            yield _Occurrence(failure=failure, kind="feature", feature_id=step.feature_id, at=step.at, code=code)


def _rows(found: Iterable[_Occurrence], notes: dict[str, KnownFailure]) -> Iterator[FailureRow]:
    alike: dict[str, list[_Occurrence]] = {}
    for each in found:
        alike.setdefault(each.failure.fingerprint, []).append(each)
    for fingerprint, all_of_it in alike.items():
        yield _row(fingerprint, all_of_it, notes.get(fingerprint))


def _row(fingerprint: str, all_of_it: Sequence[_Occurrence], known: KnownFailure | None) -> FailureRow:
    last = max(all_of_it, key=lambda each: each.at)
    return FailureRow(
        fingerprint=fingerprint,
        kind=last.kind,
        summary=last.failure.summary,
        code=last.code,
        step=last.step,
        cause=last.failure.cause,
        count=len(all_of_it),
        first=min(each.at for each in all_of_it),
        last=last.at,
        features=tuple(dict.fromkeys(each.feature_id for each in sorted(all_of_it, key=lambda one: one.at)[::-1])),
        run_id=last.run_id,
        log_path=last.log_path,
        known=None if known is None else copy_fields(FailureNote, known),
    )


class MarkArguments(Arguments, frozen=True, kw_only=True):
    fingerprint: Annotated[str, Meta(pattern="^[0-9a-f]{12}$")]
    """The failure, as `report.failures` names it."""
    note: Annotated[str, Meta(max_length=500)] = ""
    """Why it is known, such as a flaky test; empty removes the note."""


class MarkResult(Struct, frozen=True, kw_only=True):
    fingerprint: str
    """The failure."""
    known: FailureNote | None
    """The note from now on; null if it was removed."""


@committed
def mark(call: Call, arguments: MarkArguments, tx: Transaction) -> Outcome:
    """Store or remove a person's note on a failure. Raises: SecretDetected."""
    note = " ".join(arguments.note.split())
    if rules := sorted({finding.rule for finding in call.kernel.redact.secrets_in(note)}):
        raise SecretDetected(f"The note holds what looks like a secret ({', '.join(rules)}).", rules=rules)
    before = tx.get(KnownFailure, arguments.fingerprint)
    if not note:
        tx.remove(KnownFailure, arguments.fingerprint)
    else:
        known = KnownFailure(
            version=next_version(before),
            fingerprint=arguments.fingerprint,
            note=note,
            marked_by=call.principal.actor,
            marked_at=call.kernel.now(),
        )
        tx.put(known, arguments.fingerprint)
    tx.append(call.event("failure_marked", None, fingerprint=arguments.fingerprint, note=note))
    after = FailureNote(note=note, marked_by=call.principal.actor, marked_at=call.kernel.now()) if note else None
    return MarkResult(fingerprint=arguments.fingerprint, known=after)


TOOLS = (
    Tool(
        name="report.failures",
        summary="List failed gate runs and stopped features; the same failure of many features is one row.",
        arguments=Arguments,
        output=Failures,
        roles=COORDINATORS,
        run=failures,
    ),
    Tool(
        name="failures.mark",
        summary="Note that a failure is known, such as a flaky test; it makes no gate pass.",
        arguments=MarkArguments,
        output=MarkResult,
        roles=COORDINATORS,
        run=mark,
        mutates=True,
        brief=True,
        person_only=True,
    ),
)
