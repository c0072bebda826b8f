"""Seal: the dimensions of a proven tree with their verdict, signed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from aop.core.errors import Json
from aop.core.ids import CommitId, GateRunId, TreeId
from aop.core.text.json import canonical_json
from aop.forge.builds.audit.audit import audited
from aop.forge.builds.audit.audit_verdicts import AuditCheck
from aop.forge.builds.audit.checks.history_checks import check_ledger
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.builds.documents import BuildCycle, Seal
from aop.forge.builds.seal.dimensions import SealSubject, dimensions_of, reasons_of, total_score, unsigned_phases
from aop.forge.builds.seal.seal_verdict import bounds_of, verdict_of
from aop.forge.projects.documents import ForgeBuild, batch_digest
from aop.kernel.gateway.calls import Call
from aop.kernel.ports.signer import Signer
from aop.kernel.record.documents.base import digest_of
from aop.kernel.record.documents.features import FeatureState
from aop.kernel.record.documents.gate_runs import GateRun
from aop.kernel.record.port import Snapshot

SEALED = "build_sealed"


def scored_seal(subject: AuditSubject, seal_id: str, now: str) -> Seal:
    """Return the seal of a tree as it is now, without the last commit and without a signature."""
    checks = audited(subject)
    dimensions = dimensions_of(SealSubject(audit=subject, checks={check.code: check for check in checks}))
    score = total_score(dimensions)
    bounds = bounds_of(checks, unsigned=unsigned_phases(subject))
    return Seal(
        version=1,
        seal_id=seal_id,
        build_id=subject.cycle.build_id,
        project_id=subject.cycle.project_id,
        commit=subject.cycle.head,
        tree=subject.tree,
        batch=subject.batch.number,
        batch_sha256=subject.batch.sha256,
        gate_runs=gate_runs_of(subject),
        audit={check.code: check.verdict for check in checks},
        dimensions=dimensions,
        score=score,
        verdict=verdict_of(score, bounds),
        reasons=(*(each.told for each in bounds), *reasons_of(dimensions, checks)),
        sealed_at=now,
    )


def gate_runs_of(subject: AuditSubject) -> tuple[str, ...]:
    """Return the runs that a seal rests on: those of the sign-offs, and the one on the sealed tree."""
    last = subject.verification
    runs = [*(each.gate_run_id for each in subject.cycle.sign_offs), *(() if last is None else (last.run_id,))]
    return tuple(dict.fromkeys(runs))


def signed(seal: Seal, commit: CommitId, signer: Signer) -> Seal:
    """Return the seal with the last commit of its branch and its signature."""
    final = msgspec.structs.replace(seal, commit=commit, signature="")
    return msgspec.structs.replace(final, signature=signer.sign(signed_bytes(final)))


def signed_bytes(seal: Seal) -> bytes:
    """Return what the signature is over: the canonical JSON of everything but the signature itself."""
    plain: dict[str, Json] = msgspec.to_builtins(seal)
    return canonical_json({name: value for name, value in plain.items() if name != "signature"})


def flaws_of(call: Call, view: Snapshot, cycle: BuildCycle, state: FeatureState, seal: Seal) -> tuple[str, ...]:
    """Return why a seal is void: its signature, tree, branch, contracts or evidence are not what they were."""
    subject = AuditSubject(call, view, cycle, state)
    return tuple(
        flaw
        for flaws in (
            _own_flaws(subject, seal),
            _tree_flaws(subject, seal),
            _batch_flaws(subject, seal),
            _evidence_flaws(subject, seal),
        )
        for flaw in flaws
    )


def _own_flaws(subject: AuditSubject, seal: Seal) -> Iterator[str]:
    if not subject.call.kernel.signer.verify(signed_bytes(seal), seal.signature):
        yield "The signature does not fit the seal: it was changed, or another repository signed it."
    recorded = [entry.event.payload for entry in subject.events if entry.event.kind == SEALED]
    if not any(payload.get("document") == digest_of(seal) for payload in recorded):
        yield "The journal has no entry for this seal."


def _tree_flaws(subject: AuditSubject, seal: Seal) -> Iterator[str]:
    head = subject.call.kernel.git.branches.head(subject.cycle.branch)
    if head is None:
        yield f"The branch `{subject.cycle.branch}` is gone."
    elif head != seal.commit:
        tree = subject.objects.tree_of(head)
        files = len(subject.objects.changes(TreeId(seal.tree), tree))
        yield f"The branch moved from {seal.commit[:12]} to {head[:12]}, with {_files(files)}."
    elif subject.objects.tree_of(head) != seal.tree:
        yield f"The commit {head[:12]} does not have the sealed tree {seal.tree[:12]}."
    if subject.tree != seal.tree:
        yield f"The tree of the build is {subject.tree[:12]}, and {seal.tree[:12]} was sealed."


def _batch_flaws(subject: AuditSubject, seal: Seal) -> Iterator[str]:
    build = subject.view.get(ForgeBuild, seal.build_id)
    pinned = None if build is None else (build.batch, build.sha256)
    if pinned != (seal.batch, seal.batch_sha256):
        yield f"The build no longer reads batch {seal.batch} as it was sealed."
    elif batch_digest(subject.batch.contracts) != seal.batch_sha256:
        yield f"The contracts of batch {seal.batch} are not the ones that were sealed."


def _evidence_flaws(subject: AuditSubject, seal: Seal) -> Iterator[str]:
    for run_id in seal.gate_runs:
        if subject.view.get(GateRun, GateRunId(run_id)) is None:
            yield f"The gate run `{run_id}` is missing."
    ledger: AuditCheck = check_ledger(subject)
    if ledger.verdict != "PASS":
        yield from ledger.proof


def _files(number: int) -> str:
    return "the same files" if number == 0 else f"{number} changed file{'' if number == 1 else 's'}"
