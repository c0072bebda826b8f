"""Tools `feature.state_patch` and `feature.log_append`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from aop.core.errors import ForbiddenToolForRole, InvalidArguments, InvalidStatusTransition
from aop.core.roles import Role
from aop.core.structs import Part, copy_fields
from aop.kernel.features.lifecycle import change_status, manual_steps, step_refusal, store_feature, with_status
from aop.kernel.gateway.calls import Call, ChangeArguments, Outcome, Tool, committed, feature_named, the_feature
from aop.kernel.gateway.principals import Principal
from aop.kernel.gateway.role_sets import COORDINATORS, READERS
from aop.kernel.plans.waiting_queue import release_for_status
from aop.kernel.record.documents.features import FeatureState, RoleStatus, Status
from aop.kernel.record.port import Transaction
from aop.kernel.record.role_sessions import SessionId


class RolePatch(Part, frozen=True, kw_only=True):
    planner: RoleStatus | None = None
    """The status of the planner."""
    builder: RoleStatus | None = None
    """The status of the builder."""
    qa: RoleStatus | None = None
    """The status of QA."""


class ClusterPatch(Part, frozen=True, kw_only=True):
    orchestrator_session_id: SessionId | None = None
    planner_session_id: SessionId | None = None
    builder_session_id: SessionId | None = None
    qa_session_id: SessionId | None = None


class StatePatch(Part, frozen=True, kw_only=True):
    """All that may be set by hand. Tree, base, gates, evidence and version follow from work alone."""

    status: Status | None = None
    status_reason: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    role_status: RolePatch = RolePatch()
    cluster: ClusterPatch = ClusterPatch()


class StatePatchArguments(ChangeArguments, frozen=True, kw_only=True):
    expected_version: Annotated[int, Meta(ge=1)]
    patch: StatePatch
    """The fields to set; the rest stays as it is."""


class StatePatchResult(Struct, frozen=True, kw_only=True):
    feature_id: str
    version: int
    status: Status
    status_reason: str
    changed: tuple[str, ...]
    """The names of the fields that the patch set."""


@committed
def state_patch(call: Call, arguments: StatePatchArguments, tx: Transaction) -> Outcome:
    """Set a status that needs no proof, with a reason, or the roles and sessions of the feature."""
    patch = _without_secrets(call, arguments.patch)
    changed = tuple(msgspec.to_builtins(patch))
    if not changed:
        raise InvalidArguments("The patch changes nothing.", allowed=list(StatePatch.__struct_fields__))
    state = the_feature(tx, arguments)
    after = msgspec.structs.replace(
        _with_status(state, patch, call.principal),
        role_status=msgspec.structs.replace(state.role_status, **msgspec.to_builtins(patch.role_status)),
        cluster=msgspec.structs.replace(state.cluster, **msgspec.to_builtins(patch.cluster)),
    )
    if after.status is state.status:
        stored = store_feature(tx, state, after, now=call.kernel.now())
    else:
        stored = change_status(tx, call, state, after)
        release_for_status(tx, call, stored)
    tx.append(call.event("state_patched", stored.feature_id, patch=msgspec.to_builtins(patch)))
    version = feature_named(tx, stored.feature_id).version
    return copy_fields(StatePatchResult, stored, version=version, changed=changed)


def _without_secrets(call: Call, patch: StatePatch) -> StatePatch:
    reason = patch.status_reason
    return patch if reason is None else msgspec.structs.replace(patch, status_reason=_one_line(call, reason))


def _with_status(state: FeatureState, patch: StatePatch, caller: Principal) -> FeatureState:
    if patch.status is None:
        reason = state.status_reason if patch.status_reason is None else patch.status_reason
        return msgspec.structs.replace(state, status_reason=reason)
    allowed = manual_steps(state)
    if patch.status not in allowed:
        raise step_refusal(state, patch.status, allowed)
    if patch.status is Status.FAILED and not (caller.person or caller.role is Role.SYSTEM):
        raise ForbiddenToolForRole(
            f"Only a person or the system may set `{state.feature_id}` to `failed`.",
            hint="Set `blocked` with a reason; a person decides.",
            role=caller.role,
            status=patch.status,
        )
    if not patch.status_reason:
        raise InvalidStatusTransition(
            f"The feature `{state.feature_id}` cannot become `{patch.status}` without a reason.",
            hint="Say why in `status_reason`; people read it.",
            feature_id=state.feature_id,
            status=state.status,
            allowed=sorted(allowed),
        )
    return with_status(state, patch.status, reason=patch.status_reason)


class NoteArguments(ChangeArguments, frozen=True, kw_only=True):
    note: Annotated[str, Meta(min_length=1, max_length=4000)]
    """A note for people; stored as one line, without secrets."""


class StoredNote(Struct, frozen=True, kw_only=True):
    feature_id: str
    seq: int
    """The number of the note in the journal."""
    at: str
    """When it was stored, in UTC."""
    actor: str
    """The author."""
    note: str
    """As it was stored: one line, without secrets."""


@committed
def log_append(call: Call, arguments: NoteArguments, tx: Transaction) -> Outcome:
    """Store a note in the journal, with author and time; `decisions.md` shows it."""
    note = _one_line(call, arguments.note)
    state = the_feature(tx, arguments)
    entry = tx.append(call.event("note_added", state.feature_id, note=note))
    tx.mark_unshown("decisions", state.feature_id)
    return StoredNote(feature_id=state.feature_id, seq=entry.seq, at=entry.event.at, actor=entry.event.actor, note=note)


def _one_line(call: Call, text: str) -> str:
    """Return a text as one line, without secrets. Raises: InvalidArguments if nothing is left of it."""
    line = " ".join(call.kernel.redact(text).split())
    if not line:
        raise InvalidArguments("The text is only white space.", tool=call.tool.name)
    return line


TOOLS = (
    Tool(
        name="feature.state_patch",
        summary="Set a status that needs no proof (blocked, back to work), with a reason, or who works on the feature.",
        arguments=StatePatchArguments,
        output=StatePatchResult,
        roles=COORDINATORS,
        run=state_patch,
        mutates=True,
        brief=True,
        expandable=True,
    ),
    Tool(
        name="feature.log_append",
        summary="Add a note about the feature to the journal, with your name and the time.",
        arguments=NoteArguments,
        output=StoredNote,
        roles=READERS,
        run=log_append,
        mutates=True,
        brief=True,
    ),
)
