"""Proof of a tree: its verification, its tests and its audit, for a sign-off."""

from __future__ import annotations

from collections.abc import Mapping

from aop.forge.builds.audit.audit import audited
from aop.forge.builds.audit.counts import tests_of
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.machine.events import SignedOff, TreeProof
from aop.forge.builds.machine.sign_off import claims_of
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, Verdict
from aop.kernel.record.port import Snapshot

MOST_FOUND = 2
TOLD_BY_THE_RUN = frozenset({"A7", "A8"})
"""The checks that say again that a verification is missing or did not pass."""


def deliverables_of_phase(subject: AuditSubject) -> tuple[str, ...]:
    """Return the deliverables of the current phase, in their order."""
    number = subject.cycle.current.number
    return next((phase.deliverables for phase in subject.phases.phases if phase.number == number), ())


def proof_of(call: Call, view: Snapshot, cycle: BuildCycle, state: FeatureState, said: SignedOff) -> TreeProof:
    """Return what AOP finds on the tree of a build, for a sign-off that names its evidence."""
    plain = AuditSubject(call, view, cycle, state)
    subject = AuditSubject(call, view, cycle, state, claims_of(said, deliverables_of_phase(plain)))
    run = subject.verification
    tests = tests_of(run, subject.code)
    failure = _failure(run)
    return TreeProof(
        tree=state.tree,
        commit=cycle.head,
        gate_run_id="" if run is None else run.run_id,
        failure=failure,
        tests=tests.tests,
        counted_by=tests.counted_by,
        audit=_failed_checks(subject, leave_out=TOLD_BY_THE_RUN if run is None or failure else frozenset()),
        paths=frozenset(entry.path for entry in call.kernel.git.objects.entries(state.tree)),
    )


def _failure(run: GateRun | None) -> str:
    if run is None or run.verdict is Verdict.PASS:
        return ""
    return run.failure or f"run {run.run_id} failed"


def _failed_checks(subject: AuditSubject, leave_out: frozenset[str]) -> Mapping[str, str]:
    failed = (check for check in audited(subject) if check.verdict == "FAIL" and check.code not in leave_out)
    return {check.code: f"{check.name}: {'; '.join(check.proof[:MOST_FOUND])}" for check in failed}
