"""Approval signatures: a signer of the policy signs one approval of one tree."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from aop.core.errors import ApprovalInvalid, SignatureRequired, SignaturesUnavailable
from aop.core.ids import CommitId, FeatureId, GateRunId, TreeId
from aop.core.structs import copy_fields
from aop.core.text.json import canonical_json
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.documents.approvals import Approval
from aop.kernel.record.port import Snapshot

NAMESPACE = "aop-approval"
"""The purpose that OpenSSH signs with the text: a signature made for anything else is not an approval."""


class ApprovalStatement(Struct, frozen=True, kw_only=True):
    """The facts that a signer signs; the time makes each statement another one."""

    feature_id: FeatureId
    tree: TreeId
    base: CommitId
    gate_runs: dict[str, GateRunId]
    config_hash: str
    signed_at: str

    def text(self) -> bytes:
        """Return what is signed."""
        return canonical_json(msgspec.to_builtins(self))


def statement_of(approval: Approval) -> ApprovalStatement:
    """Return the statement that the signature of an approval covers."""
    return copy_fields(ApprovalStatement, approval, gate_runs=dict(approval.gate_runs))


def check_signature(kernel: Kernel, approval: Approval) -> str:
    """Return who signed an approval; empty if nobody has to. Raises: SignatureRequired, SignaturesUnavailable."""
    signers = kernel.config().policy.approval.signers
    if not signers:
        return ""
    if not approval.signature:
        raise SignatureRequired(
            f"The approval of `{approval.feature_id}` is not signed, and the policy names who signs.",
            feature_id=approval.feature_id,
        )
    if kernel.signatures is None:
        raise SignaturesUnavailable("This AOP checks no signatures of people.")
    signer = kernel.signatures.signer_of(statement_of(approval).text(), approval.signature, signers)
    if signer is None:
        raise SignatureRequired(
            f"The approval of `{approval.feature_id}` is not signed by a signer of the policy.",
            feature_id=approval.feature_id,
        )
    return signer


def refuse_repeated(view: Snapshot, approval: Approval) -> None:
    """Refuse a signature that an earlier approval was made with. Raises: ApprovalInvalid."""
    if approval.signature and any(
        statement_of(each) == statement_of(approval) for each in view.all(Approval) if each.signature
    ):
        raise ApprovalInvalid(
            f"This signature for `{approval.feature_id}` was used already.",
            hint="Sign again with `aop approve FEATURE --key FILE`.",
            feature_id=approval.feature_id,
        )
