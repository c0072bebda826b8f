"""Role sessions: which role works on a feature, in which session, and which waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from aop.core.ids import FeatureId
from aop.kernel.record.documents.base import next_version
from aop.kernel.record.documents.features import Cluster, FeatureState, RoleStatus, RoleStatuses, Status
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.documents.usage import OpenTurn
from aop.kernel.record.port import Snapshot, Transaction

ROLES = RoleStatuses.__struct_fields__
"""The roles that work on a feature, in the order of their phases."""
SessionId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
_DONE_BEFORE = {Status.PLANNING: 0, Status.BUILDING: 1, Status.QA: 2, Status.READY_TO_MERGE: 3, Status.MERGED: 3}


def role_statuses(view: Snapshot, state: FeatureState) -> RoleStatuses:
    """Return the status of each role, from the feature's status, its open turns and its open questions.

    Roles whose phase is over are done. The next one is blocked if the feature is, or if a person has to answer first.
    """
    done = _roles_done(state)
    statuses: dict[str, RoleStatus] = {role: "done" if place < done else "ready" for place, role in enumerate(ROLES)}
    if done < len(ROLES) and (state.status in (Status.BLOCKED, Status.FAILED) or _is_asked_about(view, state)):
        statuses[ROLES[done]] = "blocked"
    for turn in view.all(OpenTurn):
        if turn.feature_id == state.feature_id and turn.worker in statuses:
            statuses[turn.worker] = "running"
    return RoleStatuses(**statuses)


def _roles_done(state: FeatureState) -> int:
    """Return how many phases are over; of a failed feature, those that were over before."""
    if state.status == Status.FAILED:
        return [getattr(state.role_status, role) == "done" for role in ROLES].count(True)
    if state.status != Status.BLOCKED:
        return _DONE_BEFORE[state.status]
    # A feature that was ready is proven again.
    return min(_DONE_BEFORE[state.blocked_from or Status.PLANNING], _DONE_BEFORE[Status.QA])


def _is_asked_about(view: Snapshot, state: FeatureState) -> bool:
    return any(question.is_open and question.concerns(state.feature_id) for question in view.all(Question))


def program_session(state: FeatureState, role: str) -> str:
    """Return the session of a role's agent that may go on; empty if AOP knows none, or only that of a turn."""
    known = str(getattr(state.cluster, f"{role}_session_id"))
    return "" if known == "unknown" or known.startswith("turn-") else known


def renew_roles(tx: Transaction, feature_id: FeatureId, *, now: str, sessions: Mapping[str, str] | None = None) -> None:
    """Store what the roles of a feature do now, and the newest session of some; without a change, nothing.

    A feature on which no role has begun has nothing to renew; that of a gated workflow is stored by its own session.
    """
    state = tx.get(FeatureState, feature_id)
    if state is None or (sessions is None and state.cluster == Cluster()):
        return
    names = {f"{role}_session_id": session for role, session in (sessions or {}).items() if session}
    after = msgspec.structs.replace(
        state, role_status=role_statuses(tx, state), cluster=msgspec.structs.replace(state.cluster, **names)
    )
    if after != state:
        tx.put(msgspec.structs.replace(after, version=next_version(state), last_updated=now), feature_id)
        tx.mark_unshown("feature", feature_id)
