"""Errors of a build: one document a fingerprint, counted, resolved, reopened."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from aop.core.errors import ErrorIsFatal, UnknownBuildError
from aop.forge.builds.documents import BuildError, build_error_key
from aop.forge.builds.people.fingerprints import file_in, fingerprint_of, signs_of
from aop.kernel.record.documents.base import revise
from aop.kernel.record.port import Snapshot

LONGEST_MESSAGE = 4_000
MOST_ERRORS = 500
"""So many different errors of a build are listed one by one."""
FURTHER_ERRORS = "There are further errors, which are not listed one by one."

FixMethod = Literal["auto-fix", "phase-complete"]


class SeenError(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An error that was just seen."""

    message: Annotated[str, Meta(min_length=1, max_length=100_000)]
    """The text; its line numbers, addresses and ids do not tell two errors apart."""
    source: Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,39}$")] = "build_log"
    """The part of AOP that saw it."""
    severity: Literal["error", "fatal"] = "error"
    """`fatal` for an error that ended the build."""
    phase: Annotated[int, Meta(ge=0, le=999)] | None = None
    """The phase in which it was seen."""
    file_path: Annotated[str, Meta(max_length=400)] = ""
    """The file; empty: the one that the message names."""


def errors_of(view: Snapshot, build_id: str) -> tuple[BuildError, ...]:
    """Return the errors of a build: the unresolved first, of each kind the newest first."""
    found = sorted(view.all(BuildError, f"{build_id}/"), key=lambda each: each.last_seen, reverse=True)
    return tuple(sorted(found, key=lambda each: each.resolved))


def the_error(view: Snapshot, build_id: str, error_id: str) -> BuildError:
    """Return an error of a build by its id. Raises: UnknownBuildError."""
    found = next((each for each in view.all(BuildError, f"{build_id}/") if each.error_id == error_id), None)
    if found is None:
        raise UnknownBuildError(build_id, error_id)
    return found


def counted_error(view: Snapshot, build_id: str, seen: SeenError, now: str) -> BuildError:
    """Return the document of an error that was seen: the first, or one more of its kind, which is open again."""
    known = view.get(BuildError, build_error_key(build_id, _fingerprint(seen)))
    number = 0
    if known is None:
        number = 1 + sum(1 for _ in view.all(BuildError, f"{build_id}/"))
        if number > MOST_ERRORS:
            seen = SeenError(message=FURTHER_ERRORS, source=seen.source, severity=seen.severity, phase=seen.phase)
            known = view.get(BuildError, build_error_key(build_id, _fingerprint(seen)))
    if known is None:
        return _first(build_id, seen, now, number)
    return revise(
        known,
        occurrence_count=known.occurrence_count + 1,
        last_seen=now,
        phase=known.phase if seen.phase is None else seen.phase,
        resolved=False,
        resolved_at="",
        resolution_method="",
        resolution_summary="",
    )


def _first(build_id: str, seen: SeenError, now: str, number: int) -> BuildError:
    return BuildError(
        version=1,
        error_id=f"e{number}",
        build_id=build_id,
        fingerprint=_fingerprint(seen),
        source=seen.source,
        severity=seen.severity,
        phase=seen.phase,
        file_path=seen.file_path or file_in(seen.message[:LONGEST_MESSAGE]),
        message=seen.message[:LONGEST_MESSAGE],
        first_seen=now,
        last_seen=now,
    )


def _fingerprint(seen: SeenError) -> str:
    return fingerprint_of(seen.source, seen.severity, seen.message[:LONGEST_MESSAGE])


def is_told(before: BuildError | None, after: BuildError) -> bool:
    """Tell whether an occurrence is an event: the first, one that reopens, and each time that the count has doubled.

    A loop that repeats one error ten thousand times leaves 14 events, and the right count.
    """
    count = after.occurrence_count
    return before is None or before.resolved or count & (count - 1) == 0


def fixed_errors(view: Snapshot, build_id: str, paths: Collection[str], error_ids: Collection[str]) -> list[BuildError]:
    """Return the open errors that a fix resolves: those it names, and those of the files that it changed."""
    return [
        each for each in _open_errors(view, build_id) if each.error_id in error_ids or each.file_path in {*paths} - {""}
    ]


def cleared_errors(view: Snapshot, build_id: str, phase: int, shown: Collection[str]) -> list[BuildError]:
    """Return the open errors of a phase, and of none, that its verification does not show again.

    `shown` has the normalised lines of the logs of the verification.
    """
    return [
        each
        for each in _open_errors(view, build_id)
        if (each.phase is None or each.phase <= phase) and signs_of(each.message).isdisjoint(shown)
    ]


def _open_errors(view: Snapshot, build_id: str) -> Iterator[BuildError]:
    return (each for each in view.all(BuildError, f"{build_id}/") if not each.resolved)


def resolved_error(
    error: BuildError, method: FixMethod | Literal["dismissed"], now: str, summary: str = ""
) -> BuildError:
    """Return an error that is resolved. Raises: ErrorIsFatal if a fatal one is dismissed."""
    if method == "dismissed" and error.severity == "fatal":
        raise ErrorIsFatal(
            f"The error `{error.error_id}` ended the build, so it cannot be dismissed.", error_id=error.error_id
        )
    return revise(
        error, resolved=True, resolved_at=now, resolution_method=method, resolution_summary=summary[:LONGEST_MESSAGE]
    )


def phase_summary(phase: int) -> str:
    """Return why the errors of a phase count as resolved (FORGE-180)."""
    return f"Phase {phase} completed — errors cleared"
