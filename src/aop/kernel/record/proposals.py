"""Proposals: what a coding agent submitted in its turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from aop.core.ids import FeatureId
from aop.core.roles import Role
from aop.kernel.record.documents.base import Document
from aop.kernel.record.port import Snapshot, Transaction


class StoredProposal(Document, frozen=True, kw_only=True):
    """The newest proposal of one role for one feature."""

    kind: ClassVar[str] = "proposal"

    feature_id: FeatureId
    role: Role
    turn: str
    """The turn that it was made in; empty outside of one, where it is not used."""
    answer: Mapping[str, Any]
    """One of the four answers of a worker, as it goes over the wire (AOP-234)."""


def proposal_key(feature_id: FeatureId, role: Role) -> str:
    """Return where the record keeps the newest proposal."""
    return f"{feature_id}/{role}"


def proposal_in(view: Snapshot, turn: str, feature_id: FeatureId, role: Role) -> Mapping[str, Any] | None:
    """Return what was proposed last in a turn."""
    newest = view.get(StoredProposal, proposal_key(feature_id, role))
    return newest.answer if newest is not None and newest.turn == turn else None


def forget_proposals(tx: Transaction, feature_id: FeatureId) -> None:
    """Remove the proposals for a deleted feature."""
    for role in Role:
        tx.remove(StoredProposal, proposal_key(feature_id, role))
