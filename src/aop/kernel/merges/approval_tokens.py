"""Approvals: a person's yes to one tree, as a token that opens one merge and nothing else."""

from __future__ import annotations

import base64
import binascii

import msgspec
from msgspec import Struct

from aop.core.errors import ApprovalInvalid, Json
from aop.core.ids import ApprovalId, CommitId, FeatureId, GateRunId, TreeId
from aop.core.text.json import MalformedText, canonical_json, parse_json
from aop.kernel.ports.signer import Signer
from aop.kernel.record.documents.approvals import Approval

PREFIX = "aop1"
LONGEST_TOKEN = 4096


class ApprovalClaims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a token says; the signature covers all of it."""

    approval_id: ApprovalId
    feature_id: FeatureId
    tree: TreeId
    base: CommitId
    gate_runs: dict[str, GateRunId]
    config_hash: str


def claims_of(approval: Approval) -> ApprovalClaims:
    """Return what a token for this approval says."""
    return ApprovalClaims(
        approval_id=approval.approval_id,
        feature_id=approval.feature_id,
        tree=approval.tree,
        base=approval.base,
        gate_runs=dict(approval.gate_runs),
        config_hash=approval.config_hash,
    )


def token_for(approval: Approval, signer: Signer) -> str:
    """Return the token; the same approval gives the same token, so it need not be kept anywhere."""
    body = canonical_json(msgspec.to_builtins(claims_of(approval)))
    payload = base64.urlsafe_b64encode(body).rstrip(b"=").decode()
    return f"{PREFIX}.{payload}.{signer.sign(_signed(payload))}"


def read_approval_token(token: str, signer: Signer) -> ApprovalClaims:
    """Return the claims of a token that this repository signed.

    Raises: ApprovalInvalid.
    """
    prefix, payload, signature = _parts(token)
    if prefix != PREFIX or not signer.verify(_signed(payload), signature):
        raise ApprovalInvalid("The approval token was not made by this repository's `aop approve`.")
    try:
        body: Json = parse_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return msgspec.convert(body, ApprovalClaims)
    except (binascii.Error, MalformedText, msgspec.ValidationError) as error:
        raise ApprovalInvalid("The approval token is of another version of AOP.") from error


def _parts(token: str) -> tuple[str, str, str]:
    if len(token) > LONGEST_TOKEN or not token.isascii() or token.count(".") != 2:
        raise ApprovalInvalid("This is not an approval token.")
    prefix, payload, signature = token.split(".")
    return prefix, payload, signature


def _signed(payload: str) -> bytes:
    return f"approval:{PREFIX}:{payload}".encode()
