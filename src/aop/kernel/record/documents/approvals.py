"""Approval document: a person's approval of one tree."""

from collections.abc import Mapping
from typing import ClassVar

from aop.core.ids import ApprovalId, CommitId, FeatureId, GateRunId, OperationId, TreeId
from aop.kernel.record.documents.base import Document


class Approval(Document, frozen=True, kw_only=True):
    """A person's yes to one tree on one base, with the evidence and the policy that they saw."""

    kind: ClassVar[str] = "approval"

    approval_id: ApprovalId
    feature_id: FeatureId
    tree: TreeId
    base: CommitId
    gate_runs: Mapping[str, GateRunId]
    config_hash: str
    approved_by: str
    approved_at: str
    spent_by: OperationId | None = None
    signer: str = ""
    """The allowed signer who signed it; empty where the policy names none."""
    signature: str = ""
    signed_at: str = ""
    withdrawn: str = ""
    """Why it was withdrawn although its tree has not changed."""
