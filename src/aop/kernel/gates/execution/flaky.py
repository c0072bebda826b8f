"""Flaky gates: a pass on a tree on which the same gates failed before."""

from __future__ import annotations

import msgspec

from aop.core.errors import GateFailed, TransientExecFailure
from aop.core.ids import FeatureId
from aop.kernel.config.policy import Policy
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, Subject, Verdict
from aop.kernel.record.port import Snapshot

FLAKY = "The same gates failed on this very tree before"


def with_known_failure(view: Snapshot, run: GateRun, policy: Policy) -> GateRun:
    """Add an earlier failure on the same subject to a pass, or turn it into a failure if the policy says so."""
    failure = _known_failure(view, run.feature_id, run.mode, run.subject)
    if run.verdict is not Verdict.PASS or failure is None:
        return run
    if policy.testing.allow_flaky_gates:
        return msgspec.structs.replace(run, findings=(*run.findings, failure))
    return msgspec.structs.replace(run, verdict=Verdict.FAIL, failure_code=GateFailed.code, failure=failure)


def _known_failure(view: Snapshot, feature_id: FeatureId, mode: str, subject: Subject) -> str | None:
    """Return the finding about the newest run of a mode, if it failed on the same subject, and not by the machine."""
    state = view.get(FeatureState, feature_id)
    latest = state.evidence.latest_by_mode.get(mode) if state else None
    before = view.get(GateRun, latest) if latest else None
    if before is None or before.subject != subject or before.failure_code == TransientExecFailure.code:
        return None
    if before.verdict is Verdict.FAIL and not before.failure.startswith(FLAKY):
        return f"{FLAKY} (`{before.run_id}`): a test is flaky, or depends on something outside of the tree."
    return next((text for text in (before.failure, *before.findings) if text.startswith(FLAKY)), None)
