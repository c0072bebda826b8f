"""Proof of a tree: its verification, its tests and its audit, for a sign-off."""

from __future__ import annotations

from collections.abc import Mapping

from aop.core.errors import Refusal
from aop.forge.builds.audit.audit import audited
from aop.forge.builds.audit.audit_verdicts import AuditCheck
from aop.forge.builds.audit.counts import CountedTests, tests_of
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.builds.documents import BuildCycle, SignedOff
from aop.forge.builds.machine.events import TreeProof
from aop.forge.builds.machine.sign_off import claims_of
from aop.kernel.gateway.calls import Call
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun, Verdict
from aop.kernel.record.port import Snapshot

MOST_FOUND = 2
BLOCKING = frozenset({"FAIL", "ERROR"})
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
    tests = _tests(run, subject)
    failure = _failure(run)
    return TreeProof(
        tree=state.tree,
        commit=cycle.head,
        gate_run_id="" if run is None else run.run_id,
        failure=failure,
        tests=tests.tests,
        counted_by=tests.counted_by,
        audit=_blocking_checks(subject, leave_out=TOLD_BY_THE_RUN if run is None or failure else frozenset()),
        paths=frozenset(entry.path for entry in call.kernel.git.objects.entries(state.tree)),
    )


def _failure(run: GateRun | None) -> str:
    if run is None or run.verdict is Verdict.PASS:
        return ""
    return run.failure or f"run {run.run_id} failed"


def _tests(run: GateRun | None, subject: AuditSubject) -> CountedTests:
    """Return the tests of a tree; none if its code cannot be read, which every check of it says."""
    try:
        return tests_of(run, subject.code)
    except Refusal:
        return CountedTests(tests=0, counted_by="tree")


def _blocking_checks(subject: AuditSubject, leave_out: frozenset[str]) -> Mapping[str, str]:
    """Return the checks that keep a sign-off from counting: those that fail, and those that nothing is known of."""
    found = (check for check in audited(subject) if check.verdict in BLOCKING and check.code not in leave_out)
    return {check.code: _told(check) for check in found}


def _told(check: AuditCheck) -> str:
    proof = "; ".join(check.proof[:MOST_FOUND]).rstrip(".")
    if check.verdict == "FAIL":
        return f"{check.name}: {proof}"
    return (
        f"{check.name} could not be computed: {proof}. It is computed again at the next sign-off. If no file"
        " that you write can change this, write `=== STOP: ENVIRONMENT_LIMITATION ===`."
    )
