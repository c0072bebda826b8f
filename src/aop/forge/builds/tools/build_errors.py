"""Build errors: tools that count, resolve, list and dismiss them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from aop.core.errors import InvalidArguments
from aop.core.ids import FeatureId
from aop.core.structs import copy_fields
from aop.forge.builds.cycle.lookup import the_cycle
from aop.forge.builds.documents import BuildError, build_error_key
from aop.forge.builds.people.errors import (
    FixMethod,
    SeenError,
    cleared_errors,
    counted_error,
    errors_of,
    fixed_errors,
    is_told,
    phase_summary,
    resolved_error,
    the_error,
)
from aop.forge.builds.people.fingerprints import lines_of
from aop.forge.builds.tools.cycles import BuildArguments
from aop.forge.projects.keys import READ_SCOPE, WRITE_SCOPE
from aop.kernel.gateway.calls import Call, Kernel, Outcome, Tool, committed
from aop.kernel.gateway.role_sets import COORDINATORS
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.port import Snapshot, Transaction

LOG_BYTES = 1_000_000
"""So much of the end of each log of a verification is searched for errors."""


class TrackErrors(BuildArguments, frozen=True, kw_only=True):
    errors: Annotated[tuple[SeenError, ...], Meta(min_length=1, max_length=200)]
    """The errors that were seen, in order."""


class ErrorFacts(Struct, frozen=True, kw_only=True):
    error_id: str
    """Its name in the build, which `forge.error_dismiss` takes."""
    build_id: str
    """The build."""
    fingerprint: str
    """The 16 characters that all its occurrences share."""
    source: str
    """The part of AOP that saw it."""
    severity: str
    """`fatal` if it ended the build."""
    phase: int | None
    """The phase in which it was last seen; null if in none."""
    file_path: str
    """The file that it is about; empty if unknown."""
    message: str
    """The text of its first occurrence."""
    occurrence_count: int
    """The number of times that it was seen."""
    first_seen: str
    """When it was first seen."""
    last_seen: str
    """When it was last seen."""
    resolved: bool
    """Whether it is resolved; seen again, it is not."""
    resolved_at: str
    """When it was resolved; empty while it is not."""
    resolution_method: str
    """`auto-fix`, `phase-complete` or `dismissed`; empty while it is not resolved."""
    resolution_summary: str
    """The fix or the phase that resolved it; empty if a person dismissed it."""


class TrackedErrors(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    error_ids: tuple[str, ...]
    """The error that each of those seen is counted as."""


class ResolveErrors(BuildArguments, frozen=True, kw_only=True):
    method: FixMethod
    """`auto-fix` after a fix that passed, `phase-complete` after a phase."""
    paths: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    """`auto-fix`: the files that the fix changed; their errors are resolved."""
    error_ids: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    """`auto-fix`: further errors that it resolves."""
    summary: Annotated[str, Meta(max_length=16_000)] = ""
    """`auto-fix`: what was done."""
    phase: Annotated[int, Meta(ge=0, le=999)] | None = None
    """`phase-complete`: the phase."""
    gate_run_id: Annotated[str, Meta(max_length=200)] = ""
    """`phase-complete`: its verification; an error that one of its logs shows stays open."""


class Resolved(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    error_ids: tuple[str, ...]
    """The errors that are resolved now and were not before."""


class BuildErrors(Struct, frozen=True, kw_only=True):
    build_id: str
    """The build."""
    unresolved: int
    """The number of those that are not resolved."""
    errors: tuple[ErrorFacts, ...]
    """All errors, the unresolved first."""


class DismissError(BuildArguments, frozen=True, kw_only=True):
    error_id: Annotated[str, Meta(min_length=1, max_length=80)]
    """The error, as `forge.errors_list` names it."""


def track(call: Call, arguments: TrackErrors, tx: Transaction) -> Outcome:
    """Count errors of a build; one that was seen before counts up, and is open again (FORGE-176)."""
    cycle = the_cycle(tx, arguments.build_id, call.principal)
    names = tuple(count_error(tx, call, cycle.build_id, each) for each in arguments.errors)
    return TrackedErrors(build_id=cycle.build_id, error_ids=names)


def count_error(tx: Transaction, call: Call, build_id: str, seen: SeenError) -> str:
    """Count an error, and tell those who follow the build; return its id."""
    clean = replace(seen, message=call.kernel.redact(seen.message))
    error = counted_error(tx, build_id, clean, call.kernel.now())
    key = build_error_key(build_id, error.fingerprint)
    before = tx.get(BuildError, key) if error.version > 1 else None
    tx.put(error, key)
    if is_told(before, error):
        tx.append(call.event("build_error_tracked", FeatureId(build_id), **msgspec.to_builtins(_facts(error))))
    return error.error_id


def resolve(call: Call, arguments: ResolveErrors) -> Outcome:
    """Resolve the errors that a fix or a completed phase did away with."""
    if (arguments.method == "phase-complete") != (arguments.phase is not None and bool(arguments.gate_run_id)):
        raise InvalidArguments("`phase-complete` needs `phase` and `gate_run_id`, and `auto-fix` has neither.")
    shown = _shown_lines(call.kernel, arguments) if arguments.gate_run_id else frozenset()

    def decide(tx: Transaction) -> Outcome:
        cycle = the_cycle(tx, arguments.build_id, call.principal)
        if arguments.phase is not None:
            found = cleared_errors(tx, cycle.build_id, arguments.phase, shown)
            summary = phase_summary(arguments.phase)
        else:
            found = fixed_errors(tx, cycle.build_id, arguments.paths, arguments.error_ids)
            summary = call.kernel.redact(arguments.summary)
        now = call.kernel.now()
        _store(tx, call, [resolved_error(each, arguments.method, now, summary) for each in found])
        return Resolved(build_id=cycle.build_id, error_ids=tuple(each.error_id for each in found))

    return call.commit(decide)


def _shown_lines(kernel: Kernel, arguments: ResolveErrors) -> frozenset[str]:
    """Return the lines that the logs of a verification have. Raises: InvalidArguments."""
    with kernel.record.read() as view:
        run = view.get(GateRun, arguments.gate_run_id)
    if run is None or run.feature_id != arguments.build_id:
        raise InvalidArguments(f"The build `{arguments.build_id}` has no gate run `{arguments.gate_run_id}`.")
    logs = (kernel.files.read_tail(step.log_path, limit=LOG_BYTES).decode(errors="replace") for step in run.steps)
    return frozenset(line for log in logs for line in lines_of(log))


def _store(tx: Transaction, call: Call, errors: Sequence[BuildError]) -> None:
    for error in errors:
        tx.put(error, build_error_key(error.build_id, error.fingerprint))
        facts = {"error_id": error.error_id, "method": error.resolution_method, "summary": error.resolution_summary}
        build = FeatureId(error.build_id)
        tx.append(call.event("build_error_resolved", build, build_id=error.build_id, **facts))


def list_errors(call: Call, arguments: BuildArguments) -> Outcome:
    """Return the errors of a build, the unresolved first."""
    with call.kernel.record.read() as view:
        return build_errors(view, the_cycle(view, arguments.build_id, call.principal).build_id)


def build_errors(view: Snapshot, build_id: str) -> BuildErrors:
    """Return the errors of a build as answers show them."""
    errors = tuple(map(_facts, errors_of(view, build_id)))
    return BuildErrors(build_id=build_id, unresolved=sum(not each.resolved for each in errors), errors=errors)


def dismiss(call: Call, arguments: DismissError, tx: Transaction) -> Outcome:
    """Dismiss an error that did not end the build; one that is resolved stays as it is."""
    cycle = the_cycle(tx, arguments.build_id, call.principal)
    error = the_error(tx, cycle.build_id, arguments.error_id)
    if not error.resolved:
        error = resolved_error(error, "dismissed", call.kernel.now())
        _store(tx, call, [error])
    return _facts(error)


def _facts(error: BuildError) -> ErrorFacts:
    return copy_fields(ErrorFacts, error)


TOOLS = (
    Tool(
        name="forge.error_track",
        summary="Count errors that were seen in a build.",
        arguments=TrackErrors,
        output=TrackedErrors,
        roles=COORDINATORS,
        run=committed(track),
        mutates=True,
        brief=True,
        person_only=True,
    ),
    Tool(
        name="forge.errors_resolve",
        summary="Resolve the errors that a fix or a completed phase did away with.",
        arguments=ResolveErrors,
        output=Resolved,
        roles=COORDINATORS,
        run=resolve,
        mutates=True,
        person_only=True,
    ),
    Tool(
        name="forge.errors_list",
        summary="List the errors of a build, the unresolved first.",
        arguments=BuildArguments,
        output=BuildErrors,
        roles=COORDINATORS,
        run=list_errors,
        person_only=True,
        key_scope=READ_SCOPE,
    ),
    Tool(
        name="forge.error_dismiss",
        summary="Dismiss an error of a build; an error that ended the build cannot be dismissed.",
        arguments=DismissError,
        output=ErrorFacts,
        roles=COORDINATORS,
        run=committed(dismiss),
        mutates=True,
        brief=True,
        idempotent=True,
        person_only=True,
        key_scope=WRITE_SCOPE,
    ),
)
