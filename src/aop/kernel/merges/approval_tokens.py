"""Approval tokens: a person's consent to one merge of one tree."""

from __future__ import annotations

from msgspec import Struct

from aop.core.errors import ApprovalInvalid
from aop.core.ids import ApprovalId, CommitId, FeatureId, GateRunId, TreeId
from aop.core.structs import copy_fields
from aop.kernel.gateway.signed_text import NotSigned, SignatureProblem, SignedForm
from aop.kernel.ports.signer import Signer
from aop.kernel.record.documents.approvals import Approval

PREFIX = "aop1"

_FORM = SignedForm(head=PREFIX, covered=f"approval:{PREFIX}:")
_PROBLEMS = {
    SignatureProblem.MALFORMED: "This is not an approval token.",
    SignatureProblem.FORGED: "The approval token was not made by this repository's `aop approve`.",
    SignatureProblem.UNREADABLE: "The approval token was made by another version of AOP.",
}


class ApprovalClaims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claims of a token; the signature covers all of them."""

    approval_id: ApprovalId
    feature_id: FeatureId
    tree: TreeId
    base: CommitId
    gate_runs: dict[str, GateRunId]
    config_hash: str


def token_for(approval: Approval, signer: Signer) -> str:
    """Return the token; the same approval gives the same token, so it is stored nowhere."""
    return _FORM.write(copy_fields(ApprovalClaims, approval), signer)


def read_approval_token(token: str, signer: Signer) -> ApprovalClaims:
    """Return the claims of a token that this repository signed. Raises: ApprovalInvalid."""
    try:
        return _FORM.read(token, ApprovalClaims, signer)
    except NotSigned as error:
        raise ApprovalInvalid(_PROBLEMS[error.problem]) from error
