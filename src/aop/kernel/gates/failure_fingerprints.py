"""Failure fingerprints: the same for failures that say the same."""

from __future__ import annotations

import re

from msgspec import Struct

from aop.core.digests import sha256_hex
from aop.kernel.gates.causes import Cause, cause_of, failed_pytest_ids, telling_line
from aop.kernel.gates.gate_runs import decisive_step
from aop.kernel.record.documents.gate_runs import GateRun

LOG_TAIL_BYTES = 8 * 1024
MOST_TESTS = 20
LONGEST_SUMMARY = 300
_CHANGING = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{7,64}\b|(?:/[\w.@+-]+){2,}/|\d+(?:\.\d+)?", re.IGNORECASE)
"""The parts in which two occurrences of one failure differ: addresses, hashes, folders and figures."""


class Failure(Struct, frozen=True, kw_only=True):
    """One failure, with what all of its kind have in common."""

    fingerprint: str
    summary: str
    """The failure in one line; it comes from a program."""
    cause: Cause


def failure_of_run(run: GateRun, log: str) -> Failure:
    """Return the failure of a gate run, from its decisive step and the end of its log."""
    step = decisive_step(run)
    cause = cause_of(step.outcome, step.exit_code, log)
    tests = failed_pytest_ids(log)
    # A run can fail although every step passed: by its coverage, or by a test of the base that is gone.
    line = telling_line(log) if log.strip() and step.outcome != "passed" else run.failure
    summary = ", ".join(sorted(tests)[:MOST_TESTS]) if tests else line
    common = _without_changing(summary, run.feature_id)
    return Failure(
        fingerprint=_fingerprint("gate", run.failure_code, step.name, common),
        summary=summary[:LONGEST_SUMMARY],
        cause=cause,
    )


def failure_of_feature(feature_id: str, reason: str) -> Failure:
    """Return the failure of a feature that stopped, from the reason of its status."""
    common = _without_changing(reason, feature_id)
    return Failure(fingerprint=_fingerprint("feature", common), summary=reason[:LONGEST_SUMMARY], cause=Cause.FAILED)


def _without_changing(text: str, feature_id: str) -> str:
    return " ".join(_CHANGING.sub("#", text.replace(feature_id, "@")).split())


def _fingerprint(*parts: str) -> str:
    return sha256_hex("\x00".join(parts).encode())[:12]
